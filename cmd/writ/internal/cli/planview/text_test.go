package planview

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// A plan shows the changed entries of an environment. Two long environments would look equal when truncated.
func TestAPlanShowsTheEntriesOfAMapThatChange(t *testing.T) {
	long := strings.Repeat("x", 2*maxLines)
	had := map[string]any{"A": long, "GONE": "1", "TAG": "v1"}
	for name, tt := range map[string]struct {
		gets map[string]any
		want string
	}{
		"entries":       {map[string]any{"A": long, "NEW": "2", "TAG": "v2"}, "      env.GONE: 1 → (not given)\n      env.NEW: (not given) → 2\n      env.TAG: v1 → v2\n"},
		"none in sight": {map[string]any{"A": long + "y", "GONE": "1", "TAG": "v1"}, "      env: {A: "},
	} {
		from, err := json.Marshal(had)
		if err != nil {
			t.Fatal(err)
		}
		text := callsText{&planWriter{Terminal: terminal.New(os.Stdin, nil, nil, nil).Plain(), View: &View{Preview: &writ.Preview{}}}}
		call := new(scripts.PlannedCall)
		call.Operation, call.Args = "container.create", map[string]any{"env": tt.gets}
		text.fields(call, &writ.PreviewedCall{Fields: []writ.FieldChange{{Field: "env", From: from}}})
		if got := text.b.String(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: it shows\n%swant\n%s", name, got, tt.want)
		}
	}
}
