package supervisor

import (
	"fmt"
	"testing"

	"writ/scripts"
)

func TestOnlyGoodScriptsAreRemembered(t *testing.T) {
	c := newChecks()
	bundle := func(text string) scripts.Bundle {
		return scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(text)}}
	}
	for i := range 2 * maxChecks {
		for range 2 {
			if report := c.of(bundle(fmt.Sprintf("node := import(\"node\")\nnode.ping() // %d\n", i))); !report.OK() || len(report.Operations) != 1 {
				t.Fatalf("script %d: %+v", i, report)
			}
			if report := c.of(bundle(fmt.Sprintf("nod := import(\"nod\") // %d\n", i))); report.OK() {
				t.Fatalf("bad script %d is good", i)
			}
		}
	}
	if len(c.reports) != maxChecks || len(c.order) != maxChecks {
		t.Errorf("%d reports are kept, at most %d are meant", len(c.reports), maxChecks)
	}
}
