package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// blockWrites blocks the journal's writer until release is called.
func (s *sim) blockWrites() (release func()) {
	gate := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.journal.Write(s.t.Context(), func(*journal.Tx) error { <-gate; return nil })
	}()
	synctest.Wait()
	return func() {
		close(gate)
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

func (s *sim) cancel(id writ.RunID) (link.StatementAnswer, error) {
	return s.Decide(s.t.Context(), s.sign(s.statement("run/"+string(id), "cancel")))
}

func (s *sim) decide(node writ.NodeID, decision string) {
	s.t.Helper()
	if _, err := s.Decide(s.t.Context(), s.sign(s.statement("node/"+string(node), decision))); err != nil {
		s.t.Fatal(err)
	}
}

func TestLateCancelIsReported(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Second))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		release := s.blockWrites()
		time.Sleep(5 * time.Second) // the result has arrived and waits for the writer
		answered := make(chan error)
		go func() {
			_, err := s.cancel(id)
			answered <- err
		}()
		synctest.Wait()
		release()
		if err := <-answered; writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("cancel = %v, want CONFLICT", err)
		}
		s.wantState(id, writ.RunSucceeded)
	})
}

func TestFailingRunCanBeCancelled(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(9*time.Minute))
		time.Sleep(2 * time.Second)
		id := s.submit(`
machine := import("machine")
run := import("run")
machine.create("m", {cpus: 1, memory_mib: 64})
run.now().unix_ms
run.fail("enough")
`)
		time.Sleep(5 * time.Second)
		began := time.Now()
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunFailed)
		if took := time.Since(began); took > 35*time.Second {
			t.Errorf("the run ended after %s, want at most 35 s", took)
		}
	})
}

func TestConcurrentStatementHasOneAnswer(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		signed := s.sign(s.statement("node/"+string(n.id), "cordon"))
		release := s.blockWrites()
		var answers [2]link.StatementAnswer
		var errs [2]error
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i], errs[i] = s.Decide(t.Context(), signed) })
		}
		synctest.Wait()
		release()
		group.Wait()
		if err := errors.Join(errs[:]...); err != nil || !reflect.DeepEqual(answers[0], answers[1]) {
			t.Errorf("answers %+v, %v", answers, err)
		}
	})
}

func TestLostStopOrderIsRepeated(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(9*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.queue.Cut(true)
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		s.halt()
		s.queue.Cut(false)
		s.start()
		select {
		case <-n.stopped:
		case <-time.After(20 * time.Second):
			t.Error("the node received no cancel")
		}
		s.wantState(id, writ.RunCancelled)
	})
}

func TestReturningNodeLearnsAbandonedJobs(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(9*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		n.setSilent(true)
		s.wantState(id, writ.RunFailed)
		n.setSilent(false)
		select {
		case <-n.stopped:
		case <-time.After(20 * time.Second):
			t.Error("the node received no cancel")
		}
	})
}

func TestCallMayWaitForLostNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Minute))
		id := s.submit(`
volume := import("volume")
volume.create("v", {size_gib: 1}, {on_loss: "wait", timeout: "1m"})
`)
		s.awaitCall(id, 1, writ.CallRunning)
		n.setSilent(true) // past the end-by time of the call
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(1)
	})
}

// A scan for lost jobs and the first beat that names the job may reach the run at the same time.
func TestRunningCallIsNotSentAgain(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		_, calls := s.look(id)
		s.SendAgain(calls[0])
		time.Sleep(5 * time.Second)
		if _, calls = s.look(id); calls[0].State != writ.CallRunning || len(n.given()) != 1 {
			t.Errorf("call is %s, node received %v", calls[0].State, n.given())
		}
	})
}

func TestCallRunsWithoutItsStartMessage(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Minute))
		time.Sleep(2 * time.Second)
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		_, calls := s.look(id)
		s.Miss(calls[0])
		time.Sleep(4 * time.Second)
		if _, calls = s.look(id); calls[0].State != writ.CallRunning {
			t.Errorf("call is %s four seconds after its start on the node", calls[0].State)
		}
	})
}

// A lost node that returns has to end its call in time, and the reason no longer reports that the call waits for the
// node.
func TestReturningNodeEndsWaitOfCall(t *testing.T) {
	for _, loss := range []string{"wait", "replace"} {
		t.Run(loss, func(t *testing.T) { testReturningNode(t, loss) })
	}
}

func testReturningNode(t *testing.T, loss string) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Hour))
		id := s.submit(fmt.Sprintf(`
volume := import("volume")
volume.create("v", {size_gib: 1}, {on_loss: %q, timeout: "10m"})
`, loss))
		s.awaitCall(id, 1, writ.CallRunning)
		reason := func() string { _, calls := s.look(id); return calls[0].Why.String() }
		n.setSilent(true)
		time.Sleep(20 * time.Minute)
		if !testenv.Mentions(reason(), "n1", "lost") {
			t.Errorf("reason with the node lost = %q", reason())
		}
		n.setSilent(false)
		time.Sleep(5 * time.Second)
		if reason() != "" {
			t.Errorf("reason with the node back = %q, want none", reason())
		}
		run, calls := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeDeadlineExceeded || calls[0].Ended.Sub(calls[0].Started) < 25*time.Minute {
			t.Errorf("the call ended after %s with %+v", calls[0].Ended.Sub(calls[0].Started), run.Failure)
		}
	})
}

