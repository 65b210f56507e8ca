package evaluator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// attackBundles returns the attacks that need modules, a journal, or too much text for a file.
func attackBundles() []attack {
	source := func(name, text string) scripts.Source { return scripts.Source{Name: name, Text: []byte(text)} }
	modules := func(name string, want writ.Code, main string, modules ...scripts.Source) attack {
		return attack{name: name, want: want, bundle: scripts.Bundle{Main: source(name, main), Modules: modules}}
	}
	chain := func(n, times int) []scripts.Source { // each module imports the next one times times
		var all []scripts.Source
		for i := range n {
			text := strings.Repeat(fmt.Sprintf("import(\"m%d\");", i+1), times)
			all = append(all, source(fmt.Sprintf("m%d", i), text+"export 1"))
		}
		return append(all, source(fmt.Sprintf("m%d", n), "export 1"))
	}
	var big []scripts.Source // the maximum size of a bundle, and the maximum number of literals
	var imports []string
	for i := range 7 {
		name := fmt.Sprintf("big%d", i)
		text := fmt.Sprintf("f := func() { return [%s] }\n", strings.Repeat("1.5,", 900)+"0")
		big = append(big, source(name, strings.Repeat("if true {"+text+"}\n", 9)+"export 1"))
		imports = append(imports, fmt.Sprintf("import(%q)", name))
	}
	return []attack{
		modules("modules_diamond", writ.CodeScriptLimit, `import("m0")`, chain(40, 2)...),
		modules("modules_chain", writ.CodeScriptFailed, `import("m0")`, chain(1500, 1)...),
		modules("modules_native_name", writ.CodeScriptInvalid, "for { import(\"\\x00fuel:3\") }", source("m", "export 1"), source("\x00fuel:3", "export 1")),
		modules("modules_long_name", writ.CodeScriptInvalid, fmt.Sprintf("import(%q)", strings.Repeat("n", 2000)), source(strings.Repeat("n", 2000), "export 1")),
		modules("modules_big", writ.CodeScriptLimit, "for k in [0, 1, 2, 3, 4, 5, 6] { "+strings.Join(imports, ";")+" }\nfor {}", big...),
		bigResult(),
	}
}

// bigResult repeatedly reads a small field of a result of maximum size.
func bigResult() attack {
	a := attack{name: "results_read_again", want: writ.CodeScriptLimit, bundle: bundle("h := import(\"node\").facts()\nfor { h.hostname }")}
	o, err := new(evaluator.InProcess).Pass(context.Background(), a.bundle, everything, nil)
	if err != nil {
		panic(err) // only a context can cause it
	}
	values := map[string]any{"hostname": "h", "list": slices.Repeat([]any{int64(1)}, 7_000)}
	a.journal = []scripts.Entry{{Seq: 1, Hash: o.Calls[0].Hash, State: scripts.EntrySucceeded, Values: values}}
	return a
}
