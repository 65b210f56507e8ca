package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
)

// twoNodes starts two nodes, n1 and n2. Placement prefers n1 in a tie.
func twoNodes(s *sim) (n1, n2 *realNode) {
	s.t.Helper()
	n1, n2 = s.realNode("n1"), s.realNode("n2")
	time.Sleep(2 * time.Second)
	return n1, n2
}

// restoreBackup replaces the journal by its backup and restarts the supervisor.
func (s *sim) restoreBackup(restore func()) {
	s.t.Helper()
	s.halt()
	time.Sleep(time.Second)
	restore()
	s.start()
}

// wantReason fails the test unless a call of a run waits for a reason that mentions words.
func (s *sim) wantReason(id writ.RunID, seq int, words ...string) {
	s.t.Helper()
	_, calls := s.look(id)
	if len(calls) < seq {
		s.t.Fatalf("the run has only %d calls", len(calls))
	}
	if c := calls[seq-1]; c.State != writ.CallPlanned || !testenv.Mentions(c.Why.String(), words...) {
		s.t.Fatalf("call %d is %s (%q), want it waiting with %q", seq, c.State, c.Why.String(), words)
	}
}

// submitSigned submits a signed payload.
func (s *sim) submitSigned(signed []byte) writ.RunID {
	s.t.Helper()
	run, err := s.Submit(s.t.Context(), signed)
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// completeAfterBackup stops idle, makes a backup, and completes a run on the other node. It returns the run, its
// submission, and a function that restores the backup.
func (s *sim) completeAfterBackup(idle *realNode) (id writ.RunID, signed []byte, restore func()) {
	s.t.Helper()
	idle.halt()
	time.Sleep(10 * time.Second)
	restore = s.backup()
	signed = s.signPayload(s.payload(fmt.Sprintf(execScript, "c")))
	id = s.submitSigned(signed)
	s.wantState(id, writ.RunSucceeded)
	return id, signed, restore
}

func TestRestoredRunReturnsToItsNode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		silent bool // whether the node of the run is silent for some time
	}{
		{"BothAreHeard", false},
		{"NodeOfTheRunIsSilent", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n1, n2 := twoNodes(s)
				id, signed, restore := s.completeAfterBackup(n1)
				n1.start()
				if tt.silent {
					n2.halt()
				}
				s.restoreBackup(restore)
				if again := s.submitSigned(signed); again != id {
					t.Fatalf("repeated submission = run %s, want %s", again, id)
				}
				if tt.silent {
					time.Sleep(2 * time.Minute)
					s.wantReason(id, 1, "writ node list", "n2", "lost", "backup")
					n2.start()
				}
				_, calls := s.wantState(id, writ.RunSucceeded)
				for _, c := range calls {
					if c.NodeName != "n2" {
						t.Errorf("call %d ran on %s, want n2", c.Seq, c.NodeName)
					}
				}
				n1.wantEffectsOnce(0)
				n2.wantEffectsOnce(3)
			})
		})
	}
}

func TestCallUnknownToBackupWaitsForNode(t *testing.T) {
	const script = `
image := import("image")
container := import("container")
i := image.fetch("i", {url: "https://images.example/i.tar", sha256: "` + "0000000000000000000000000000000000000000000000000000000000000000" + `", format: "oci"})
a := container.exec(container.create("slow-20-a", {image: i, memory_mib: 16}), {command: ["work"]})
if a.exit_code == 0 {
	j := image.fetch("j", {url: "https://images.example/j.tar", sha256: "` + "0000000000000000000000000000000000000000000000000000000000000000" + `", format: "oci"})
	container.exec(container.create("b", {image: j, memory_mib: 16}), {command: ["work"]})
}
`
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		id := s.submit(script)
		s.awaitCall(id, 3, writ.CallRunning)
		restore := s.backup()
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[2].NodeName != "n1" || calls[5].NodeName != "n2" {
			t.Fatalf("programs ran on %s and %s, want n1 and n2", calls[2].NodeName, calls[5].NodeName)
		}
		n2.halt()
		s.restoreBackup(restore)
		time.Sleep(2 * time.Minute)
		s.wantReason(id, 6, "writ node list", "n2")
		n2.start()
		s.wantState(id, writ.RunSucceeded)
		n1.wantEffectsOnce(3)
		n2.wantEffectsOnce(3)
	})
}

