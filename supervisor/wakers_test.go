package supervisor_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/scripts"
	"writ/supervisor"
	"writ/supervisor/journal"
)

// wantAwake fails the test if an open run has no waker.
func (s *sim) wantAwake() {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		sleepers, err := tx.AllSleepers()
		for _, sleeper := range sleepers {
			s.t.Errorf("%s has no waker", sleeper)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// execOn changes the file of the journal without the supervisor.
func (s *sim) execOn(statement string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.place+"?_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		s.t.Fatal(err)
	}
}

// The database fails between the start of a supervisor and its read of the open work, and then recovers.
func TestDatabaseRestartInRecoveryLosesNoRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Second))
		time.Sleep(2 * time.Second)
		sent := s.submit(oneVolume)
		s.awaitCall(sent, 1, writ.CallRunning)
		release := s.blockWrites()
		due := s.payload("run := import(\"run\")\nrun.log(\"hello\")\n")
		go func() { _, _ = s.Submit(context.WithoutCancel(t.Context()), s.signPayload(due)) }()
		synctest.Wait()
		go release()
		s.halt() // the run is accepted and has had no pass, or it was not accepted

		s.queue.Flush() // only recovery can send the job again before the watch
		records, err := journal.Open(t.Context(), s.place)
		if err != nil {
			t.Fatal(err)
		}
		config := s.Config
		config.Journal = records
		next, err := supervisor.Open(t.Context(), config, s.rosters)
		if err != nil {
			t.Fatal(err)
		}
		s.execOn("ALTER TABLE calls RENAME TO calls_away")
		s.run(next, records)
		time.Sleep(5 * time.Second)
		s.execOn("ALTER TABLE calls_away RENAME TO calls")
		s.wantState(sent, writ.RunSucceeded)
		s.wantEffects(1)
		time.Sleep(5 * time.Second)
		err = s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			open, err := tx.OpenRuns()
			if len(open) > 0 {
				t.Errorf("open runs by project = %v, want none", open)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// slowEvaluator blocks its passes until proceed is closed.
type slowEvaluator struct {
	inProcess
	asked, proceed chan struct{}
}

func (e *slowEvaluator) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, entries []scripts.Entry) (scripts.Outcome, error) {
	e.asked <- struct{}{}
	<-e.proceed // even if the supervisor is stopping
	return e.inProcess.Pass(context.WithoutCancel(ctx), bundle, inputs, entries)
}

// A stopping supervisor completes a step after the end of its lease, while the next supervisor continues the same run.
func TestDrainingSupervisorStealsNoRun(t *testing.T) {
	place := server.Store(t)
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t)
		slow := &slowEvaluator{asked: make(chan struct{}), proceed: make(chan struct{})}
		s.place, s.evaluator = place, slow
		s.start()
		s.join("n1")
		id := s.submit(oneVolume)
		<-slow.asked
		oldEnded, oldJournal := s.ended, s.journal
		s.stop() // starts draining
		synctest.Wait()
		records, err := journal.Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		config := s.Config
		config.Journal, config.Evaluator = records, inProcess{}
		if _, err := supervisor.Open(t.Context(), config, s.rosters); !errors.Is(err, journal.ErrHeld) {
			t.Fatalf("open a supervisor next to a draining one: %v, want ErrHeld", err)
		}
		if err := s.journal.Release(t.Context()); err != nil { // equals ten seconds without renewal
			t.Fatal(err)
		}
		next, err := supervisor.Open(t.Context(), config, s.rosters)
		if err != nil {
			t.Fatal(err)
		}
		close(slow.proceed) // the pass of the old supervisor ends during the recovery of the new one
		s.run(next, records)
		if err := <-oldEnded; err != nil && !errors.Is(err, journal.ErrFenced) {
			t.Errorf("the old supervisor ended with %v", err)
		}
		if err := oldJournal.Close(); err != nil {
			t.Error(err)
		}
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(1)
		s.wantAwake()
	})
}

// Recovery may act on outdated data. An attempt that failed meanwhile is not sent again, and its run continues.
func TestStaleListChangesNoRecoveredRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		first := make(chan struct{})
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			switch {
			case job.Attempt == 1:
				<-first
				return writ.Result{Error: writ.Errorf(writ.CodeTimeout, "injected failure")}
			default:
				return succeed(ctx, job)
			}
		}
		time.Sleep(2 * time.Second)
		id := s.submit(`volume := import("volume")` + "\n" + `volume.create("v", {size_gib: 1})` + "\n")
		s.awaitCall(id, 1, writ.CallRunning)
		_, stale := s.look(id)
		close(first)
		s.awaitCall(id, 1, writ.CallPlanned)
		for _, state := range []string{"between two attempts", "after the end", "forgotten"} {
			if state == "after the end" {
				s.wantState(id, writ.RunSucceeded)
			}
			if state == "forgotten" {
				stale[0].Run = writ.RunID(writ.NewUUID())
			}
			s.SendAgain(stale[0])
			synctest.Wait()
			s.wantAwake()
		}
		for _, job := range n.given() {
			if job.Attempt == 1 && job.Delivery > 1 {
				t.Errorf("%s was sent again after its failure", job.TaskID())
			}
		}
		s.wantEffects(2)
	})
}