// The progress text of a node does not extend the time of its call.
func TestNodeCannotSetWaitReasonOfCall(t *testing.T) {
	for _, text := range []string{
		"its node n1 is lost; the call waits for it (on_loss)",
		"its node n1 is lost; another node runs the call after a person has signed that the node never comes back (writ node lost n1)",
	} {
		t.Run(text, func(t *testing.T) { testProgressText(t, text) })
	}
}

func testProgressText(t *testing.T, text string) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Hour), func(n *testNode) { n.progress = text })
		id := s.submit(`
volume := import("volume")
volume.create("v", {size_gib: 1}, {timeout: "1m"})
`)
		if run, _ := s.wantState(id, writ.RunFailed); run.Failure.Code != writ.CodeDeadlineExceeded {
			t.Errorf("failure = %+v", run.Failure)
		}
	})
}

func TestNodeIsDrainedAfterItsLastCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(20*time.Second))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.decide(n.id, "drain")
		scheduling := func() writ.Scheduling { return s.standingOf(n).Scheduling }
		time.Sleep(5 * time.Second)
		if got := scheduling(); got != writ.SchedulingDraining {
			t.Errorf("while it runs a call the node is %s", got)
		}
		back := s.statement("node/"+string(n.id), "uncordon")
		s.see(back)
		s.wantState(id, writ.RunSucceeded)
		time.Sleep(3 * time.Second)
		if got := scheduling(); got != writ.SchedulingDrained {
			t.Errorf("after its last call the node is %s", got)
		}
		if _, err := s.Decide(t.Context(), s.sign(back)); err != nil {
			t.Errorf("statement signed while the node was draining: %v", err)
		}
		s.decide(n.id, "drain")
		time.Sleep(3 * time.Second)
		s.decide(n.id, "drain")
		if got := scheduling(); got != writ.SchedulingDrained {
			t.Errorf("after a second drain the node is %s", got)
		}
		s.decide(n.id, "uncordon")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
	})
}

// If two people decide about the same revision of a node, one decision is accepted. The other is refused until its
// signer has seen the new revision.
func TestDecisionsAboutANodeDoNotUndoEachOther(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := &testNode{sim: s, name: "n1", key: newKey(t)}
		welcome, err := n.claim(identity.Token{})
		if err != nil {
			t.Fatal(err)
		}
		signed := map[string][]byte{}
		for _, decision := range []string{"approve", "cordon"} {
			signed[decision] = s.sign(s.statement("node/"+string(welcome.Node), decision))
		}
		release := s.blockWrites()
		var group sync.WaitGroup
		var mu sync.Mutex
		var refused []string
		for _, decision := range []string{"approve", "cordon"} {
			signed := signed[decision]
			group.Go(func() {
				_, err := s.Decide(t.Context(), signed)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused = append(refused, decision)
				}
				if code := writ.CodeOf(err); code != "" && code != writ.CodeConflict {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		release()
		group.Wait()
		if len(refused) != 1 {
			t.Fatalf("refused: %v", refused)
		}
		s.decide(welcome.Node, refused[0])
		err = s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			n, err := tx.Node(welcome.Node)
			if n.Admission != writ.AdmissionApproved || n.Scheduling != writ.SchedulingCordoned {
				t.Errorf("node is %s and %s", n.Admission, n.Scheduling)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// revoke signs a roster that removes the roles deployer and admin from alice. She is the root and keeps her key.
func (s *sim) revoke() {
	s.t.Helper()
	next, err := s.roster.Successor(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	var kept []identity.Binding
	for _, b := range next.Bindings {
		if b.Role != identity.Deployer && b.Role != identity.Admin {
			kept = append(kept, b)
		}
	}
	next.Bindings = kept
	s.adopt(next)
}

func TestAdoptionAdmitsNoRevokedSigner(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		signed := s.signPayload(s.payload(oneVolume))
		s.revoke()
		release := s.blockWrites()
		adopted := make(chan error)
		go func() {
			_, err := s.AdoptRosters(context.Background(), s.rosters)
			adopted <- err
		}()
		synctest.Wait()
		submitted := make(chan error)
		go func() {
			_, err := s.Submit(context.Background(), signed)
			submitted <- err
		}()
		synctest.Wait()
		release()
		if err := <-adopted; err != nil {
			t.Fatal(err)
		}
		if err := <-submitted; writ.CodeOf(err) != writ.CodeRoleMissing {
			t.Errorf("Submit = %v, want ROLE_MISSING", err)
		}
	})
}

func TestRosterAdoptedBeforeCrashCancels(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume)
		s.revoke()
		s.halt()
		s.start() // adopts the roster before any run continues
		s.halt()
		s.start()
		run, _ := s.wantState(id, writ.RunCancelled)
		if run.Failure.Code != writ.CodeSignerRevoked {
			t.Errorf("failure = %+v, want SIGNER_REVOKED", run.Failure)
		}
	})
}
