package catalog_test

import (
	"strings"
	"testing"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
)

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
