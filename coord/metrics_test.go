package coord

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What is in the page of the manual is what there is to watch: rules of alerts are written by it.
func TestTheManualListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/manual/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, there []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(writ_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
	}
	all := make(chan *prometheus.Desc, 1000)
	newMetrics(&Coordinator{}).registry.Describe(all)
	close(all)
	for d := range all {
		if name := regexp.MustCompile(`fqName: "(writ_[a-z_]+)"`).FindStringSubmatch(d.String()); name != nil {
			there = append(there, name[1])
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("the page has %q, the coordinator %q", listed, there)
	}
}
