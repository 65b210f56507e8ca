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

// machineScript creates a machine with a volume.
const machineScript = `
volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 1}, {on_loss: "replace"})
machine.create("box", {cpus: 1, memory_mib: 256, disks: [root]}, {on_loss: "replace"})
`

var machineBox = writ.ResourceID{Project: theProject, Kind: writ.KindMachine, Name: "box"}

// power returns the state of a simulated machine on a node, or "" if it does not exist.
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

// waitRetired waits until the runner of a removed node has ended.
func (n *realNode) waitRetired() {
	t := n.sim.t
	t.Helper()
	err := <-n.ended
	n.stop()
	n.stop = nil
	if writ.CodeOf(err) != writ.CodeNodeRejected {
		t.Errorf("the runner ended with %v, want NODE_REJECTED", err)
	}
}

// record returns the journal's record of a node.
func (s *sim) record(id writ.NodeID) (n *journal.Node) {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) (err error) { n, err = tx.Node(id); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Another node creates the machine of a lost node. When the lost node returns, it stops its machine and keeps its
// volume.
func TestReturningLostNodeStopsItsMachine(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(machineScript), writ.RunSucceeded)
		n1.halt()
		time.Sleep(2 * time.Minute)
		s.decide(n1.id(), "lost")
		had := s.record(n1.id())
		if had.Fence == nil || had.Fence.Superseded != 2 || len(had.Superseded) != 2 || had.Fence.Obeyed() {
			t.Fatalf("superseded work in the journal = %+v %+v", had.Fence, had.Superseded)
		}
		n2 := s.realNode("n2")
		s.wantState(s.submit(machineScript), writ.RunSucceeded)
		if n1.power(machineBox) != "running" || n2.power(machineBox) != "running" {
			t.Fatal("the machine does not run on both nodes before the first one returns")
		}
		n1.start()
		n1.waitRetired()
		if n1.power(machineBox) != "stopped" || n2.power(machineBox) != "running" {
			t.Errorf("machine is %s on the lost node, %s on the other node", n1.power(machineBox), n2.power(machineBox))
		}
		after := s.record(n1.id())
		if !after.Fence.Obeyed() || after.Fence.Stopped == 0 || len(after.FenceAnswer) == 0 {
			t.Errorf("fence answer = %+v", after.Fence)
		}
		kept := ""
		for _, o := range after.Orphans {
			kept += o.Kind + " " + o.Name + "; "
		}
		if !strings.Contains(kept, "superseded volume") || !strings.Contains(kept, "superseded machine") {
			t.Errorf("orphans = %s", kept)
		}
		reported := false
		for _, e := range s.eventsOf("node") {
			reported = reported || e.Node.ID == n1.id() && e.Node.Fence.Obeyed()
		}
		if !reported {
			t.Error("no event reports that the node has stopped its resources")
		}
		n1.start() // it has nothing left to do
		n1.waitRetired()
	})
}

// Removing a node frees no names, and its machine keeps running. A signed loss frees them later, and the machine stops
// when the node returns.
func TestRemovedNodeCanBeDeclaredLost(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(machineScript), writ.RunSucceeded)
		s.decide(n1.id(), "remove")
		n1.waitRetired()
		n2 := s.realNode("n2")
		run, _ := s.wantState(s.submit(machineScript), writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id() || !strings.Contains(run.Failure.Hint, "writ node lost n1") || n1.power(machineBox) != "running" {
			t.Errorf("failure = %+v, machine is %s", run.Failure, n1.power(machineBox))
		}
		s.decide(n1.id(), "lost")
		s.wantState(s.submit(machineScript), writ.RunSucceeded)
		n1.start()
		n1.waitRetired()
		if n1.power(machineBox) != "stopped" || n2.power(machineBox) != "running" {
			t.Errorf("machine is %s on the lost node, %s on the other node", n1.power(machineBox), n2.power(machineBox))
		}
		if after := s.record(n1.id()); !after.Fence.Obeyed() || after.Fence.Superseded != 2 {
			t.Errorf("fence answer = %+v", after.Fence)
		}
	})
}