// The node of the call falls silent after it has reported the call. Another node would repeat the call.
func TestCallOnSilentNodeWaitsForIt(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		id, signed, restore := s.completeAfterBackup(n1)
		s.restoreBackup(restore)
		s.submitSigned(signed)
		time.Sleep(5 * time.Second)
		n2.halt()
		time.Sleep(2 * time.Minute)
		n1.start()
		time.Sleep(10 * time.Second)
		s.wantReason(id, 1, "n2", "lost")
		n2.start()
		s.wantState(id, writ.RunSucceeded)
		n1.wantEffectsOnce(0)
		n2.wantEffectsOnce(3)
	})
}

// Promise: Recovery: A run that is unknown to the restored journal waits for nodes only if it was signed before the
// restore.
// How: The signing time decides.
// Also: TestRunsSignedAfterARestoreDoNotWait, TestRestoreWaitsForNodeUntilItsRemoval.
func TestUnknownRunContinuesAfterNodeReports(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		signed := s.signPayload(s.payload(fmt.Sprintf(execScript, "c")))
		s.restoreBackup(s.backup())
		begun := time.Now()
		id := s.submitSigned(signed)
		s.wantState(id, writ.RunSucceeded)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the run took %s, want at most 10 s", took)
		}
		n1.wantEffectsOnce(3)
		n2.wantEffectsOnce(0)
	})
}

func TestRestoreWaitsForNodeUntilItsRemoval(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		n2.halt()
		signed := s.signPayload(s.payload(fmt.Sprintf(execScript, "c")))
		s.restoreBackup(s.backup())
		id := s.submitSigned(signed)
		time.Sleep(2 * time.Minute)
		s.wantReason(id, 1, "writ node list", "n2")
		s.decide(n2.id(), "remove")
		s.wantState(id, writ.RunSucceeded)
		n1.wantEffectsOnce(3)
	})
}

func TestRunsSignedAfterARestoreDoNotWait(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		n2.halt()
		s.restoreBackup(s.backup())
		time.Sleep(2 * time.Minute)
		s.wantState(s.submit(fmt.Sprintf(execScript, "c")), writ.RunSucceeded)
		n1.wantEffectsOnce(3)
	})
}

// A supervisor that ends during a reconciliation loses the reports of nodes.
func TestNextSupervisorReconcilesAgain(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := twoNodes(s)
		id, signed, restore := s.completeAfterBackup(n1)
		s.restoreBackup(restore)
		s.submitSigned(signed)
		time.Sleep(5 * time.Second) // n2 has reported, n1 has not
		s.halt()
		n2.halt()
		s.start()
		n1.start()
		time.Sleep(2 * time.Minute)
		s.wantReason(id, 1, "writ node list", "n2")
		n2.start()
		s.wantState(id, writ.RunSucceeded)
		n1.wantEffectsOnce(0)
		n2.wantEffectsOnce(3)
	})
}

// Two nodes report the same calls of a run, without being asked, and report impossible calls. Only one of them can have
// executed the call.
func TestCallClaimedByTwoNodesFails(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", claiming)
		s.join("n2", claiming)
		time.Sleep(2 * time.Second)
		signed := s.signPayload(s.payload(fmt.Sprintf(execScript, "c")))
		s.restoreBackup(s.backup())
		id := s.submitSigned(signed)
		_, calls := s.wantState(id, writ.RunFailed)
		if err := calls[0].Error; err == nil || err.Code != writ.CodeResourceConflict || !testenv.Mentions(err.Hint, "backup") {
			t.Errorf("error of the first call = %+v", err)
		}
		s.wantEffects(0)
	})
}

func claiming(n *testNode) { n.inventories = []int{3, 1, 2, 3, -1, 1 << 40} }
