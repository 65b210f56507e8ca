package admission

import (
	"slices"
	"testing"

	"writ/coord/api"
)

func TestContestedNumbersAreSeparated(t *testing.T) {
	list := []api.Batch{{ID: "b1", Contested: []api.BatchNode{
		{Serial: "rack 7 a", Holder: "n1", Name: "n8"}, {Serial: "rack 7 b", Holder: "n2", Name: "n9"},
	}}}
	view := batchTable(api.BatchList{}, list, nil)
	const want = "rack 7 a (n1 has it, n8 asks); rack 7 b (n2 has it, n9 asks)"
	if at := slices.Index(view.Rows[0], "contested"); at < 0 || view.Rows[1][at] != want {
		t.Errorf("%q has no cell %q", view.Rows, want)
	}
}
