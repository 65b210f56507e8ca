package supervisor_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/scripts"
	"writ/supervisor"
	"writ/supervisor/journal"
)

// wantAwake fails the test if nothing wakes an open run.
func (s *sim) wantAwake() {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		sleepers, err := tx.AllSleepers()
		for _, sleeper := range sleepers {
			s.t.Errorf("nothing wakes %s", sleeper)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// execOn does something to the journal's file behind the supervisor's back.
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

// The database goes away between a supervisor's start and its look for what is open, and comes back.
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
		s.halt() // the run is accepted and had no pass, or was not accepted

		s.queue.Flush() // so that only recovery brings the job back before the watch does
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
				t.Errorf("of some projects runs are open: %v", open)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// slowEvaluator takes its passes only once it is let go.
type slowEvaluator struct {
	inProcess
	asked, goOn chan struct{}
}

func (e *slowEvaluator) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, entries []scripts.Entry) (scripts.Outcome, error) {
	e.asked <- struct{}{}
	<-e.goOn // also when it was told to end
	return e.inProcess.Pass(context.WithoutCancel(ctx), bundle, inputs, entries)
}

// A supervisor that was told to end still carries out a step when its lease is over, and the next one takes the same run on.
func TestDrainingSupervisorStealsNoRun(t *testing.T) {
	place := server.Store(t)
	synctest.Test(t, func(t *testing.T) {
		s := found(t)
		slow := &slowEvaluator{asked: make(chan struct{}), goOn: make(chan struct{})}
		s.place, s.evaluator = place, slow
		s.start()
		s.join("n1")
		id := s.submit(oneVolume)
		<-slow.asked
		oldEnded, oldJournal := s.ended, s.journal
		s.stop() // it drains
		synctest.Wait()
		records, err := journal.Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		config := s.Config
		config.Journal, config.Evaluator = records, inProcess{}
		if _, err := supervisor.Open(t.Context(), config, s.rosters); !errors.Is(err, journal.ErrHeld) {
			t.Fatalf("a new supervisor beside one that drains: %v", err)
		}
		if err := s.journal.Release(t.Context()); err != nil { // what ten seconds by PostgreSQL's clock would do
			t.Fatal(err)
		}
		next, err := supervisor.Open(t.Context(), config, s.rosters)
		if err != nil {
			t.Fatal(err)
		}
		close(slow.goOn) // the old one's pass comes to its end while the new one recovers
		s.run(next, records)
		if err := <-oldEnded; err != nil && !errors.Is(err, journal.ErrFenced) {
			t.Errorf("the old one ended with %v", err)
		}
		if err := oldJournal.Close(); err != nil {
			t.Error(err)
		}
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(1)
		s.wantAwake()
	})
}

// What recovery read may be long over when it acts on it: an attempt that failed meanwhile is not sent again, and its run goes on.
func TestStaleListChangesNoRecoveredRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		first := make(chan struct{})
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			switch {
			case job.Attempt == 1:
				<-first
				return writ.Result{Error: writ.Errorf(writ.CodeTimeout, "told to fail")}
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
				t.Errorf("%s was sent again after it had failed", job.TaskID())
			}
		}
		s.wantEffects(2)
	})
}

// A supervisor that is told to end while it answers loses no wake-up: neither that of what it has accepted and could not say, nor that of runs
// which wait for what has just ended.
func TestTheNextSupervisorFinishesPendingWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(10*time.Second))
		time.Sleep(2 * time.Second)
		holds := s.submit(oneVolume)
		s.awaitCall(holds, 1, writ.CallRunning)
		waits := s.submit(oneVolume) // for the same volume
		s.awaitCall(waits, 1, writ.CallPlanned)
		ordered := s.payload("run := import(\"run\")\nrun.log(\"hello\")\n")
		release := s.blockWrites()
		time.Sleep(10 * time.Second) // the result of the first is there, and is not written
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
		said := <-answered
		s.start()
		s.wantAwake()
		if said == nil {
			s.wantState(run.ID, writ.RunSucceeded)
		}
		s.wantState(holds, writ.RunSucceeded)
		s.wantState(waits, writ.RunSucceeded)
		s.wantAwake()
	})
}

// Whatever a run waits for of a node, it does not wait for one that was removed.
//
// Promise: Failures: No run waits for a removed node: untouched calls move at once, and possibly started calls end as
// `NODE_LOST`.
// How: The decision wakes the runs, and so does the next supervisor at its start; only `on_loss: "replace"` waits for
// a signature.
func TestRunsDoNotWaitForRemovedNode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		dies   bool // the node is lost before it is removed
		script string
		want   writ.RunState
	}{
		{"WhatIsOnIt", true, `volume := import("volume")` + "\n" + `volume.resize("v", {size_gib: 2})` + "\n", writ.RunFailed},
		{"WhatMayHaveBegunAndWaits", true, `volume := import("volume")` + "\n" + `volume.create("slow-90-w", {size_gib: 1}, {on_loss: "wait"})` + "\n", writ.RunFailed},
		{"WhatItWorksOn", false, `volume := import("volume")` + "\n" + `volume.create("slow-90-w", {size_gib: 1}, {on_loss: "wait"})` + "\n", writ.RunFailed},
		{"WhatItNeverTook", true, `volume := import("volume")` + "\n" + `volume.create("w", {size_gib: 1})` + "\n", writ.RunSucceeded},
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
					if tt.dies && tt.name != "WhatItNeverTook" {
						time.Sleep(3 * time.Minute)
					}
					s.realNode("n2")
					time.Sleep(2 * time.Second)
					if run, _ := s.look(id); run.State.Ended() {
						t.Fatalf("before it was removed, the run is %s: %+v", run.State, run.Failure)
					}
					s.decide(n1.id(), "remove")
					if restarts {
						s.halt()
						s.start()
					}
					removed := time.Now()
					run, _ := s.wantState(id, tt.want)
					if took := time.Since(removed); took > 2*time.Minute || !restarts && took > 5*time.Second {
						t.Errorf("it took %s", took)
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

// A step that binds a call to a node in the commit in which that is removed cannot know it.
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
		time.Sleep(4 * time.Second) // the result of the first call comes, and its step waits behind the decision
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

// A run that lost what wakes it, by a bug that nobody knows of yet, goes on all the same, and people are told.
func TestTheWatchWakesAStalledRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallPlanned)
		time.Sleep(2 * time.Second)
		s.execOn("UPDATE calls SET retry_at = 0")
		time.Sleep(5 * time.Second)
		if !strings.Contains(s.logs.String(), supervisor.NoWakeUp+"\" run="+string(id)) {
			t.Error("nobody was told")
		}
		s.join("n1")
		began := time.Now()
		s.wantState(id, writ.RunSucceeded)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		s.logs.Reset()
	})
}
