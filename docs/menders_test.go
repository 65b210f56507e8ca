package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/sal/catalog"
)

// TestRunbookCoversEachCallCode compares the runbook's table with the error codes of calls. Each code has one row,
// and the row states whether the call is retried.
func TestRunbookCoversEachCallCode(t *testing.T) {
	text, err := os.ReadFile("manual/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Repair of failed calls\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := make(map[writ.Code]string)
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			continue
		}
		for _, match := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			rows[writ.Code(match[1])] = strings.TrimSpace(cells[2])
		}
	}
	codes := append(catalog.CommonErrors(), writ.CodeUnreachable, writ.CodeResourceBusy, writ.CodeRecordDamaged, writ.CodeNodeStore)
	for _, op := range catalog.Operations() {
		codes = append(codes, op.Errors()...)
	}
	for _, code := range codes {
		again, found := rows[code]
		if want := map[bool]string{true: "yes", false: "no"}[code.Info().Retryable]; !found || again != want {
			t.Errorf("manual/runbook.md, Repair of failed calls: \"tried again\" of %s is %q, want %q (empty: the row is missing)",
				code, again, want)
		}
	}
}
