package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"writ/scripts"
)

func TestCheckWarnsOfTextThatReadsOtherThanItIs(t *testing.T) {
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
	} {
		r := scripts.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(head + tt.script)}})
		var got []string
		for _, d := range r.Diagnostics {
			got = append(got, fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Code))
		}
		if !r.OK() || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q\n%s", name, got, tt.want, r)
		}
		if strings.ContainsAny(r.String(), "\u202e\u2066\u200b\ufeff") {
			t.Errorf("%s: what is warned of is shown as it is", name)
		}
	}
	many := head + strings.Repeat("// \u202e\n", 1000)
	if r := scripts.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(many)}}); len(r.Diagnostics) > 20 {
		t.Errorf("%d warnings", len(r.Diagnostics))
	}
	module := scripts.Bundle{
		Main:    scripts.Source{Name: "a.tengo", Text: []byte("import(\"lib/b@1\")\n")},
		Modules: []scripts.Source{{Name: "lib/b@1", Text: []byte("// \u202e\nexport 1\n")}},
	}
	if r := scripts.Check(module); len(r.Diagnostics) != 1 || r.Diagnostics[0].File != "lib/b@1" {
		t.Errorf("in a module: %s", r)
	}
}
