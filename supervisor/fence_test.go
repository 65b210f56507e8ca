package supervisor_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/sal/simulated"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// aMachine makes a machine with a volume.
const aMachine = `
volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 1}, {on_loss: "replace"})
machine.create("box", {cpus: 1, memory_mib: 256, disks: [root]}, {on_loss: "replace"})
`

var theBox = writ.ResourceID{Project: theProject, Kind: writ.KindMachine, Name: "box"}

// power is what a simulated machine does on a node, "" if there is none.
func (n *realNode) power(resource writ.ResourceID) string {
	t := n.sim.t
	t.Helper()
	d, err := simulated.Open(simulated.Config{Module: string(resource.Kind), Dir: filepath.Join(n.dir, "sim")})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := d.Observe(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return seen.State
}

// retired waits until the runner has ended as one does that was removed.
func (n *realNode) retired() {
	t := n.sim.t
	t.Helper()
	err := <-n.ended
	n.stop()
	n.stop = nil
	if writ.CodeOf(err) != writ.CodeNodeRejected {
		t.Errorf("the runner ended with %v", err)
	}
}

// record returns a node as the journal has it.
func (s *sim) record(id writ.NodeID) (n *journal.Node) {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) (err error) { n, err = tx.Node(id); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// The machine of a node that was lost is made elsewhere; the first one does not run when its node is back, and its volume is still there.
func TestReturningLostNodeStopsItsMachine(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(aMachine), writ.RunSucceeded)
		n1.halt()
		time.Sleep(2 * time.Minute)
		s.decide(n1.id(), "lost")
		had := s.record(n1.id())
		if had.Fence == nil || had.Fence.Superseded != 2 || len(had.Superseded) != 2 || had.Fence.Obeyed() {
			t.Fatalf("of what it must not go on with the journal has %+v %+v", had.Fence, had.Superseded)
		}
		n2 := s.realNode("n2")
		s.wantState(s.submit(aMachine), writ.RunSucceeded)
		if n1.power(theBox) != "running" || n2.power(theBox) != "running" {
			t.Fatal("the machine should run on both until the first node is heard of")
		}
		n1.start()
		n1.retired()
		if n1.power(theBox) != "stopped" || n2.power(theBox) != "running" {
			t.Errorf("the machine is %s on the lost node and %s on the other one", n1.power(theBox), n2.power(theBox))
		}
		after := s.record(n1.id())
		if !after.Fence.Obeyed() || after.Fence.Stopped == 0 || len(after.FenceAnswer) == 0 {
			t.Errorf("it said %+v", after.Fence)
		}
		kept := ""
		for _, o := range after.Orphans {
			kept += o.Kind + " " + o.Name + "; "
		}
		if !strings.Contains(kept, "superseded volume") || !strings.Contains(kept, "superseded machine") {
			t.Errorf("it keeps %s", kept)
		}
		told := false
		for _, e := range s.eventsOf("node") {
			told = told || e.Node.ID == n1.id() && e.Node.Fence.Obeyed()
		}
		if !told {
			t.Error("nobody was told that it has stopped everything")
		}
		n1.start() // it does nothing any more
		n1.retired()
	})
}

// The removal of a node frees no names, and its machine works on. A signed loss frees them later, and the machine stops when the node is back.
func TestRemovedNodeCanBeDeclaredLost(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(aMachine), writ.RunSucceeded)
		s.decide(n1.id(), "remove")
		n1.retired()
		n2 := s.realNode("n2")
		run, _ := s.wantState(s.submit(aMachine), writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id() || !strings.Contains(run.Failure.Hint, "writ node lost n1") || n1.power(theBox) != "running" {
			t.Errorf("failure = %+v, and the machine is %s", run.Failure, n1.power(theBox))
		}
		s.decide(n1.id(), "lost")
		s.wantState(s.submit(aMachine), writ.RunSucceeded)
		n1.start()
		n1.retired()
		if n1.power(theBox) != "stopped" || n2.power(theBox) != "running" {
			t.Errorf("the machine is %s on the lost node and %s on the other one", n1.power(theBox), n2.power(theBox))
		}
		if after := s.record(n1.id()); !after.Fence.Obeyed() || after.Fence.Superseded != 2 {
			t.Errorf("it said %+v", after.Fence)
		}
	})
}

// Whoever signs that a node is lost may be wrong: it works on behind a cut cable. What it answers then counts no more, and it stops what it has
// as soon as it is heard.
func TestFalselyLostNodeStopsItsResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		id := s.submit(strings.ReplaceAll(aMachine, "box", "slow-20-box"))
		box := theBox
		box.Name = "slow-20-box"
		s.awaitCall(id, 2, writ.CallRunning)
		n2 := s.realNode("n2")
		time.Sleep(2 * time.Second)
		s.decide(n1.id(), "lost")
		run, calls := s.wantState(id, writ.RunFailed) // its volume was there already, and what it holds is lost
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id() || !strings.Contains(run.Failure.Message, "volume root") || calls[1].NodeName == "n2" {
			t.Errorf("failure = %+v", run.Failure)
		}
		n1.retired()
		if power := n1.power(box); power == "running" {
			t.Errorf("the machine is %s", power)
		}
		if after := s.record(n1.id()); !after.Fence.Obeyed() {
			t.Errorf("it said %+v", after.Fence)
		}
		s.wantState(s.submit(aMachine), writ.RunSucceeded)
		n2.wantEffectsOnce(2)
	})
}

