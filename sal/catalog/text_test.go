package catalog_test

import (
	"strings"
	"testing"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Plans, scripts and manuals: `writ explain OPERATION` prints the manual's text with an example free of
// diagnostics.
// How: Text comes from the catalogue; a diagnostic about arguments names the operation.
// Also: TestScripts/explain.
func TestExamplesOfOperationsAreValidScripts(t *testing.T) {
	for _, op := range catalog.Operations() {
		text := op.Example()
		if !strings.Contains(text, op.Name()+"(") {
			t.Errorf("the example of %s does not call it:\n%s", op.Name(), text)
		}
		report := check.Check(scripts.Bundle{Main: scripts.Source{Name: "example.tengo", Text: []byte(text)}})
		if len(report.Diagnostics) > 0 {
			t.Errorf("the example of %s:\n%s\n%s", op.Name(), text, report)
		}
	}
}
