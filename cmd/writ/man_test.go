package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/test/testenv"
)

// Each visible command has a page with its flags and examples. No line of it is a formatter command by accident.
func TestEachCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	n, err := writeManPages(newRoot(newEnv(terminal.New(os.Stdin, nil, nil, nil))), dir)
	if all := commandTree(); err != nil || n != len(all) {
		t.Fatalf("%d pages of %d, %v", n, len(all), err)
	}
	macros := regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|B|BI|BR|nf|fi)\b`)
	for _, c := range commandTree() {
		path := filepath.Join(dir, help.ManName(c)+".1")
		page := read(t, path)
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !macros.MatchString(line) {
				t.Errorf("%s: %q", path, line)
			}
		}
		if !strings.Contains(page, help.ManText(c.Short)) || c.Example != "" && !strings.Contains(page, ".SH EXAMPLES") {
			t.Errorf("%s has no description of the command:\n%s", path, page)
		}
		if home, err := os.UserHomeDir(); err == nil && len(home) > 1 && strings.Contains(page, help.ManText(home)) {
			t.Errorf("%s contains the home directory of its author", path)
		}
	}
	list := read(t, filepath.Join(dir, "writ-run-list.1"))
	for _, want := range []string{"\\fB\\-\\-stuck\\fR \\fIDURATION\\fR\n", ".BI \\-\\-server \" ADDRESS\" \\fR,\n", "writ run list \\-\\-stuck 5m", ".BR writ\\-run (1)", ".SH SHARED OPTIONS"} {
		if !strings.Contains(list, want) {
			t.Errorf("the page of writ run list lacks %q:\n%s", want, list)
		}
	}
	if text := help.ManText(".\\fB\n'x\n-y"); text != "\\&.\\efB\n\\&'x\n\\-y" {
		t.Errorf("%q", text)
	}
}

func TestManualPagesPassLint(t *testing.T) {
	formatter, dir := testenv.Need(t, "mandoc"), t.TempDir()
	if _, err := writeManPages(newRoot(newEnv(terminal.New(os.Stdin, nil, nil, nil))), dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	manual := filepath.Join(dir, "manual")
	if text, code := usage(t, "man"); code != 0 || os.WriteFile(manual, []byte(text), 0o600) != nil {
		t.Fatalf("exit %d\n%s", code, text)
	}
	out, err := exec.Command(formatter, append([]string{"-T", "lint", "-W", "warning"}, append(pages, manual)...)...).CombinedOutput()
	if len(out) == 0 {
		t.Fatalf("%s reports no missing dates: %v", formatter, err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") { // pages have no date, so that they are reproducible
			t.Error(line)
		}
	}
}

// The page that man shows has each flag as users type it, and examples that fit into 80 columns.
func TestManualShowsFlagsAsTyped(t *testing.T) {
	formatter, path := testenv.Need(t, "mandoc"), filepath.Join(t.TempDir(), "writ.1")
	text, _ := usage(t, "man")
	for line := range strings.Lines(text) {
		if strings.ContainsFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) {
			t.Errorf("a terminal without Unicode cannot show %s", line)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(formatter, "-T", "ascii", "-O", "width=78", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shown := regexp.MustCompile(`.\x08`).ReplaceAllString(string(out), "")
	for line := range strings.Lines(shown) {
		if len(line) > 80 {
			t.Errorf("a line has %d characters: %s", len(line), line)
		}
	}
	for _, c := range commandTree() {
		for _, f := range help.Flags(c, help.Own) {
			if !strings.Contains(shown, help.Names(f)) {
				t.Errorf("the manual lacks %s of %s", help.Names(f), c.CommandPath())
			}
		}
	}
}
