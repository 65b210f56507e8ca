package scripts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestFileParamsKeepTheirText(t *testing.T) {
	params := Params{
		{Name: "tag", Type: "string"}, {Name: "n", Type: "int"}, {Name: "on", Type: "bool"},
		{Name: "tags", Type: "list", Of: "string"}, {Name: "ns", Type: "list", Of: "int"},
	}
	got, err := params.FromFile(map[string]any{
		"tag": "2026-01-31", "n": json.Number("-7"), "on": true, "tags": []any{"a", "2026-01-31"}, "ns": []any{json.Number("0"), json.Number("9007199254740993")},
	})
	want := map[string]any{"tag": "2026-01-31", "n": int64(-7), "on": true, "tags": []any{"a", "2026-01-31"}, "ns": []any{int64(0), int64(9007199254740993)}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"tag", json.Number("1.10"), `parameter "tag": 1.10 is a number without quotes: write "1.10"`},
		{"tag", true, `write "true"`},
		{"tag", nil, "it has no value"},
		{"tags", []any{"a", json.Number("1.10")}, `parameter "tags": element 1: 1.10 is a number without quotes`},
		{"tags", []any{nil}, "element 0: it has no value"},
		{"n", json.Number("1.5"), "not a whole number"},
		{"n", json.Number("1e3"), "not a whole number"},
		{"n", json.Number("9223372036854775808"), "range of whole numbers"},
		{"n", "5", `"5" is text, and must be a whole number without quotes`},
		{"on", "yes", "must be true or false without quotes"},
		{"tga", "x", `did you mean "tag"?`},
	} {
		_, err := params.FromFile(map[string]any{c.name: c.v})
		if err == nil || !strings.Contains(err.Error()+writ.AsError(err).Hint, c.want) {
			t.Errorf("%s: %v: %v, want %q", c.name, c.v, err, c.want)
		}
	}
}
