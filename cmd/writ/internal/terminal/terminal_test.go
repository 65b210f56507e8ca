package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// newTest returns a terminal backed by files, and functions that return its output.
func newTest(t *testing.T, environ ...string) (term *Terminal, out, errs func() string) {
	t.Helper()
	file := func(name string) (*os.File, func() string) {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f, func() string {
			text, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	o, out := file("out")
	e, errs := file("err")
	return New(o, o, e, environ), out, errs
}

type row struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	Note string `json:"note"`
}

func rows() View {
	all := []row{{"one", 1, ""}, {"twenty\x1b[2J", 20, "wide\nwords"}}
	return List(all, all, func(r row) string { return r.Name },
		Column[row]{Title: "NAME", Cell: func(r row) string { return r.Name }},
		Column[row]{Title: "SIZE", Cell: func(r row) string { return fmt.Sprint(r.Size) }},
		Column[row]{Title: "NOTE", Wide: true, Cell: func(r row) string { return r.Note }})
}

func TestEachFormatOfAList(t *testing.T) {
	for format, want := range map[Format]string{
		Table: "NAME        SIZE\none         1\ntwenty\uFFFD[2J  20\n",
		Wide:  "NAME        SIZE  NOTE\none         1     -\ntwenty\uFFFD[2J  20    wide words\n",
		CSV:   "name,size,note\none,1,\ntwenty\uFFFD[2J,20,wide words\n",
		Name:  "one\ntwenty\uFFFD[2J\n",
		JSON:  "[\n  {\n    \"name\": \"one\",\n    \"size\": 1,\n    \"note\": \"\"\n  },\n  {\n    \"name\": \"twenty\\u001b[2J\",\n    \"size\": 20,\n    \"note\": \"wide\\nwords\"\n  }\n]\n",
		YAML:  "- name: one\n  note: \"\"\n  size: 1\n- name: \"twenty\\e[2J\"\n  note: |-\n    wide\n    words\n  size: 20\n",
	} {
		term, out, _ := newTest(t)
		term.Format = format
		if err := term.Print(rows()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out()); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
	}
}

// Machines choose some cell values, and a spreadsheet evaluates a cell that starts like a formula.
//
// Promise: Terminals and output: No cell of `-o csv` is a formula to a spreadsheet.
// How: An apostrophe precedes each text that begins like a formula.
func TestNoCellOfCSVIsAFormula(t *testing.T) {
	term, out, _ := newTest(t)
	term.Format = CSV
	all := []row{{`=HYPERLINK("http://x/")`, -1, "+1-1"}, {"@SUM(1)", 2, "-1.5e3"}, {"-2+cmd", 3, "a=b"}}
	view := List(all, all, func(r row) string { return r.Name },
		Column[row]{Title: "NAME", Cell: func(r row) string { return r.Name }},
		Column[row]{Title: "SIZE", Cell: func(row) string { return "" }, Exact: func(r row) string { return fmt.Sprint(r.Size) }},
		Column[row]{Title: "NOTE", Cell: func(r row) string { return r.Note }})
	if err := term.Print(view); err != nil {
		t.Fatal(err)
	}
	want := "name,size,note\n\"'=HYPERLINK(\"\"http://x/\"\")\",-1,'+1-1\n'@SUM(1),2,-1.5e3\n'-2+cmd,3,a=b\n"
	if diff := cmp.Diff(want, out()); diff != "" {
		t.Error(diff)
	}
}

// encoding/json does not escape these characters, and a terminal executes them.
func TestJSONEscapesTerminalControls(t *testing.T) {
	term, out, errs := newTest(t)
	term.Format = JSON
	evil := "\u009b31m\u007f\u202e\x1b[2Jä"
	if err := errors.Join(term.PrintJSON(evil), term.PrintLine(evil)); err != nil {
		t.Fatal(err)
	}
	term.Fail(errors.New(evil))
	want := `"\u009b31m\u007f\u202e\u001b[2Jä"` + "\n"
	if got := out(); got != want+want {
		t.Errorf("%q, want twice %q", got, want)
	}
	if got := errs(); strings.ContainsAny(got, "\u009b\u007f\u202e\x1b") || !strings.Contains(got, `\u009b31m`) {
		t.Errorf("error %q", got)
	}
	var back string
	if err := json.Unmarshal([]byte(want), &back); err != nil || back != evil {
		t.Errorf("%q, %v, want %q", back, err, evil)
	}
}

func TestErrorsAreShownWithHintAndCode(t *testing.T) {
	denied := writ.Errorf(writ.CodeRoleMissing, "bob may not").WithHint("ask alice\nor carol")
	for _, tt := range []struct {
		err  error
		exit int
		want string
	}{
		{fmt.Errorf("submit: %w", denied), writ.ExitDenied, "error: bob may not [ROLE_MISSING]\nhint: ask alice\nor carol\n"},
		{errors.New("disk is full"), writ.ExitFailed, "error: disk is full [INTERNAL]\n"},
		{&ExitError{Err: denied, Exit: writ.ExitFailed}, writ.ExitFailed, "error: bob may not [ROLE_MISSING]\nhint: ask alice\nor carol\n"},
		{&ExitError{Exit: writ.ExitUsage}, writ.ExitUsage, ""},
		{writ.Errorf(writ.CodeScriptFailed, "it failed\n  at a.tengo:1:1"), writ.ExitFailed, "error: it failed [SCRIPT_FAILED]\n  at a.tengo:1:1\n"},
		{Interrupted("writ run watch x"), writ.ExitInterrupted, "writ run watch x\n"},
		{writ.Errorf(writ.CodeUsage, "a\x1b]0;b\a"), writ.ExitUsage, "error: a\uFFFD]0;b\uFFFD [USAGE]\n"},
	} {
		term, out, errs := newTest(t)
		term.Fail(tt.err)
		if got := errs(); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
		if got := out(); got != "" {
			t.Errorf("%v: standard output got %q", tt.err, got)
		}
		if got := ExitCode(tt.err); got != tt.exit {
			t.Errorf("%v: exit %d, want %d", tt.err, got, tt.exit)
		}
	}
}

func TestErrorsAreJSONWhenTheDataIs(t *testing.T) {
	term, _, errs := newTest(t)
	term.Format = JSON
	term.Fail(writ.Errorf(writ.CodeNotFound, "no run").WithHint("look"))
	if want := `{"code":"NOT_FOUND","message":"no run","hint":"look"}` + "\n"; errs() != want {
		t.Errorf("%q, want %q", errs(), want)
	}
}

func TestQuietSilencesProgressOnly(t *testing.T) {
	term, _, errs := newTest(t)
	term.Quiet = true
	term.Note("a")
	term.Done("b")
	term.Bad("c")
	term.Warn("d")
	if want := "warning: d\n"; errs() != want {
		t.Errorf("%q, want %q", errs(), want)
	}
}

func TestWithoutATerminalNoQuestionIsAsked(t *testing.T) {
	term, _, _ := newTest(t)
	if term.Interactive() {
		t.Error("a file counts as interactive")
	}
	if _, err := term.Passphrase("the key"); err == nil {
		t.Error("no error")
	}
}

func TestOnlyAYesConfirms(t *testing.T) {
	for typed, want := range map[string]bool{
		"y\n": true, "YES\r\n": true, " y \n": true, "y": true, "n\n": false, "\n": false, "": false, "yes please\n": false, "\ny\n": false, strings.Repeat(" ", 40) + "y\n": false,
	} {
		term, _, errs := newTest(t)
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		fmt.Fprint(out, typed)
		out.Close()
		term.In = in
		if got, err := term.Confirm("cancel\x1b it?"); err != nil || got != want || strings.TrimSuffix(errs(), "\n") != "cancel\uFFFD it? [y/N] " {
			t.Errorf("%q: %v, %v, want %v; output %q", typed, got, err, want, errs())
		}
	}
}

func TestOnlyTheExactWordConfirms(t *testing.T) {
	for typed, want := range map[string]bool{
		"web\n": true, " web\r\n": true, "web": true, "Web\n": false, "we\n": false, "yes\n": false, "\n": false, "": false, "\nweb\n": false,
	} {
		term, _, errs := newTest(t)
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		fmt.Fprint(out, typed)
		out.Close()
		term.In = in
		got, err := Typed(term, "type\x1b the name", "web")
		if err != nil || got != want || strings.TrimSuffix(errs(), "\n") != "type\uFFFD the name: " {
			t.Errorf("%q: %v, %v, want %v; output %q", typed, got, err, want, errs())
		}
	}
}

func TestAReadEndsWithItsCommand(t *testing.T) {
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	for name, read := range map[string]func(*Terminal) error{
		"question": func(term *Terminal) error { _, err := term.Confirm("sign?"); return err },
		"name":     func(term *Terminal) error { _, err := Typed(term, "name", "web"); return err },
		"input":    func(term *Terminal) error { _, err := term.Input(10); return err },
	} {
		term, _, _ := newTest(t)
		in, typed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer typed.Close() // closing it first ends the read
		term.In, term.Until = in, interrupted
		if err := read(term); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCleanTakesControlFromStrangers(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü":           "plain ü",
		"a\tb\nc":           "a b c",
		"\x1b[31mred":       "\uFFFD[31mred",
		"\u009b31m":         "\uFFFD31m",
		"user\u202etxt.exe": `user\u202etxt.exe`,
		"\u2066x\u2069":     `\u2066x\u2069`,
		"we\u200bb":         `we\u200bb`,
		"carriage\rreturn":  "carriage\uFFFDreturn",
		"bad \xff utf-8":    "bad \uFFFD utf-8",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := CleanLines("a\nb\x07"); !strings.HasPrefix(got, "a\nb") || strings.Contains(got, "\x07") {
		t.Errorf("CleanLines = %q", got)
	}
}

func TestFormatFlagNamesThePossible(t *testing.T) {
	var f Format
	if err := f.Set("xml"); err == nil || !strings.Contains(err.Error(), "table, wide, json, yaml, csv, name") {
		t.Errorf("%v", err)
	}
	if err := f.Set("wide"); err != nil || f != Wide {
		t.Errorf("%v %v", f, err)
	}
}

func TestDataIsPaintedForEyesOnly(t *testing.T) {
	term, _, _ := newTest(t, "COLORTERM=truecolor", "TERM=xterm")
	if got := term.Paint(Bad, "gone"); got != "gone" {
		t.Errorf("a file gets %q", got)
	}
	term.painted = true
	for _, tone := range []Tone{Good, Changed, Bad, Dim} {
		if got := term.Paint(tone, "x"); !strings.HasPrefix(got, "\x1b[") || !strings.Contains(got, "x") {
			t.Errorf("%s: %q", tone, got)
		}
	}
}

// A file gets the exact bytes. A terminal gets no character that controls it.
func TestPrintExactEscapesOnScreensOnly(t *testing.T) {
	const text = "a\u202eb\x1b[31m\tc\n\u009b"
	for screen, want := range map[bool]string{false: text, true: "<a\\u202eb\\u001b[31m\tc>\n<\\u009b>"} {
		var out bytes.Buffer
		term := &Terminal{Out: &out, screen: screen}
		if err := term.PrintExact([]byte(text), func(line string) string { return "<" + line + ">" }); err != nil || out.String() != want {
			t.Errorf("screen %v: %q, %v, want %q", screen, out.String(), err, want)
		}
	}
}
