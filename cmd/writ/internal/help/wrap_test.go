package help

import (
	"slices"
	"testing"
)

func TestLongExampleStaysOneCommand(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"writ demo", []string{"writ demo"}},
		{"writ run cancel --reason 'one two  three' --state open", []string{`writ run cancel \`, `    --reason 'one two  three' \`, "    --state open"}},
		{"# a comment of several words and more", []string{"# a comment of several words and", "# more"}},
		{`#     r := t.run("a", {fail: {b: 1}})`, []string{`#     r := t.run("a", {fail: {b:`, `#     1}})`}},
	} {
		if got := wrapExample(tt.line, 32); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}
