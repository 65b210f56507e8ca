// Package monitoring tests the alert rules and the dashboard in deploy/monitoring with the parsers of the programs that
// use them.
package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"gopkg.in/yaml.v3"
)

const folder = "../../deploy/monitoring/"

// metrics returns the metrics in the manual. A test of the coordinator compares the manual with the code.
func metrics(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/manual/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(writ_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		names = append(names, row[1])
	}
	if len(names) == 0 {
		t.Fatal("the manual lists no metrics")
	}
	return names
}

// check fails the test unless an expression is valid and uses known metrics.
func check(t *testing.T, what, expression string, known []string) {
	t.Helper()
	if _, err := metricsql.Parse(expression); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	used := regexp.MustCompile(`writ_[a-z_]+`).FindAllString(expression, -1)
	if len(used) == 0 {
		t.Errorf("%s uses no metric of writ: %s", what, expression)
	}
	for _, name := range used {
		if !slices.Contains(known, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("%s uses the unknown metric %s", what, name)
		}
	}
}

// checkRemedy fails the test unless the description of an alert names a next step: a command, a flag or a log. Commands
// of writ must be in the reference.
func checkRemedy(t *testing.T, alert, description string, reference []byte) {
	t.Helper()
	if !regexp.MustCompile("`[a-z]|systemctl |journalctl |--[a-z]|[Ll]og of").MatchString(description) {
		t.Errorf("%s names no command or log: %s", alert, description)
	}
	for _, command := range regexp.MustCompile("`(writ(?: [a-z]+)+)").FindAllStringSubmatch(description, -1) {
		if !regexp.MustCompile("(?m)^#+ " + command[1] + "$").Match(reference) {
			t.Errorf("%s names the unknown command %q", alert, command[1])
		}
	}
}

func TestAlertsAreAboutMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile(folder + "writ-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	known, rules := metrics(t), 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			rules++
			check(t, r.Alert, r.Expr, known)
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks a required field: %+v", r.Alert, r)
			}
			checkRemedy(t, r.Alert, r.Annotations["description"], reference)
		}
	}
	if rules < 10 {
		t.Errorf("got %d rules", rules)
	}
}

func TestTheGrafanaDashboardIsAboutMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile(folder + "writ-grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	known := metrics(t)
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("the panel %q is empty", p.Title)
		}
		for _, target := range p.Targets {
			check(t, p.Title, target.Expr, known)
		}
	}
	if len(dashboard.Panels) < 10 {
		t.Errorf("got %d panels", len(dashboard.Panels))
	}
}
