package scripts

import (
	"encoding/json"
	"fmt"
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
		"tag": "2026-01-31", "n": json.Number("-7"), "on": true, "tags": []any{"a", "2026-01-31"}, "ns": []any{json.Number("0"), json.Number("9007199254740991")},
	})
	want := map[string]any{"tag": "2026-01-31", "n": int64(-7), "on": true, "tags": []any{"a", "2026-01-31"}, "ns": []any{int64(0), int64(9007199254740991)}}
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

// TestWrongParameterShowsValueAndExample gives wrong values on the command line ("name=value") and in a file.
func TestWrongParameterShowsValueAndExample(t *testing.T) {
	least, most := int64(2), int64(9)
	params := Params{
		{Name: "n", Type: "int", Min: &least, Max: &most, Help: "how many"}, {Name: "few", Type: "int", Max: new(int64)}, {Name: "on", Type: "bool"},
		{Name: "name", Type: "string", Pattern: "[a-z]+"}, {Name: "zone", Type: "string", Enum: []any{"a1", "b1"}}, {Name: "image", Type: "string", Default: "my image"},
		{Name: "tags", Type: "list", Of: "string"}, {Name: "ports", Type: "list", Of: "int", Default: []any{int64(80)}},
	}
	for _, c := range []struct {
		given any // text for a command line, or the values of a file
		want  []string
	}{
		{"n=abc", []string{`parameter "n": "abc" is not a whole number`, "`-p n=2`", "`n: 2` in a file", "how many"}},
		{"n=99", []string{`parameter "n" must be 2 to 9, not 99`, "`-p n=2`"}},
		{"n=99999999999999999999", []string{"exceeds the range of whole numbers"}},
		{"on=yes", []string{`"yes" is neither true nor false`, "`-p on=true`"}},
		{"zone=c1", []string{`must be one of a1, b1, not the text "c1"`, "`-p zone=a1`", "`zone: \"a1\"`"}},
		{"ports=a", []string{`"a" is not a whole number`, "`-p ports=80`", "`ports: [80]`"}},
		{`ports=["1"]`, []string{`has an invalid element 0: it must be an int, not the text "1"`}},
		{"n", []string{`"n" is not a parameter; write name=value`, "the parameters of the script are few, image, n, name"}},
		{map[string]any{"n": []any{}}, []string{`parameter "n" must be an int, not a list`, "`n: 2`"}},
		{map[string]any{"on": json.Number("1")}, []string{`parameter "on" must be a bool, not 1`, "`on: true`"}},
		{map[string]any{"tags": "a"}, []string{`parameter "tags" must be a list, not the text "a"`, "`tags: [\"a\"]`"}},
		{map[string]any{"tags": []any{map[string]any{}}}, []string{`has an invalid element 0: it must be a string, not a map`}},
		{map[string]any{"tags": strings.Repeat("é", maxShown)}, []string{`not the text "é`, `…"`}},
		// No valid example exists here: the pattern, the bound and the space forbid the usual ones.
		{"name=A", []string{`must match [a-z]+, not "A"`, "!for example"}},
		{"few=4", []string{"must be at most 0, not 4", "!for example"}},
		{map[string]any{"image": []any{}}, []string{"must be a string, not a list", "!for example"}},
	} {
		var err error
		if text, ok := c.given.(string); ok {
			_, _, err = params.ParseParam(text)
		} else {
			_, err = params.FromFile(c.given.(map[string]any))
		}
		said := fmt.Sprint(err) + "\n" + writ.AsError(err).Hint
		for _, want := range c.want {
			absent, isAbsent := strings.CutPrefix(want, "!")
			if err == nil || strings.Contains(said, absent) == isAbsent {
				t.Errorf("%v: %s\nwant %q", c.given, said, want)
			}
		}
	}
}
