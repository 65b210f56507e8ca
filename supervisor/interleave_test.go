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

// blockWrites keeps the journal's writer busy until the test lets it go.
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
		time.Sleep(5 * time.Second) // the result is there and waits to be written
		answered := make(chan error)
		go func() {
			_, err := s.cancel(id)
			answered <- err
		}()
		synctest.Wait()
		release()
		if err := <-answered; writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("cancel = %v", err)
		}
		s.wantState(id, writ.RunSucceeded)
	})
}

func TestAFailingRunCanBeCutShort(t *testing.T) {
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
			t.Errorf("it took %s", took)
		}
	})
}

func TestTheSameStatementTwiceAtOnceHasOneAnswer(t *testing.T) {
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
			t.Error("the node was not told to stop")
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
			t.Error("the node was not told to stop")
		}
	})
}

func TestACallMayWaitForALostNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Minute))
		id := s.submit(`
volume := import("volume")
volume.create("v", {size_gib: 1}, {on_loss: "wait", timeout: "1m"})
`)
		s.awaitCall(id, 1, writ.CallRunning)
		n.setSilent(true) // past the call's end-by
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(1)
	})
}

// A look for lost jobs and the first beat that names one of them may come to the run at once.
func TestRunningCallIsNotSentAgain(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		_, calls := s.look(id)
		s.SendAgain(calls[0])
		time.Sleep(5 * time.Second)
		if _, calls = s.look(id); calls[0].State != writ.CallRunning || len(n.given()) != 1 {
			t.Errorf("the call is %s, and its node got the jobs %v", calls[0].State, n.given())
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
			t.Errorf("four seconds after its node began with it the call is %s", calls[0].State)
		}
	})
}

// A node that was lost has to end its call in time once it is back, and nobody says that the call waits for it any more.
func TestReturningNodeEndsWaitOfCall(t *testing.T) {
	for _, loss := range []string{"wait", "replace"} {
		t.Run(loss, func(t *testing.T) { testNodeIsBack(t, loss) })
	}
}

func testNodeIsBack(t *testing.T, loss string) {
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
			t.Errorf("of a call on a lost node it says %q", reason())
		}
		n.setSilent(false)
		time.Sleep(5 * time.Second)
		if reason() != "" {
			t.Errorf("of a call whose node is back it says %q", reason())
		}
		run, calls := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeDeadlineExceeded || calls[0].Ended.Sub(calls[0].Started) < 25*time.Minute {
			t.Errorf("the call ends after %s with %+v", calls[0].Ended.Sub(calls[0].Started), run.Failure)
		}
	})
}

// What a node says of its progress does not give it more time.
func TestNodeCannotSetWaitReasonOfCall(t *testing.T) {
	for _, says := range []string{
		"its node n1 is lost; the call waits for it (on_loss)",
		"its node n1 is lost; another one does it once a person has signed that it never comes back (writ node lost n1)",
	} {
		t.Run(says, func(t *testing.T) { testNodeSays(t, says) })
	}
}

func testNodeSays(t *testing.T, says string) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Hour), func(n *testNode) { n.says = says })
		id := s.submit(`
volume := import("volume")
volume.create("v", {size_gib: 1}, {timeout: "1m"})
`)
		if run, _ := s.wantState(id, writ.RunFailed); run.Failure.Code != writ.CodeDeadlineExceeded {
			t.Errorf("failure = %+v", run.Failure)
		}
	})
}

func TestANodeIsDrainedWhenItsLastCallEnds(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(20*time.Second))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.decide(n.id, "drain")
		scheduling := func() writ.Scheduling { return s.standingOf(n).Scheduling }
		time.Sleep(5 * time.Second)
		if got := scheduling(); got != writ.SchedulingDraining {
			t.Errorf("while it works the node is %s", got)
		}
		back := s.statement("node/"+string(n.id), "uncordon")
		s.see(back)
		s.wantState(id, writ.RunSucceeded)
		time.Sleep(3 * time.Second)
		if got := scheduling(); got != writ.SchedulingDrained {
			t.Errorf("after that the node is %s", got)
		}
		if _, err := s.Decide(t.Context(), s.sign(back)); err != nil {
			t.Errorf("what somebody signed while the node was being drained: %v", err)
		}
		s.decide(n.id, "drain")
		time.Sleep(3 * time.Second)
		s.decide(n.id, "drain")
		if got := scheduling(); got != writ.SchedulingDrained {
			t.Errorf("drained once more, it is %s", got)
		}
		s.decide(n.id, "uncordon")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
	})
}

// Of two decisions by people who saw the same revision of a node one counts, and the other is refused until they have looked again.
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
				t.Errorf("the node is %s and %s", n.Admission, n.Scheduling)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// revoke signs a roster in which alice, who is the root, keeps her key but may not deploy any more.
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
			t.Errorf("Submit = %v", err)
		}
	})
}

func TestRosterAdoptedBeforeCrashCancels(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume)
		s.revoke()
		s.halt()
		s.start() // adopts it before anything runs
		s.halt()
		s.start()
		run, _ := s.wantState(id, writ.RunCancelled)
		if run.Failure.Code != writ.CodeSignerRevoked {
			t.Errorf("failure = %+v", run.Failure)
		}
	})
}
