package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
)

// programScript runs a command in its own container, with more arguments and options.
func programScript(name, command, more string) string {
	return fmt.Sprintf(`
image := import("image")
container := import("container")
run := import("run")
i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "%064d", format: "oci"})
p := container.run(%q, {image: i, memory_mib: 64, command: [%q]%s)
run.output({code: p.exit_code})
`, 0, name, command, more)
}

// wantFree checks that no container is in the journal and that no memory is reserved.
func (s *sim) wantFree(when string) {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		all, err := tx.Resources()
		for _, r := range all {
			if r.Kind == writ.KindContainer {
				s.t.Errorf("%s: the journal has the %s", when, r.ResourceID)
			}
		}
		loads, e := tx.Loads()
		for node, l := range loads {
			if l.Reserved.MemoryMiB != 0 || l.Open() != 0 {
				s.t.Errorf("%s: node %s has %+v reserved", when, node, l)
			}
		}
		if err == nil {
			err = e
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Promise: Deployments: `container.run` reserves its name and capacity while it runs, and leaves no resource.
func TestProgramLeavesNoResource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		p := s.payload(programScript("slow-20-job", "work", "}"))
		preview := s.preview(p)
		if c := preview.Calls[1]; c.Action != writ.ActionAct || c.NodeName != "n1" {
			t.Errorf("preview = %+v", c)
		}
		id := s.submit(programScript("slow-20-job", "work", "}"))
		s.awaitCall(id, 2, writ.CallRunning)
		if err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			load, err := tx.Load(n.id())
			if load.Reserved.MemoryMiB != 64 {
				t.Errorf("reserved during the call: %+v, want 64 MiB", load)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		second := s.submit(programScript("slow-20-job", "work", "}"))
		time.Sleep(5 * time.Second)
		s.wantReason(second, 2, "slow-20-job")
		for _, id := range []writ.RunID{id, second} {
			run, calls := s.wantState(id, writ.RunSucceeded)
			s.wantAsPreviewed(writ.Preview{Calls: preview.Calls[1:]}, calls[1:])
			if run.Output["code"] != int64(0) || calls[1].UID == "" {
				t.Errorf("%s: output %v, call %+v", id, run.Output, calls[1])
			}
		}
		s.wantFree("after two runs")
		n.wantPrograms(2)
	})
}

// wantPrograms checks how many programs of container.run were executed.
func (n *realNode) wantPrograms(want int) {
	n.sim.t.Helper()
	total := 0
	for _, times := range n.effectsOf("container.run") {
		total += times
	}
	if total != want {
		n.sim.t.Errorf("programs ran %d times, want %d", total, want)
	}
}

func TestProgramNeedsAFreeName(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		conflict := programScript("web", "work", "}") + `container.create("web", {image: "i"})`
		s.wantState(s.submit(conflict), writ.RunSucceeded) // sequentially
		preview := s.preview(s.payload(conflict))
		if c := preview.Calls[1]; c.Action != writ.ActionRefused || c.Error.Code != writ.CodeResourceConflict {
			t.Errorf("preview = %+v", c)
		}
		run, calls := s.wantState(s.submit(conflict), writ.RunFailed)
		if e := run.Failure.Error; e.Code != writ.CodeResourceConflict || !strings.Contains(e.Hint, "container.exec") {
			t.Errorf("failure = %+v", run.Failure)
		}
		s.wantAsPreviewed(writ.Preview{Calls: preview.Calls[:2]}, calls[:2])
		n.wantPrograms(1)

		loop := strings.Replace(programScript("job", "work", "}"), "p := ", "for i in [1, 2, 3] { container.run(\"job\", {image: \"i\"}) }\np := ", 1)
		s.wantState(s.submit(loop), writ.RunSucceeded)
		n.wantPrograms(5)
	})
}

// Promise: Failures: A failed program of `container.run` is run again only after a person has resumed the run.
func TestFailedProgramIsRunAgainAfterResume(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		id := s.submit(programScript("job", "false", "}"))
		for times := 1; times < 3; times++ {
			run, calls := s.wantRest(id, writ.RunFailed)
			if e := run.Failure.Error; e.Code != writ.CodeProgramFailed || calls[1].Attempt != times {
				t.Errorf("attempt %d: failure = %+v", calls[1].Attempt, run.Failure)
			}
			n.wantPrograms(times)
			if err := s.resume(id); err != nil {
				t.Fatal(err)
			}
		}
		s.wantRest(id, writ.RunFailed)
		run, _ := s.wantState(s.submit(programScript("other", "false", ", check: false}")), writ.RunSucceeded)
		if run.Output["code"] != int64(1) {
			t.Errorf("output = %v", run.Output)
		}
		s.wantFree("after failures")
	})
}

// Promise: Failures: A program of `container.run` is not run on another node after its node is lost, unless its call is
// declared as harmless.
func TestProgramOfALostNodeDoesNotMove(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		plain := s.submit(programScript("slow-20-job", "work", `}, {on_loss: "wait"}`))
		s.awaitCall(plain, 2, writ.CallRunning)
		n1.halt()
		n2 := s.realNode("n2")
		time.Sleep(2 * time.Minute)
		n1.start()
		s.wantState(plain, writ.RunSucceeded) // the node continues it
		n1.wantPrograms(1)
		n2.wantPrograms(0)

		lost := s.submit(programScript("slow-20-other", "work", "}"))
		s.awaitCall(lost, 2, writ.CallRunning)
		n1.halt()
		run, calls := s.wantState(lost, writ.RunFailed)
		if run.Failure.Error.Code != writ.CodeNodeLost || calls[1].NodeName != "n1" {
			t.Errorf("failure = %+v", run.Failure)
		}
		n2.wantPrograms(0)
	})
}

// A node may report the usage of a program, although its container was never a resource in the journal.
func TestUsageOfProgramIsCharged(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, liar := s.join("n1"), s.join("n2")
		_, calls := s.wantState(s.submit(strings.ReplaceAll(programScript("job", "work", `}, {node: "n1"}`), `"oci"})`, `"oci"}, {node: "n1"})`)), writ.RunSucceeded)
		u := s.usageOf(&writ.Resource{ResourceID: calls[1].Resource(), UID: calls[1].UID})
		for _, from := range []*testNode{liar, n} {
			from.send(envelope.Report, writ.Report{Node: from.id, Incarnation: 1, Round: 1, Usage: []writ.Usage{u}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if charged := len(s.eventsOf("usage")); (charged == 1) != (from == n) {
				t.Errorf("charged %d entries", charged)
			}
		}
	})
}
