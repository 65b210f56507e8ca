// Package metricspage compares the metrics of a process with their page in the manual.
package metricspage

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	listedMetric    = regexp.MustCompile("(?m)^\\| `(writ_[a-z_]+)`")
	describedMetric = regexp.MustCompile(`fqName: "(writ_[a-z_]+)"`)
)

// Check fails the test unless a section of docs/manual/monitoring.md lists exactly the described metrics. root
// is the directory of the repository.
func Check[D fmt.Stringer](t testing.TB, root, section string, describe func(chan<- D)) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "manual", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)\n## ` + regexp.QuoteMeta(section) + `\n.*?(\n## |$)`).Find(page)
	var listed, there []string
	for _, row := range listedMetric.FindAllSubmatch(text, -1) {
		listed = append(listed, string(row[1]))
	}
	all := make(chan D, 1000)
	describe(all)
	close(all)
	for d := range all {
		if name := describedMetric.FindStringSubmatch(d.String()); name != nil {
			there = append(there, name[1])
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	if len(there) == 0 || !slices.Equal(listed, there) {
		t.Errorf("the section %q has %q, the part %q", section, listed, there)
	}
}
