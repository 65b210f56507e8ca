package scripts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
)

func TestParamsFillAndParse(t *testing.T) {
	r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "p.tengo", Text: []byte(`params := {
	count: {type: "int", default: 2, min: 1, max: 50, help: "how many"},
	name: {type: "string", pattern: "[a-z]+", max: 5},
	fast: {type: "bool", default: false},
	zones: {type: "list", of: "string", default: ["a"], enum: ["a", "b", "c,d"], max: 2},
	ports: {type: "list", of: "int", default: []}
}`)}})
	if !r.OK() || len(r.Params) != 5 {
		t.Fatal(r)
	}
	got, err := r.Params.Fill(map[string]any{"name": "abc", "count": int64(3)})
	want := map[string]any{"count": int64(3), "name": "abc", "fast": false, "zones": []any{"a"}, "ports": []any{}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct {
		given map[string]any
		want  string
	}{
		{nil, `parameter "name" is missing`},
		{map[string]any{"name": "abc", "cuont": int64(1)}, `the script has no parameter "cuont"`},
		{map[string]any{"name": "ABC"}, `parameter "name" must match [a-z]+, not "ABC"`},
		{map[string]any{"name": "abcabc"}, `parameter "name" must have at most 5 bytes, not 6`},
		{map[string]any{"name": "abc", "count": int64(51)}, `parameter "count" must be 1 to 50, not 51`},
		{map[string]any{"name": "abc", "count": "3"}, `parameter "count" must be an int, not the text "3"`},
		{map[string]any{"name": "abc", "fast": int64(1)}, `parameter "fast" must be a bool, not 1`},
		{map[string]any{"name": "abc", "zones": []any{"z"}}, `parameter "zones" has an invalid element 0: it must be one of a, b, c,d, not the text "z"`},
		{map[string]any{"name": "abc", "zones": []any{"a", "a", "b"}}, `parameter "zones" must have at most 2 elements, not 3`},
		{map[string]any{"name": "abc", "ports": []any{int64(1) << 60}}, `parameter "ports" has an invalid element 0: it must be within ±2^53`},
	} {
		if _, err := r.Params.Fill(tt.given); err == nil || err.Error() != tt.want {
			t.Errorf("Fill(%v) = %v, want %s", tt.given, err, tt.want)
		}
	}
	both := scripts.Params{{Name: "name", Type: "string"}, {Name: "size", Type: "int", Help: "in GiB"}}
	if _, err := both.Fill(nil); err == nil || err.Error() != `2 parameters are missing: "name", "size"` ||
		writ.AsError(err).Hint != "give them with -p name=… -p size=… (in GiB)" {
		t.Errorf("Fill without values: %v, %s", err, writ.AsError(err).Hint)
	}
	for text, want := range map[string]any{
		"count=7": int64(7), "name=abc": "abc", "fast=true": true, "zones=a,b": []any{"a", "b"}, `zones=["c,d"]`: []any{"c,d"},
		"ports=": []any{}, "ports=80,443": []any{int64(80), int64(443)}, "ports=[80]": []any{int64(80)},
	} {
		name, v, err := r.Params.ParseParam(text)
		if diff := cmp.Diff(want, v); err != nil || diff != "" || !strings.HasPrefix(text, name+"=") {
			t.Errorf("ParseParam(%s) = %s %v %v", text, name, v, err)
		}
	}
	for _, text := range []string{"count", "count=x", "count=1.5", "fast=yes", "nothing=1", "zones=[1]", "zones=[\"a\"", "ports=a", "ports=[1.5]", "ports=[1] 2", "name=", "count=99"} {
		if name, v, err := r.Params.ParseParam(text); err == nil {
			t.Errorf("ParseParam(%s) = %s %v", text, name, v)
		}
	}
	if _, _, err := r.Params.ParseParam("zones=[a b]"); err == nil || !strings.Contains(err.Error(), `write a,b or ["a", "b"]`) {
		t.Errorf("a list in the form of a log: %v", err)
	}
}
