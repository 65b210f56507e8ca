package signing

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Operation: A script that makes more calls than its signature allows is refused before it is signed.
// How: The check counts the calls of loops with literal bounds.
func TestMaxCallsIsCheckedBeforeSigning(t *testing.T) {
	t.Parallel()
	for text, least := range map[string]int{
		`node := import("node"); for i := 0; i < 100; i++ { node.ping() }; node.facts()`:              101,
		`node := import("node"); for i in [1, 2, 3] { node.ping(); if i == 2 { node.ping() } }`:       3,
		`node := import("node"); for i := 0; i < 9; i++ { if node.facts().cpus > 4 { break } }`:       0,
		`node := import("node"); if node.facts().cpus > 4 { import("run").fail("no") }; node.ping()`:  0,
		`node := import("node"); f := func() { node.ping() }; for i := 0; i < 10; i++ { f() }; f()`:   0,
		`params := {n: {type: "int"}}; node := import("node"); for i in range(0, 20) { node.ping() }`: 20,
	} {
		report := check.Check(scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(text)}})
		if report.LeastCalls != least {
			t.Errorf("%s\nhas at least %d calls, want %d", text, report.LeastCalls, least)
		}
		if err := checkCalls(report, max(least, 1)); err != nil {
			t.Errorf("%s\nas many calls as it makes: %v", text, err)
		}
		if least == 0 {
			continue
		}
		err := checkCalls(report, least-1)
		if writ.CodeOf(err) != writ.CodeScriptLimit || !strings.Contains(writ.AsError(err).Hint, "--max-calls") {
			t.Errorf("%s\none call fewer: %v", text, err)
		}
	}
}

func TestDeadlineHasWholeSeconds(t *testing.T) {
	o := OrderFlags{Deadline: 1500 * time.Millisecond}
	if err := o.Check(); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("%v", err)
	}
}

func TestCheckNamesNeededCalls(t *testing.T) {
	t.Parallel()
	for calls, want := range map[int]string{
		0: "", scripts.UsualCalls: "", scripts.UsualCalls + 1: "2001 or more; --max-calls 2001 or more is required",
	} {
		if got := NeededCalls(check.Report{LeastCalls: calls}); got != want {
			t.Errorf("%d calls: %q, want %q", calls, got, want)
		}
	}
}
