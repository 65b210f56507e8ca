package submission

import (
	"fmt"
	"testing"

	"writ/identity"
	"writ/scripts/check"
	"writ/supervisor/program"
)

// Promise: Speed and storage: A known valid script is not checked again, and an invalid script never counts as valid.
// How: The newest 64 valid scripts are cached by the digest of their texts.
func TestOnlyGoodScriptsAreRemembered(t *testing.T) {
	c := NewChecker()
	check := func(text string, of ...any) check.Report {
		t.Helper()
		script := identity.File{Name: "a.tengo", Text: fmt.Appendf(nil, text, of...)}
		report, err := c.report(t.Context(), "", program.BundleOf(&identity.Payload{Script: script}))
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	for i := range 2 * maxChecks {
		for range 2 {
			if report := check("node := import(\"node\")\nnode.ping() // %d\n", i); !report.OK() || len(report.Operations) != 1 {
				t.Fatalf("script %d: %+v", i, report)
			}
			if report := check("nod := import(\"nod\") // %d\n", i); report.OK() {
				t.Fatalf("bad script %d is good", i)
			}
		}
	}
	if len(c.reports) != maxChecks || len(c.order) != maxChecks {
		t.Errorf("%d reports are kept, at most %d are meant", len(c.reports), maxChecks)
	}
}
