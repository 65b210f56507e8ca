package writ_test

import (
	"strings"
	"testing"

	"writ"
)

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		wrong string // expected in the error, "" for success
	}{
		{"nothing", nil, ""},
		{"text", "a\u0000ü", ""},
		{"all", map[string]any{"a": []any{int64(1), true, nil, map[string]any{}}}, ""},
		{"deepest", nested(writ.MaxValueDepth), ""},
		{"too deep", nested(writ.MaxValueDepth + 1), "nested deeper than 32"},
		{"float", map[string]any{"cpus": 1.5}, "value.cpus is a float64"},
		{"int", []any{int64(1), 2}, "value[1] is a int"},
		{"bytes", []byte("a"), "value is a []uint8"},
		{"strings", map[string]any{"a": []string{"b"}}, "value.a is a []string"},
		{"no text", map[string]any{"log": "\xff"}, "value.log is not UTF-8"},
		{"no text as key", map[string]any{"\xff": true}, "a key of value is not UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := writ.CheckValue(tt.value)
			if tt.wrong == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("error = %v, want %q", err, tt.wrong)
			}
		})
	}
}

// The error of CheckValue can become the outcome of a pass, so it must be deterministic.
func TestCheckValueNamesTheFirstPlaceInOrder(t *testing.T) {
	value := map[string]any{"d": 1, "b": 1, "a": int64(1), "c": 1}
	for range 100 {
		if err := writ.CheckValue(value); err == nil || !strings.HasPrefix(err.Error(), "value.b ") {
			t.Fatalf("error = %v", err)
		}
	}
}

func nested(depth int) any {
	var v any = int64(1)
	for range depth {
		v = []any{v}
	}
	return v
}