// Calls that may have begun on the lost node are done by another one, together with what they need, and only once a person has signed.
//
// Promise: Failures: With `on_loss: "replace"`, another node repeats a possibly started call only after a person
// signed the loss, never by a timeout.
// How: The transaction of the signature records the calls that the lost node must not continue; a call that needs a
// volume of the lost node ends as `NODE_LOST`.
// Also: TestCallIsReplacedOnlyWithItsNeeds, TestSignedLossSurvivesSupervisorRestart,
// TestDiagnosticsHaveCodeAndPosition.
func TestSignedLossReplacesUncertainCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		id := s.submit(strings.NewReplacer(`"root"`, `"slow-90-root"`).Replace(aMachine))
		s.awaitCall(id, 1, writ.CallRunning)
		n1.halt()
		n2 := s.realNode("n2")
		time.Sleep(10 * time.Minute)
		if run, calls := s.look(id); run.State.Ended() || calls[0].NodeName != "n1" || !strings.Contains(calls[0].Why.String(), "writ node lost n1") {
			t.Fatalf("without a signature the run is %s, and its call on %s: %s", run.State, calls[0].NodeName, calls[0].Why.String())
		}
		s.decide(n1.id(), "lost")
		_, calls := s.wantState(id, writ.RunSucceeded)
		for _, c := range calls {
			if c.NodeName != "n2" {
				t.Errorf("%s was done by %s", c.Operation, c.NodeName)
			}
		}
		if calls[0].Attempt != 2 || calls[1].Attempt != 1 {
			t.Errorf("the attempts are %d and %d, want 2 and 1", calls[0].Attempt, calls[1].Attempt)
		}
		had := s.record(n1.id()).Superseded
		if len(had) != 1 || had[0].Job == nil || *had[0].Job != (writ.JobKey{Run: id, Seq: 1, Attempt: 1}) || had[0].UID != calls[0].UID {
			t.Errorf("of what n1 must not go on with the journal has %+v", had)
		}
		n1.start()
		n1.retired()
		n2.wantEffectsOnce(2)
	})
}

// A supervisor that ends right after the signature was recorded goes on with what follows from it.
func TestSignedLossSurvivesSupervisorRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		s.start()
		n1 := s.realNode("n1")
		id := s.submit(strings.NewReplacer(`"root"`, `"slow-90-root"`).Replace(aMachine))
		s.awaitCall(id, 1, writ.CallRunning)
		n1.halt()
		time.Sleep(2 * time.Minute)
		s.decide(n1.id(), "lost")
		s.halt()
		s.start()
		s.realNode("n2")
		s.wantState(id, writ.RunSucceeded)
		n1.start()
		n1.retired()
		if after := s.record(n1.id()); !after.Fence.Obeyed() || len(after.Superseded) != 1 {
			t.Errorf("it said %+v", after.Fence)
		}
	})
}

// A node that is gone may be in wrong hands: it fills no journal with its answers, and one that comes again changes nothing.
func TestAnswersOfGoneNodeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := found(t)
		s.level = slog.LevelInfo
		s.start()
		n := s.join("n1")
		s.decide(n.id, "lost")
		answer := func(round int64) error {
			signed, err := envelope.Sign(envelope.Fenced, n.key, nodes.FenceAnswer{Node: n.id, Datacenter: s.Datacenter, Round: round})
			if err != nil {
				t.Fatal(err)
			}
			return s.Fenced(t.Context(), n.id, signed)
		}
		before := len(s.eventsOf("node"))
		var refused int
		for round := range int64(100) {
			if err := answer(round + 1); writ.CodeOf(err) == writ.CodeRateLimited {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
			if err := answer(1); err != nil {
				t.Fatalf("the first one again: %v", err)
			}
		}
		if events := len(s.eventsOf("node")) - before; refused != 99 || events != 1 {
			t.Errorf("of 100 answers within a moment %d were refused, and %d events tell of the rest", refused, events)
		}
		time.Sleep(10 * time.Second)
		if err := answer(101); err != nil || s.record(n.id).FenceRound != 101 {
			t.Errorf("an answer after ten seconds: %v", err)
		}
		for round := range int64(30) {
			time.Sleep(time.Second)
			if err := answer(200 + round); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.logs.Lines("lost node returned"); n < 2 || n > 5 {
			t.Errorf("its answers of 40 s are %d lines", n)
		}
	})
}

// An attacker with write access to the database can delete the record of a lost node, or restore an older one.
func TestLostNodeWithoutItsRecordIsRejected(t *testing.T) {
	for name, change := range map[string]string{
		"deleted": `DELETE FROM nodes`,
		"older":   `DELETE FROM nodes; INSERT INTO nodes SELECT * FROM older`,
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				execute := func(statement string) {
					err := s.journal.Write(t.Context(), func(tx *journal.Tx) error {
						_, err := tx.ExecContext(t.Context(), statement)
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				n := s.join("n1")
				execute(`CREATE TABLE older AS SELECT * FROM nodes`)
				s.decide(n.id, "lost")
				execute(change)
				signed, err := envelope.Sign(envelope.Fenced, n.key, nodes.FenceAnswer{Node: n.id, Datacenter: s.Datacenter, Round: 1})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Fenced(t.Context(), n.id, signed); writ.CodeOf(err) != writ.CodeNotFound {
					t.Errorf("its answer: %v", err)
				}
			})
		})
	}
}
