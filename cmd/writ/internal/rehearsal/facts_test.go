package rehearsal

import (
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// TestEveryNodeOperationIsSimulated executes each operation of the module node, and an operation that the catalogue
// lacks.
func TestEveryNodeOperationIsSimulated(t *testing.T) {
	driver := &facts{node: "node-1", drivers: []writ.NodeDriver{{Module: "volume", Name: "simulated"}}}
	for _, op := range catalog.Of("node") {
		done, err := driver.Do(t.Context(), sal.Request{Operation: op})
		if err != nil {
			t.Errorf("%s: %v", op.Name(), err)
		} else if problems := op.Result.Check(done.Values, nil); len(problems) > 0 {
			t.Errorf("the result of %s: %v", op.Name(), problems)
		}
	}
	unknown := &catalog.Operation{Module: "node", Verb: "reboot"}
	if _, err := driver.Do(t.Context(), sal.Request{Operation: unknown}); writ.CodeOf(err) != writ.CodeDriverMissing {
		t.Errorf("node.reboot returned %v, want %s", err, writ.CodeDriverMissing)
	}
}
