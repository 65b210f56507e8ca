package library_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/format"
	"writ/scripts/library"
)

var update = flag.Bool("update", false, "publish the modules that are not in testdata/published.txt yet")

// Published versions never change: they are part of the scripts that people wrote and reviewed.
func TestPublishedVersionsNeverChange(t *testing.T) {
	const golden = "testdata/published.txt"
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	published := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, digest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("%s: %q", golden, line)
		}
		published[name] = digest
	}
	var all strings.Builder
	for _, name := range library.Names() {
		m, _ := library.Find(name)
		digest := writ.DigestOf([]byte(m.Text)).String()
		fmt.Fprintf(&all, "%s %s\n", name, digest)
		switch {
		case published[name] == "" && !*update:
			t.Errorf("%s is new; publish it with -update", name)
		case published[name] != "" && published[name] != digest:
			t.Errorf("%s was published and never changes; publish a new version instead", name)
		}
		delete(published, name)
	}
	for name := range published {
		t.Errorf("%s was published and is gone; scripts that import it need it for ever", name)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModulesAreGoodScripts(t *testing.T) {
	for _, name := range library.Names() {
		m, _ := library.Find(name)
		text := []byte(m.Text)
		formatted, err := format.Format(scripts.Source{Name: name, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(formatted), m.Text); diff != "" {
			t.Errorf("%s is not formatted (-formatted +it):\n%s", name, diff)
		}
		if !strings.HasPrefix(m.Text, "// "+name+": ") || m.About == "" {
			t.Errorf("%s does not begin with a comment that says what it is", name)
		}
		main := scripts.Source{Name: "main.tengo", Text: []byte("m := import(\"" + name + "\")\nimport(\"run\").log(len(m))\n")}
		bundle, err := scripts.Resolve(main, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := check.Check(bundle); len(r.Diagnostics) > 0 {
			t.Errorf("%s:\n%s", name, r)
		}
	}
}

func TestNamesLeadToModules(t *testing.T) {
	for name, want := range map[string]bool{"lib/fleet@1": true, "fleet@1": false, "lib/fleet": false, "lib/../library": false, "lib/": false, "lib//fleet@1": false} {
		if _, ok := library.Find(name); ok != want {
			t.Errorf("Find(%q) = %v", name, ok)
		}
	}
	if got := library.Newest("lib/fleet@99"); got != "lib/fleet@1" {
		t.Errorf("Newest = %q", got)
	}
	if got := library.Newest("lib/none"); got != "" {
		t.Errorf("Newest of nothing = %q", got)
	}
}
