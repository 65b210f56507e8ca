// Package metricspage compares the metrics of a process with their page in the manual and with their golden file.
package metricspage

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"writ/internal/metrics"
)

var (
	listed    = regexp.MustCompile("(?m)^\\| `(writ_[a-z_]+)`")
	described = regexp.MustCompile(
		`fqName: "(writ_[a-z_]+)", help: ("(?:[^"\\]|\\.)*").* constLabels: {(.*)}, variableLabels: {(.*)}}$`)
	constant = regexp.MustCompile(`="[^"]*"`)
)

// Check fails the test unless a section of docs/manual/monitoring.md and its golden file in testdata list exactly the
// metrics that the parts declare. The golden file has the name, the labels and the help text of each metric, because
// alert rules depend on them. root is the directory of the repository.
func Check(t testing.TB, root, section string, parts ...metrics.Part) {
	t.Helper()
	var names, found []string
	all := make(chan *prometheus.Desc, 1000)
	for _, part := range parts {
		part.Declared(all)
	}
	close(all)
	for d := range all {
		metric := described.FindStringSubmatch(d.String())
		if metric == nil {
			continue // metrics of Go and of the process
		}
		help, err := strconv.Unquote(metric[2])
		if err != nil {
			t.Fatal(err)
		}
		labels := strings.FieldsFunc(constant.ReplaceAllString(metric[3]+","+metric[4], ""),
			func(r rune) bool { return r == ',' })
		slices.Sort(labels)
		names = append(names, metric[1])
		found = append(found, fmt.Sprintf("%s{%s} %s", metric[1], strings.Join(labels, ","), help))
	}
	slices.Sort(names)
	slices.Sort(found)
	page := string(read(t, root, "docs/manual/monitoring.md"))
	page = regexp.MustCompile(`(?s)\n## ` + regexp.QuoteMeta(section) + `\n.*?(\n## |$)`).FindString(page)
	var manual []string
	for _, row := range listed.FindAllStringSubmatch(page, -1) {
		manual = append(manual, row[1])
	}
	slices.Sort(manual)
	if len(names) == 0 || !slices.Equal(manual, names) {
		t.Errorf("section %q of docs/manual/monitoring.md has %q, the part has %q", section, manual, names)
	}
	file := "internal/test/metricspage/testdata/" + strings.ReplaceAll(strings.ToLower(section), " ", "_") + ".txt"
	golden := strings.Split(strings.TrimSpace(string(read(t, root, file))), "\n")
	for _, metric := range golden {
		if !slices.Contains(found, metric) {
			t.Errorf("%s has a metric that the part lacks:\n%s", file, metric)
		}
	}
	for _, metric := range found {
		if !slices.Contains(golden, metric) {
			t.Errorf("%s lacks a metric of the part:\n%s", file, metric)
		}
	}
}

func read(t testing.TB, root, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
