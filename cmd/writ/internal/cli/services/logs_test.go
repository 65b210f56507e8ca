package services

import (
	"bytes"
	"strings"
	"testing"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// quietEnv returns an environment with the outputs.
func quietEnv(out, err *bytes.Buffer) *cli.Env {
	return &cli.Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: err}, Out: out}}
}

// TestLineEndedByABreakEndsOnce stops a container in the middle of a line, and changes its state again without
// output.
func TestLineEndedByABreakEndsOnce(t *testing.T) {
	var out, err bytes.Buffer
	r := &logPrinter{Env: quietEnv(&out, &err), what: "web", follow: true}
	for _, part := range []logPart{{Text: "half a li", State: "running"}, {State: "stopped"}, {State: "running"}} {
		if err := r.print(part); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := err.String(), "\n… web is stopped\n… web is running\n"; got != want || out.String() != "half a li" {
		t.Errorf("it shows %q and %q, want %q", out.String(), got, want)
	}
}

// A line of one log is never inside a line of another one, and an unfinished line waits for its rest.
func TestLinesOfSeveralLogsStayWhole(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	p := &namedPrinter{Env: quietEnv(&out, &said), follow: true}
	p.setNames([]string{"container/web-1", "container/db"})
	web, db := p.of("container/web-1"), p.of("container/db")
	for _, step := range []struct {
		of   *namedLog
		part logPart
	}{
		{web, logPart{Text: "one\ntw", State: "running"}}, {db, logPart{Text: "ready\n\x1b[2J\n", State: "running"}},
		{web, logPart{Text: "o\n", State: "running"}}, {web, logPart{Text: "thr", State: "running"}},
		{web, logPart{State: "stopped"}}, {web, logPart{Text: "anew\n", Lost: true, State: "running"}}, {db, logPart{Text: "end", State: "running"}},
	} {
		if err := step.of.print(step.part); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.finish(); err != nil {
		t.Fatal(err)
	}
	want := "container/web-1  one\ncontainer/db     ready\ncontainer/db     \ncontainer/web-1  two\ncontainer/web-1  thr\n" +
		"container/web-1  anew\ncontainer/db     end\n"
	if got := out.String(); got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
	notes := "… container/web-1 is stopped\nwarning: container/web-1: " + lostText + "\n… container/web-1 is running\n"
	if got := said.String(); got != notes {
		t.Errorf("it says\n%s\nwant\n%s", got, notes)
	}
}

// A program that writes no line end must not fill the memory.
func TestLongLineOfLogIsPrinted(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	p := &namedPrinter{Env: quietEnv(&out, &said), follow: true}
	web := p.of("container/web")
	for range 3 {
		if err := web.print(logPart{Text: strings.Repeat("x", maxHeld), State: "running"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), "x"); got < 2*maxHeld {
		t.Errorf("it prints %d characters, and holds the others", got)
	}
	if err := web.finish(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "x"); got != 3*maxHeld {
		t.Errorf("it prints %d of %d characters", got, 3*maxHeld)
	}
}
