// Package manual compares the limits and the messages of a starting machine with docs/manual/boot.md.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"writ/efi/progress"
	"writ/internal/test/gosource"
)

// Page is the text of docs/manual/boot.md.
type Page string

// Read reads the page.
func Read(t *testing.T) Page {
	t.Helper()
	root, err := gosource.Module()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/manual/boot.md"))
	if err != nil {
		t.Fatal(err)
	}
	return Page(text)
}

// HasLimit fails the test unless the table of waits has the limit of a stage.
func (p Page) HasLimit(t *testing.T, stage string, l progress.Limit) {
	t.Helper()
	want := "none: " + l.Then
	if l.Most > 0 {
		want = fmt.Sprintf("%.0f s.*, then %s", l.Most.Seconds(), regexp.QuoteMeta(l.Then))
	}
	if !regexp.MustCompile("(?m)^\\| `" + stage + "` \\| .* \\| .*" + want).MatchString(string(p)) {
		t.Errorf("the manual lacks the limit of %s: %s", stage, want)
	}
}

// HasFaults fails the test unless a row of the table of faults quotes each error. Joined errors are checked one by one.
func (p Page) HasFaults(t *testing.T, errs ...error) {
	t.Helper()
	quotes := p.faults()
	if len(quotes) < 25 {
		t.Errorf("the table of faults quotes only %d messages", len(quotes))
	}
	for _, joined := range errs {
		for _, err := range progress.Flatten(joined) {
			if !slices.ContainsFunc(quotes, func(q *regexp.Regexp) bool { return q.MatchString(err.Error()) }) {
				t.Errorf("no row of the manual quotes %q", err)
			}
		}
	}
}

// faults returns the messages that the table of faults quotes. An ellipsis stands for any text.
func (p Page) faults() (quotes []*regexp.Regexp) {
	_, table, _ := strings.Cut(string(p), "## What can go wrong")
	table, _, _ = strings.Cut(table, "\n#")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		messages, _, _ := strings.Cut(line, " | ")
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(messages, -1) {
			parts := strings.Split(found[1], "…")
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			quotes = append(quotes, regexp.MustCompile(strings.Join(parts, ".+")))
		}
	}
	return quotes
}
