package boot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/efi/progress"
)

// heldMachine returns a machine with a screen, and the reports that its boot server receives.
func heldMachine(p *paged) (m *machine, told *[]progress.Report) {
	told = new([]progress.Report)
	same := func(line string) string { return line }
	m = newMachine(&Machine{Redact: same}, reporter{&consoles{since: p.since, lines: p.lines}, p.status}, newLogs(same))
	m.told = func(r progress.Report) {
		p.note(r)
		*told = append(*told, r)
	}
	return m, told
}

func TestAStageThatFailsTwiceIsHeldOnThePageUntilItWorks(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Stage("start", "writ v1.0.0")
		missing := writ.Errorf(writ.CodeNotFound, "no disk has the label writ-data").WithHint("attach the disk")
		p.wait(5 * time.Second)
		if m.FailAgain(progress.StageData, missing, "it looks every second") {
			t.Error("it is held when it failed once")
		}
		p.want(0, "data     error: no disk has the label writ-data\n", "data     hint: attach the disk\n")
		for range 10 {
			p.wait(time.Second)
			if !m.FailAgain(progress.StageData, missing, "it looks every second") {
				t.Error("it is not held when it failed again")
			}
		}
		p.want(0, "data     held: it failed twice in the same way; it looks every second\n",
			"This machine is held at data: it failed twice in the same way.\n", "held data        0.0    6.0  see below\n",
			"    trouble      no disk has the label writ-data\n    since        5 s after its start, for 1 s\n    next         attach the disk\n    goes on      it looks every second\n")
		if len(*told) != 3 || (*told)[1].Held || !(*told)[2].Held || (*told)[2].Next != "attach the disk" {
			t.Errorf("reports = %+v", *told)
		}
		p.wait(time.Minute)
		if shown := p.shows(); strings.Count(shown, "This machine is held at data") != 2 || !strings.Contains(shown, "for 61 s\n") {
			t.Errorf("within a minute the screen shows\n%s", shown)
		}
		m.Stage(progress.StageData, "/dev/vda")
		p.wait(time.Minute)
		if shown := p.shows(); strings.Contains(shown, "held") || !strings.Contains(shown, "This machine is starting") {
			t.Errorf("when the stage works the screen shows\n%s", shown)
		}
	})
}

func TestStageThatNeedsAPersonIsHeldAtOnce(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Stage("start", "writ v1.0.0")
		m.stop(progress.StageConfig, writ.Errorf(writ.CodeUsage, "the token is missing").WithHint("make one"))
		p.want(0, "config   error: the token is missing\n", "This machine is held at config: it waits for a person to act.\n", "    next         make one\n    goes on      not automatically: when the cause is removed, turn the machine")
		if len(*told) != 2 || !(*told)[1].Held || (*told)[1].Next != "make one" {
			t.Errorf("reports = %+v", *told)
		}
	})
}

// A runner that exits twice with the same error is held. The boot server also gets the hint, which follows one line
// after the error.
func TestARunnerThatEndsTwiceWithOneErrorIsHeld(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Means = func(line string) (progress.Report, bool) {
			text, fails := strings.CutPrefix(line, "error: ")
			hint, hints := strings.CutPrefix(line, "hint: ")
			switch {
			case fails:
				return progress.Report{Stage: progress.StageRunner, Text: text, Failed: true}, true
			case hints:
				return progress.Report{Stage: progress.StageRunner, Next: hint, Failed: true}, true
			}
			return progress.Report{}, false
		}
		now, stop := context.WithCancel(p.t.Context())
		stop() // so that pauses do not block the test
		for i, held := range []bool{false, true, true} {
			p.begin()
			m.node.runnerSays("error: the token is spent")
			m.node.runnerSays("hint: make another one")
			if m.node.reportEnd("exit code 3") != held {
				t.Errorf("after end %d held is %v", i+1, !held)
			}
			_ = awaitRetry(now, m.status, progress.Limit{Most: heldPause, Then: "the runner starts again"})
			last := (*told)[len(*told)-1]
			if last.Text != "ended with exit code 3: the token is spent" || last.Next != "make another one" || last.Held != held {
				t.Errorf("after end %d: last report = %+v", i+1, last)
			}
		}
		p.wait(2 * time.Second)
		p.want(1, "runner   held: it ended twice in the same way\n", "This machine is held: it failed twice in the same way.\n",
			"    trouble      ended with exit code 3: the token is spent\n    since        0 s after its start, for 1 s\n    next         make another one\n    goes on      1 s of 300 s, then the runner starts again\n",
			"turn it off and on\n  with its power button")
		p.wait(time.Minute)
		p.want(1, "This machine is held", "for 61 s\n")
	})
}

