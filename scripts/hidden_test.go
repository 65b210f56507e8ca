package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Terminals and output: `writ check` warns of invisible, direction-changing and look-alike characters, and
// every output escapes them and control characters.
// How: The check reads each source with comments and texts; JSON and YAML keep the value.
// Also: TestCleanTakesControlFromStrangers, TestOutputHasNoUnsafeCharacters, TestHiddenCharactersAreFound,
// TestDisguisedWordsAreFound.
func TestMisleadingTextIsReported(t *testing.T) {
	const head = "run := import(\"run\")\n"
	for name, tt := range map[string]struct {
		script string
		want   []string // line:column code
	}{
		"plain":                   {"run.log(\"größe, размер, 名前, Δt\") // naïve\n", nil},
		"turned in a comment":     {"run.log(1) // \u202e} if\n", []string{"2:15 W0413"}},
		"isolated in a text":      {"run.log(\"a\u2066b\u2069\")\n", []string{"2:11 W0413"}},
		"no width in a text":      {"run.log(\"we\u200bb\")\n", []string{"2:12 W0413"}},
		"a tag":                   {"run.log(\"a\") // \U000e0041\n", []string{"2:17 W0413"}},
		"mixed letters in a text": {"run.log(\"\u0430dmin\")\n", []string{"2:10 W0414"}},
		"mixed letters in a name": {"n\u043ede := 1\nrun.log(n\u043ede)\n", []string{"2:1 W0414", "3:9 W0414"}},
		"a name all alike":        {"\u0441\u043e\u0440 := 1\nrun.log(\u0441\u043e\u0440)\n", []string{"2:1 W0414", "3:9 W0414"}},
		"a key all alike":         {"run.log({\u0441\u043e\u0440: 1})\n", []string{"2:10 W0414"}},
		"a text all alike":        {"run.log(\"\u0441\u043e\u0440\")\n", nil},
		"both in a line":          {"run.log(\"\u0430dmin\") // \u202e \u200b \u0430dmin\n", []string{"2:10 W0414", "2:22 W0413"}},
		"both, the other way":     {"run.log(\"a\u202eb \u0430dmin\")\n", []string{"2:11 W0413", "2:16 W0414"}},
	} {
		r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(head + tt.script)}})
		var got []string
		for _, d := range r.Diagnostics {
			got = append(got, fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Code))
		}
		if !r.OK() || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q\n%s", name, got, tt.want, r)
		}
		if strings.ContainsAny(r.String(), "\u202e\u2066\u200b\ufeff") {
			t.Errorf("%s: the report contains hidden characters", name)
		}
	}
	many := head + strings.Repeat("// \u202e\n", 1000)
	if r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(many)}}); len(r.Diagnostics) > 20 {
		t.Errorf("%d warnings", len(r.Diagnostics))
	}
	module := scripts.Bundle{
		Main:    scripts.Source{Name: "a.tengo", Text: []byte("import(\"lib/b@1\")\nimport(\"run\").log(1)\n")},
		Modules: []scripts.Source{{Name: "lib/b@1", Text: []byte("// \u202e\nexport 1\n")}},
	}
	if r := check.Check(module); len(r.Diagnostics) != 1 || r.Diagnostics[0].File != "lib/b@1" {
		t.Errorf("in a module: %s", r)
	}
}

func TestControlCharactersAreErrors(t *testing.T) {
	const head = "run := import(\"run\")\n"
	for name, tt := range map[string]struct {
		script string
		want   []string // line:column code
	}{
		"tabs and ends of lines": {"\trun.log(1)\t// one\n\n", nil},
		"ESC in a comment":       {"run.log(1) // \x1b[2K \x1b[1A\n", []string{"2:15 W0009"}},
		"ESC in a text":          {"run.log(\"a\x1b[2Kb\")\n", []string{"2:11 W0009"}},
		"CR in a comment":        {"// run.log(2)\rrun.log(1)\nrun.log(3)\n", []string{"2:14 W0009"}},
		"lines of Windows":       {"run.log(1)\r\nrun.log(2)\r\n", []string{"2:11 W0009", "3:11 W0009"}},
		"BEL, DEL and NEL":       {"// \a\n// \x7f\n// \u0085\nrun.log(1)\n", []string{"2:4 W0009", "3:4 W0009", "4:4 W0009"}},
		"next to warnings":       {"run.log(\"\u0430dmin\") // \u202e \x1b\n", []string{"2:10 W0414", "2:22 W0413", "2:26 W0009"}},
		"behind many warnings":   {strings.Repeat("// \u202e\n", 10) + "run.log(1) // \x1b\n", append(slices.Repeat([]string{"W0413"}, 10), "12:15 W0009")},
	} {
		text := []byte(head + tt.script)
		r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: text}})
		var got []string
		for _, d := range r.Diagnostics {
			got = append(got, fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Code))
		}
		if r.OK() != (tt.want == nil) || !slices.EqualFunc(got, tt.want, strings.HasSuffix) {
			t.Errorf("%s: %q, want %q\n%s", name, got, tt.want, r)
		}
		if strings.ContainsAny(r.String(), "\x1b\r\a\x7f") {
			t.Errorf("%s: the report contains control characters", name)
		}
	}
}