// A person who signs the loss of a node may be wrong: the node may run behind a cut cable. Its later results are
// ignored, and it stops its resources as soon as it is connected again.
func TestFalselyLostNodeStopsItsResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		id := s.submit(strings.ReplaceAll(machineScript, "box", "slow-20-box"))
		box := machineBox
		box.Name = "slow-20-box"
		s.awaitCall(id, 2, writ.CallRunning)
		n2 := s.realNode("n2")
		time.Sleep(2 * time.Second)
		s.decide(n1.id(), "lost")
		run, calls := s.wantState(id, writ.RunFailed) // its volume existed before, and its content is lost
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id() || !strings.Contains(run.Failure.Message, "volume root") || calls[1].NodeName == "n2" {
			t.Errorf("failure = %+v", run.Failure)
		}
		n1.waitRetired()
		if power := n1.power(box); power == "running" {
			t.Errorf("machine is %s, want it stopped", power)
		}
		if after := s.record(n1.id()); !after.Fence.Obeyed() {
			t.Errorf("fence answer = %+v", after.Fence)
		}
		s.wantState(s.submit(machineScript), writ.RunSucceeded)
		n2.wantEffectsOnce(2)
	})
}

// After a person has signed the loss, another node repeats the calls that may have begun on the lost node, together
// with the calls that they need.
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
		id := s.submit(strings.NewReplacer(`"root"`, `"slow-90-root"`).Replace(machineScript))
		s.awaitCall(id, 1, writ.CallRunning)
		n1.halt()
		n2 := s.realNode("n2")
		time.Sleep(10 * time.Minute)
		if run, calls := s.look(id); run.State.Ended() || calls[0].NodeName != "n1" || !strings.Contains(calls[0].Why.String(), "writ node lost n1") {
			t.Fatalf("without a signature: run is %s, call on %s: %s", run.State, calls[0].NodeName, calls[0].Why.String())
		}
		s.decide(n1.id(), "lost")
		_, calls := s.wantState(id, writ.RunSucceeded)
		for _, c := range calls {
			if c.NodeName != "n2" {
				t.Errorf("%s ran on %s, want n2", c.Operation, c.NodeName)
			}
		}
		if calls[0].Attempt != 2 || calls[1].Attempt != 1 {
			t.Errorf("attempts = %d and %d, want 2 and 1", calls[0].Attempt, calls[1].Attempt)
		}
		had := s.record(n1.id()).Superseded
		if len(had) != 1 || had[0].Job == nil || *had[0].Job != (writ.JobKey{Run: id, Seq: 1, Attempt: 1}) || had[0].UID != calls[0].UID {
			t.Errorf("superseded work of n1 = %+v", had)
		}
		n1.start()
		n1.waitRetired()
		n2.wantEffectsOnce(2)
	})
}

// If the supervisor ends right after it recorded the signature, the next one applies all consequences.
func TestSignedLossSurvivesSupervisorRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.start()
		n1 := s.realNode("n1")
		id := s.submit(strings.NewReplacer(`"root"`, `"slow-90-root"`).Replace(machineScript))
		s.awaitCall(id, 1, writ.CallRunning)
		n1.halt()
		time.Sleep(2 * time.Minute)
		s.decide(n1.id(), "lost")
		s.halt()
		s.start()
		s.realNode("n2")
		s.wantState(id, writ.RunSucceeded)
		n1.start()
		n1.waitRetired()
		if after := s.record(n1.id()); !after.Fence.Obeyed() || len(after.Superseded) != 1 {
			t.Errorf("fence answer = %+v", after.Fence)
		}
	})
}

// An attacker may control a lost node. Its answers do not fill the journal, and a repeated answer changes nothing.
func TestAnswersOfGoneNodeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t)
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
				t.Fatalf("repeated first answer: %v", err)
			}
		}
		if events := len(s.eventsOf("node")) - before; refused != 99 || events != 1 {
			t.Errorf("100 answers at once: %d refused, %d events; want 99 and 1", refused, events)
		}
		time.Sleep(10 * time.Second)
		if err := answer(101); err != nil || s.record(n.id).FenceRound != 101 {
			t.Errorf("answer after ten seconds: %v", err)
		}
		for round := range int64(30) {
			time.Sleep(time.Second)
			if err := answer(200 + round); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.logs.Lines("lost node returned"); n < 2 || n > 5 {
			t.Errorf("the answers of 40 s produced %d lines, want 2 to 5", n)
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
					t.Errorf("fence answer: %v, want NOT_FOUND", err)
				}
			})
		})
	}
}