// A runner that cannot be started is retried, and the page shows the reason.
func TestARunnerThatCannotBeStartedIsHeld(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		for _, held := range []bool{false, true} {
			m.status.begin()
			if m.node.cannotStart(errors.New("pass the token to the runner: no space left")) != held {
				t.Errorf("held is %v", !held)
			}
		}
		p.wait(quiet)
		p.want(1, "runner   error: pass the token to the runner: no space left\n", "This machine is held: it failed twice in the same way.\n", "    trouble      pass the token to the runner: no space left\n")
		if last := (*told)[len(*told)-1]; !last.Failed || !last.Held || last.Text != "pass the token to the runner: no space left" {
			t.Errorf("last report = %+v", last)
		}
	})
}

// The problem of a full disk stays on the page and in reports while the servers are diagnosed, and is not repeated.
func TestFullDiskIsReportedAmongOtherFaults(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Means = func(string) (progress.Report, bool) { return cannot, true }
		m.FailBeside(progress.StageData, writ.Errorf(writ.CodeStoreUnavailable, "the disk is full").WithHint("delete files"))
		p.begin()
		m.node.runnerSays("cannot join")
		m.node.unreachable(nil)
		p.wait(2 * time.Second)
		p.want(1, "    trouble      the disk is full: cannot join yet: connection refused\n", "    next         delete files\n")
		silent, unknown := writ.Errorf(writ.CodeUnreachable, "the supervisor does not answer").WithHint("look"), writ.Errorf(writ.CodeUnreachable, "no nameserver answers").WithHint("name others")
		for range 3 {
			m.node.unreachable(silent)
			m.node.unreachable(unknown)
		}
		if last := (*told)[len(*told)-1]; last.Text != "the disk is full; no nameserver answers; cannot join yet: connection refused" || last.Next != "delete files" {
			t.Errorf("last report = %+v", last)
		}
		m.node.unreachable(nil)
		m.node.reportEnd("exit code 1")
		if last := (*told)[len(*told)-1]; last.Text != "ended with exit code 1: the disk is full; cannot join yet: connection refused" {
			t.Errorf("last report = %+v", last)
		}
	})
}

// An unreachable server stays on the page and in reports until the node serves.
func TestAServerThatCannotBeReachedStaysKnown(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, told := heldMachine(p)
		m.Means = func(line string) (progress.Report, bool) {
			if line == "serving" {
				return joins, true
			}
			return cannot, line == "cannot join"
		}
		p.begin()
		m.node.runnerSays("cannot join")
		unknown := writ.Errorf(writ.CodeUnreachable, "no nameserver answers").WithHint("name others")
		for range 3 {
			m.node.unreachable(unknown)
		}
		p.wait(5 * time.Second)
		p.want(1, "reach    error: no nameserver answers\n", "    trouble      no nameserver answers: cannot join yet: connection refused\n", "    next         name others\n")
		m.node.runnerSays("cannot join")
		if last := (*told)[len(*told)-1]; len(*told) != 3 || last.Text != "no nameserver answers; cannot join yet: connection refused" || !last.Held {
			t.Errorf("reports = %+v", *told)
		}
		if m.status.fine() {
			t.Error("it is fine")
		}
		m.node.runnerSays("serving")
		p.wait(5 * time.Second)
		p.want(1, "This machine serves as a node.\n")
		if shown := p.shows(); strings.Contains(shown, "nameserver") || !m.status.fine() {
			t.Errorf("when it serves the screen shows\n%s", shown)
		}
	})
}
