package scripts_test

import (
	"strings"
	"testing"

	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/check"
)

func TestEqualDiagnosticsFoldIntoOne(t *testing.T) {
	report := check.Check(bundleOf("m := import(\"machine\")\n" + strings.Repeat("m.creat(\"a\")\n", 1_200) + "x := foo\nm.stop(x)"))
	text := report.String()
	if n := strings.Count(text, "has no \"creat\""); n != 1 {
		t.Errorf("one error is listed %d times:\n%.500s", n, text)
	}
	for _, want := range []string{"the same at 1199 more places: line 3, 4, 5, 6, 7, …", "unknown name \"foo\""} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%.2000s", want, text)
		}
	}
	if strings.Contains(text, "more errors") {
		t.Errorf("errors that are counted already are counted again:\n%s", text[len(text)-200:])
	}
	if n := report.Errors(); n != 1_201 {
		t.Errorf("%d errors, want 1201", n)
	}
}

func TestReportKeepsOneErrorOfEachKind(t *testing.T) {
	var text strings.Builder
	for i := range 150 {
		text.WriteString("a" + strings.Repeat("b", i) + " + 1\n")
	}
	report := check.Check(bundleOf(text.String()))
	if got := report.String(); len(report.Diagnostics) != 100 || !testenv.Mentions(got, "50 more") {
		t.Errorf("%d diagnostics: …%s", len(report.Diagnostics), got[max(0, len(got)-200):])
	}
}

func TestExcerptShowsTheLineOfAPosition(t *testing.T) {
	b := scripts.Bundle{
		Main:    scripts.Source{Name: "web.tengo", Text: []byte("a := 1\n\tb := a.c\n")},
		Modules: []scripts.Source{{Name: "lib/a@1", Text: []byte("export 1")}},
	}
	for position, want := range map[string]string{
		"web.tengo:2:7": "2 |   b := a.c\n  |        ^",
		"lib/a@1:1:1":   "1 | export 1\n  | ^",
		"web.tengo:1:7": "1 | a := 1\n  |       ^",
		"web.tengo:9:1": "", "web.tengo:1:99": "", "other:1:1": "", "web.tengo": "", "": "", "web.tengo:0:1": "", "web.tengo:1:-1": "",
	} {
		if got := b.Excerpt(position); got != want {
			t.Errorf("Excerpt(%q) =\n%s\nwant\n%s", position, got, want)
		}
	}
}
