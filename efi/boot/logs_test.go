package boot

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/logring"
)

// keptLines returns the stored lines of a source with their levels.
func keptLines(t *testing.T, dir, source string) (all []string) {
	t.Helper()
	entries, err := logring.Read(logring.File(dir, source))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Level+" "+e.Text)
	}
	return all
}

func TestLinesFromBeforeTheDiskWasThereAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node", "log")
	l := newLogs(func(text string) string { return strings.ReplaceAll(text, "canary", "(hidden)") })
	c := consoles{since: func() time.Duration { return 0 }, kept: l.stage}
	c.Stage("start", "writ %s", "canary")
	c.Show("data", "error: no disk")
	c.Show("service", "containerd ended with exit code 1; starts again in 1s")
	if err := l.begin(dir); err != nil {
		t.Fatal(err)
	}
	l.service("mycelium", "2026-11-27T00:00:00Z  WARN mycelium: no peer")
	l.runner(`time=2026-11-27T00:00:00Z level=INFO msg=serving`) // the runner stores this line itself
	l.runner("panic: canary")
	l.end()
	l.service("late", "a line after the end")
	got := map[string][]string{}
	for _, source := range logring.Sources(dir) {
		got[source] = keptLines(t, dir, source)
	}
	want := map[string][]string{
		"boot":     {"info start: writ (hidden)", "error data: error: no disk", "warn service: containerd ended with exit code 1; starts again in 1s", "error runner: panic: (hidden)"},
		"mycelium": {"warn 2026-11-27T00:00:00Z  WARN mycelium: no peer"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestServicesSayTheLevelsOfTheirLines(t *testing.T) {
	for line, want := range map[string]string{
		`time="2026-11-27T00:00:00Z" level=warning msg="x"`: "warn", `{"level":"error","msg":"x"}`: "error", `{"level": "debug"}`: "debug",
		"2026-11-27T00:00:00.000000Z  INFO mycelium: x": "info", "2026-11-27T00:00:00Z ERROR x": "error", "[DEBUG] x": "debug", "": "info",
		"no ERRORS, and much that is said before there is at last an ERROR": "info", "an error": "info", "level=": "info", "level=fatal": "error",
	} {
		if got := levelOf(line); got != want {
			t.Errorf("%q is %s, want %s", line, got, want)
		}
	}
}

func TestWarningsOfTheKernelAreFound(t *testing.T) {
	for record, want := range map[string]string{
		"4,339,5140900,-;disk vda: a warning\n SUBSYSTEM=block\n": "warn disk vda: a warning 5.1409s",
		"3,340,1000000,-,caller=T1;an error":                      "error an error 1s",
		"12,341,2000000,-;of a program":                           "warn of a program 2s",
		"0,342,3000000,c;an emergency":                            "error an emergency 3s",
	} {
		level, text, after, ok := parseKernel(record)
		if got := level + " " + text + " " + after.String(); !ok || got != want {
			t.Errorf("%q is %q, %v; want %q", record, got, ok, want)
		}
	}
	for _, record := range []string{"6,1,2,-;that all is well", "5,1,2,-;a notice", "", "4,1,2,-", "x,1,2,-;x", "4,1,x,-;x", "4;x"} {
		if level, text, _, ok := parseKernel(record); ok {
			t.Errorf("%q is a warning: %s %s", record, level, text)
		}
	}
}