// A supervisor that is stopped during an answer loses no wake-up: neither of a run that it accepted without answering,
// nor of runs that wait for a call that has just ended.
func TestNextSupervisorFinishesPendingWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Second))
		time.Sleep(2 * time.Second)
		holds := s.submit(oneVolume)
		s.awaitCall(holds, 1, writ.CallRunning)
		waits := s.submit(oneVolume) // waits for the same volume
		s.awaitCall(waits, 1, writ.CallPlanned)
		ordered := s.payload("run := import(\"run\")\nrun.log(\"hello\")\n")
		release := s.blockWrites()
		time.Sleep(10 * time.Second) // the result of the first run has arrived, and is not written
		var run writ.Run
		answered := make(chan error, 1)
		go func() {
			var err error
			run, err = s.Submit(context.WithoutCancel(t.Context()), s.signPayload(ordered))
			answered <- err
		}()
		synctest.Wait()
		s.stop()
		release()
		s.halt()
		submitErr := <-answered
		s.start()
		s.wantAwake()
		if submitErr == nil {
			s.wantState(run.ID, writ.RunSucceeded)
		}
		s.wantState(holds, writ.RunSucceeded)
		s.wantState(waits, writ.RunSucceeded)
		s.wantAwake()
	})
}

// No run waits for a removed node, whatever it waits for.
//
// Promise: Failures: No run waits for a removed node: untouched calls move at once, and possibly started calls end as
// `NODE_LOST`.
// How: The decision wakes the runs, and so does the next supervisor at its start; only `on_loss: "replace"` waits for
// a signature.
func TestRunsDoNotWaitForRemovedNode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		dies   bool // whether the node is lost before its removal
		script string
		want   writ.RunState
	}{
		{"ResourceOfTheNode", true, `volume := import("volume")` + "\n" + `volume.resize("v", {size_gib: 2})` + "\n", writ.RunFailed},
		{"PossiblyStarted", true, `volume := import("volume")` + "\n" + `volume.create("slow-90-w", {size_gib: 1}, {on_loss: "wait"})` + "\n", writ.RunFailed},
		{"Running", false, `volume := import("volume")` + "\n" + `volume.create("slow-90-w", {size_gib: 1}, {on_loss: "wait"})` + "\n", writ.RunFailed},
		{"NeverReceived", true, `volume := import("volume")` + "\n" + `volume.create("w", {size_gib: 1})` + "\n", writ.RunSucceeded},
	} {
		for name, restarts := range map[string]bool{"": false, "AndTheSupervisorRestarts": true} {
			t.Run(tt.name+name, func(t *testing.T) {
				inSim(t, func(t *testing.T, s *sim) {
					n1 := s.realNode("n1")
					s.wantState(s.submit(oneVolume), writ.RunSucceeded)
					var id writ.RunID
					began := strings.Contains(tt.script, "slow")
					if began {
						id = s.submit(tt.script)
						s.awaitCall(id, 1, writ.CallRunning)
					}
					if tt.dies {
						n1.halt()
					}
					if !began {
						id = s.submit(tt.script)
					}
					time.Sleep(2 * time.Second)
					if tt.dies && tt.name != "NeverReceived" {
						time.Sleep(3 * time.Minute)
					}
					s.realNode("n2")
					time.Sleep(2 * time.Second)
					if run, _ := s.look(id); run.State.Ended() {
						t.Fatalf("run before the removal is %s: %+v", run.State, run.Failure)
					}
					s.decide(n1.id(), "remove")
					if restarts {
						s.halt()
						s.start()
					}
					removed := time.Now()
					run, _ := s.wantState(id, tt.want)
					if took := time.Since(removed); took > 2*time.Minute || !restarts && took > 5*time.Second {
						t.Errorf("the run ended %s after the removal", took)
					}
					if tt.want == writ.RunFailed && run.Failure.Code != writ.CodeNodeLost {
						t.Errorf("failure = %+v", run.Failure)
					}
					s.wantAwake()
				})
			})
		}
	}
}

// A step may bind a call to a node in the same commit that removes the node. The step cannot see the removal.
func TestBoundCallLeavesRemovedNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		n2 := s.join("n2", slowly(3*time.Second))
		time.Sleep(2 * time.Second)
		id := s.submit(`
volume := import("volume")
run := import("run")
run.log(volume.create("a", {size_gib: 1}, {node: "n2"}).path)
volume.create("b", {size_gib: 1})
`)
		s.awaitCall(id, 1, writ.CallRunning)
		s.decide(n2.id, "cordon")
		n1.halt()
		release := s.blockWrites()
		removed := make(chan error, 1)
		go func() {
			_, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(n1.id()), "remove")))
			removed <- err
		}()
		synctest.Wait()
		time.Sleep(4 * time.Second) // the first result arrives, and its step waits behind the decision
		release()
		if err := <-removed; err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.wantAwake()
		s.decide(n2.id, "uncordon")
		s.wantState(id, writ.RunSucceeded)
	})
}

// A run that lost its waker through an unknown bug continues, and the log reports it.
func TestWatchWakesStalledRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallPlanned)
		time.Sleep(2 * time.Second)
		s.execOn("UPDATE calls SET retry_at = 0")
		time.Sleep(5 * time.Second)
		if !strings.Contains(s.logs.String(), supervisor.NoWakeUp+"\" run="+string(id)) {
			t.Error("the log does not name the run")
		}
		s.join("n1")
		began := time.Now()
		s.wantState(id, writ.RunSucceeded)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the run took %s, want at most 10 s", took)
		}
		s.logs.Reset()
	})
}

// A replaced supervisor runs until its next write. Meanwhile it knows neither the decisions of its successor nor the
// nodes that joined, and must not report runs of its successor.
func TestReplacedSupervisorReportsNoStalledRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallPlanned)
		time.Sleep(2 * time.Second)
		s.execOn(fmt.Sprintf("UPDATE calls SET retry_at = 0; UPDATE meta SET value = '%d' WHERE name = 'epoch'", s.Epoch()+1))
		time.Sleep(5 * time.Second)
		if strings.Contains(s.logs.String(), supervisor.NoWakeUp) {
			t.Errorf("the replaced supervisor reports a stalled run:\n%s", s.logs.String())
		}
	})
}
