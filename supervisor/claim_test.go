package supervisor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/scripts"
)

// lingering delays each pass of a script with a ping by 5 s, except the first.
type lingering struct{ inProcess }

func (e lingering) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	if len(journal) > 0 && strings.Contains(string(bundle.Main.Text), "node.ping()") {
		time.Sleep(5 * time.Second)
	}
	return e.inProcess.Pass(ctx, bundle, inputs, journal)
}

// withDurations sets the duration of operations. Other operations take one second.
func withDurations(times map[string]time.Duration) func(n *testNode) {
	return func(n *testNode) {
		n.slots = 16
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			time.Sleep(max(times[job.Operation], time.Second))
			return succeed(ctx, job)
		}
	}
}

// deleteSlowly creates volume b and starts a run that deletes it, which takes ten seconds. A ping ends before that, and
// the pass after the ping ends later.
func (s *sim) deleteSlowly() writ.RunID {
	s.t.Helper()
	s.join("n1", withDurations(map[string]time.Duration{"volume.delete": 10 * time.Second, "node.ping": 9 * time.Second}))
	time.Sleep(3 * time.Second)
	const volume = "volume := import(\"volume\")\n"
	s.wantState(s.submit(volume+`volume.create("b", {size_gib: 1})`), writ.RunSucceeded)
	id := s.submit(volume + `volume.delete("b")`)
	s.awaitCall(id, 1, writ.CallQueued)
	return id
}

// Two runs claim the same two volumes in opposite order, while a third run deletes b. The first run was submitted
// earlier, but the other run gets b first, because the first one is in a pass when b becomes free.
func TestOppositeOrdersCauseNoDeadlock(t *testing.T) {
	for _, tt := range []struct{ name, first, other string }{
		{"CopiedByHandle", `b := volume.create("b", {size_gib: 2}); volume.copy("a", {from: b, size_gib: 2})`,
			`a := volume.create("a", {size_gib: 2}); volume.copy("b", {from: a, size_gib: 2})`},
		{"CopiedByName", `volume.create("b", {size_gib: 2}); volume.copy("a", {from: "b", size_gib: 2})`,
			`volume.create("a", {size_gib: 2}); volume.copy("b", {from: "a", size_gib: 2})`},
		{"MadeAnew", `b := volume.create("b", {size_gib: 2}); make("m", b); machine.delete("m"); a := volume.create("a", {size_gib: 2}); make("m", a)`,
			`a := volume.create("a", {size_gib: 2}); make("n", a); machine.delete("n"); b := volume.create("b", {size_gib: 2}); make("n", b)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newCluster(t)
				s.evaluator = lingering{}
				s.start()
				s.deleteSlowly()
				const modules = "volume := import(\"volume\")\nmachine := import(\"machine\")\nnode := import(\"node\")\n" +
					"make := func(name, disk) { machine.create(name, {cpus: 1, memory_mib: 512, disks: [disk]}) }\n"
				first := s.submit(modules + "p := node.ping()\n" + strings.ReplaceAll(tt.first, "; ", "\n") + "\np.err\n")
				s.awaitCall(first, 1, writ.CallQueued)
				began := time.Now()
				other := s.submit(modules + strings.ReplaceAll(tt.other, "; ", "\n") + "\n")
				s.wantState(first, writ.RunSucceeded)
				s.wantState(other, writ.RunSucceeded)
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("both runs took %s", took)
				}
			})
		})
	}
}

// A claim that waits for another run holds back only the calls that depend on it.
func TestCallsOutsideTheHoldContinue(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		works := s.deleteSlowly()
		id := s.submit(`
volume := import("volume")
b := volume.create("b", {size_gib: 2})
a := volume.create("a", {size_gib: 2})
volume.copy("b", {from: a, size_gib: 2})
volume.copy("far", {from: b, size_gib: 2})
volume.copy("near", {from: a, size_gib: 2})
`)
		preview := s.preview(s.payload(`
volume := import("volume")
b := volume.create("b", {size_gib: 2})
volume.copy("far", {from: b, size_gib: 2})
volume.create("apart", {size_gib: 2})
`))
		for i, waits := range []bool{true, true, false} {
			if c := preview.Calls[i]; c.Waits != waits || c.Error != nil {
				t.Errorf("preview of call %d = %+v", c.Seq, c)
			}
		}
		s.awaitCall(id, 5, writ.CallSucceeded)
		if run, _ := s.look(works); run.State.Ended() {
			t.Error("the copy of the free volume waited for the end of the other run")
		}
		_, calls := s.look(id)
		for _, c := range calls[:4] {
			if free := c.Seq == 2; c.Claimed != free || c.State.Ended() != free {
				t.Errorf("call %d (%s %s) is %s: %q", c.Seq, c.Operation, c.Name, c.State, c.Why.String())
			}
		}
		s.wantState(id, writ.RunSucceeded)
	})
}
