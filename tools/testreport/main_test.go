package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func reported(t *testing.T, events ...event) string {
	t.Helper()
	var said strings.Builder
	reportOf(t, events...).write(&said)
	return said.String()
}

// reportOf parses events in the format of go test -json.
func reportOf(t *testing.T, events ...event) *report {
	t.Helper()
	var text strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	r, err := read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAFailureIsShownWithItsOutputAndTheCommandThatRepeatsIt(t *testing.T) {
	said := reported(t,
		event{Action: "run", Package: "writ/a", Test: "TestOne"},
		event{Action: "output", Package: "writ/a", Test: "TestOne/sub", Output: "    one_test.go:7: wrong\n"},
		event{Action: "fail", Package: "writ/a", Test: "TestOne/sub"},
		event{Action: "fail", Package: "writ/a", Test: "TestOne"},
		event{Action: "pass", Package: "writ/a", Test: "TestTwo"},
		event{Action: "fail", Package: "writ/a", Elapsed: 2},
	)
	for _, want := range []string{"FAILED: writ/a TestOne", "one_test.go:7: wrong", "go test -count=1 writ/a -run '^TestOne$'", "2.0  writ/a", "2 tests ran"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	if strings.Contains(said, "TestTwo") {
		t.Errorf("what passed is named in\n%s", said)
	}
}

func TestFailedAssertionsAreShownBeforeLaterOutput(t *testing.T) {
	events := []event{{Action: "output", Package: "writ/a", Test: "TestOne", Output: "    one_test.go:7: wrong\n"}}
	for range 100 {
		events = append(events, event{Action: "output", Package: "writ/a", Test: "TestOne", Output: "a process said this\n"})
	}
	said := reported(t, append(events, event{Action: "fail", Package: "writ/a", Test: "TestOne"})...)
	if strings.Count(said, "one_test.go:7: wrong") != 1 || strings.Count(said, "\n") > 60 {
		t.Error(said)
	}
}

func TestATestThatPassesOnARepeatIsFlaky(t *testing.T) {
	said := reported(t,
		event{Action: "fail", Package: "writ/a", Test: "TestOne"},
		event{Action: "fail", Package: "writ/a"},
		event{Action: "pass", Package: "writ/a", Test: "TestOne"},
		event{Action: "pass", Package: "writ/a"},
	)
	if !strings.Contains(said, "FLAKY: writ/a TestOne") || strings.Contains(said, "FAILED") {
		t.Error(said)
	}
}

func TestATestThatNeverEndedAndAPackageThatDoesNotBuildHaveFailed(t *testing.T) {
	said := reported(t,
		event{Action: "run", Package: "writ/a", Test: "TestHangs"},
		event{Action: "output", Package: "writ/a", Test: "TestHangs", Output: "panic: test timed out\n"},
		event{Action: "fail", Package: "writ/a"},
		event{Action: "output", Package: "writ/b", Output: "b.go:1: undefined: x\n"},
		event{Action: "fail", Package: "writ/b"},
	)
	for _, want := range []string{"FAILED: writ/a TestHangs", "panic: test timed out", "FAILED: writ/b", "undefined: x"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}
