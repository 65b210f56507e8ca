package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ/cmd/writ/internal/terminal"
	"writ/internal/testenv"
)

// Each command that people are shown has a page, with its flags and examples, and no line of it is a command of the formatter by accident.
func TestEachCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	n, err := writeManPages((&app{Terminal: terminal.New(os.Stdin, nil, nil, nil)}).root(), dir)
	if all := commandTree(); err != nil || n != len(all) {
		t.Fatalf("%d pages of %d, %v", n, len(all), err)
	}
	macros := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|nf|fi)\b`)
	for _, c := range commandTree() {
		path := filepath.Join(dir, manName(c)+".1")
		page := read(t, path)
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !macros.MatchString(line) {
				t.Errorf("%s: %q", path, line)
			}
		}
		if !strings.Contains(page, manText(c.Short)) || c.Example != "" && !strings.Contains(page, ".SH EXAMPLES") {
			t.Errorf("%s does not say what the command does:\n%s", path, page)
		}
		if home, err := os.UserHomeDir(); err == nil && len(home) > 1 && strings.Contains(page, manText(home)) {
			t.Errorf("%s names the home of the user who made it", path)
		}
	}
	list := read(t, filepath.Join(dir, "writ-run-list.1"))
	for _, want := range []string{".B \\-\\-stuck duration\n", "writ run list \\-\\-stuck 5m", ".BR writ\\-run (1)", ".SH INHERITED OPTIONS", "~/.config/writ/config.yaml"} {
		if !strings.Contains(list, want) {
			t.Errorf("the page of writ run list lacks %q:\n%s", want, list)
		}
	}
	if text := manText(".\\fB\n'x\n-y"); text != "\\&.\\efB\n\\&'x\n\\-y" {
		t.Errorf("%q", text)
	}
}

func TestManualPagesPassLint(t *testing.T) {
	formatter, dir := testenv.Need(t, "mandoc"), t.TempDir()
	if _, err := writeManPages((&app{Terminal: terminal.New(os.Stdin, nil, nil, nil)}).root(), dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	if out, err := exec.Command(formatter, append([]string{"-T", "lint", "-W", "error"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
