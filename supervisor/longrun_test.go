package supervisor_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/scripts"
	"writ/supervisor/journal"
)

// submitLong submits a script that may make n calls.
func (s *sim) submitLong(script string, n int) writ.RunID {
	s.t.Helper()
	p := s.payload(script)
	p.MaxCalls = n
	run, err := s.Submit(s.t.Context(), s.signPayload(p))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// mostOpen returns the maximum number of calls of a run that were open at once, by its events up to an end of the run.
func (s *sim) mostOpen(id writ.RunID, ends int) (most int) {
	s.t.Helper()
	open := make(map[int]bool)
	for after := int64(0); ; {
		events, err := s.journal.Events(s.t.Context(), after, 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			switch {
			case e.Run != nil && e.Run.ID == id && e.Run.State.Ended():
				if ends--; ends == 0 {
					return most
				}
			case e.Call == nil || e.Call.Run != id:
			case e.Call.State.Ended():
				delete(open, e.Call.Seq)
			default:
				open[e.Call.Seq] = true
				most = max(most, len(open))
			}
		}
	}
}

// Promise: Limits and shares: A run has at most 2,000 open calls, so that no step of a run is longer.
// How: A call is requested when all calls but the last 2,000 have ended. A pass then waits, as for a result.
func TestRunHasFewOpenCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) { n.slots = 500 })
		const calls = scripts.MaxOpenCalls + 700
		id := s.submitLong(fmt.Sprintf("node := import(%q)\nfor i := 0; i < %d; i++ { node.ping() }\n", "node", calls), calls)
		run, all := s.wantState(id, writ.RunSucceeded)
		for i, c := range all {
			if c.Seq != i+1 || c.State != writ.CallSucceeded || c.Delivery != 1 {
				t.Fatalf("call %d is %s after %d deliveries", c.Seq, c.State, c.Delivery)
			}
		}
		if len(all) != calls || len(run.Handled) > 0 {
			t.Errorf("the run has %d calls, want %d", len(all), calls)
		}
		s.wantEffects(calls)
		if most := s.mostOpen(id, 1); most != scripts.MaxOpenCalls {
			t.Errorf("%d calls were open at once, want %d", most, scripts.MaxOpenCalls)
		}
	})
}

// A resume reopens more than a thousand calls, and the script then makes as many new ones.
func TestResumedRunHasFewOpenCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n2", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Seq > 1501 {
					time.Sleep(time.Second) // so that no call ends before all are open
				}
				return succeed(ctx, job)
			}
		})
		s.join("n1", func(n *testNode) {
			n.slots = 100
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Seq <= 1501 && job.Attempt == 1 {
					return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no luck")}
				}
				if job.Seq <= 1500 {
					time.Sleep(10 * time.Second)
				} else {
					time.Sleep(time.Second)
				}
				return succeed(ctx, job)
			}
		})
		id := s.submitLong(`n := import("node"); volume := import("volume")
for i := 0; i < 1500; i++ { n.ping({}, {node: "n1"}) }
volume.create("middle", {size_gib: 1}, {node: "n2"}).uid
for i := 0; i < 1500; i++ { n.ping() }`, 3001)
		s.wantState(id, writ.RunFailed)
		run, calls := s.mustResume(id, writ.RunSucceeded)
		const want = scripts.MaxOpenCalls - 1 // the first 2,000 calls, without the volume
		if most := s.mostOpen(id, 2); most != want {
			t.Errorf("%d calls were open at once, want %d", most, want)
		}
		s.wantSummary(run, calls)
	})
}

// TestLongRunSurvivesRestarts restarts the supervisor several times while a run with more calls than it may have open
// waits for each of them.
func TestLongRunSurvivesRestarts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		const calls = scripts.MaxOpenCalls + 300
		script := fmt.Sprintf("node := import(%q)\nrun := import(%q)\nfor i := 0; i < %d; i++ { node.ping() }\nfor i := 0; i < 200; i++ { node.ping().err }\nrun.output({n: 1})\n", "node", "run", calls)
		id := s.submitLong(script, calls+200)
		for _, at := range []int{100, scripts.MaxOpenCalls + 10, calls + 100} {
			s.awaitCall(id, at, writ.CallSucceeded)
			s.halt()
			s.start()
		}
		run, all := s.wantState(id, writ.RunSucceeded)
		if len(all) != calls+200 || run.Output["n"] != int64(1) {
			t.Errorf("%d calls, output %v", len(all), run.Output)
		}
		s.wantEffects(calls + 200)
	})
}

// laterCalls makes so many calls that the supervisor no longer reads the first ones.
const laterCalls = "for i := 0; i < 1300; i++ { n.ping().err }\n"

// TestLateCallUsesFirstCall gives the handle of the first call to a call after more than a thousand others, with
// restarts before and after it.
func TestLateCallUsesFirstCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.join("n2", slowly(time.Second))
		script := `n := import("node"); volume := import("volume"); machine := import("machine"); run := import("run")
			first := volume.create("first", {size_gib: 1}, {node: "n2"})
			` + laterCalls + `
			m := machine.create("last", {cpus: 1, memory_mib: 64, disks: [first]})
			run.output({disk: first.uid, machine: m.uid})`
		id := s.submitLong(script, 1400)
		s.awaitCall(id, 1200, writ.CallSucceeded)
		s.halt()
		s.start()
		s.awaitCall(id, 1302, writ.CallQueued)
		s.halt()
		s.start()
		run, calls := s.wantState(id, writ.RunSucceeded)
		if last := calls[1301]; last.NodeName != "n2" || !slices.Equal(last.After, []int{1}) || run.Output["disk"] != string(calls[0].UID) {
			t.Errorf("the last call is on %s after %d; output %v", last.NodeName, last.After, run.Output)
		}
		s.wantSummary(run, calls)
	})
}

// TestFirstCallFailsLongRun has a run whose first call fails unread, and which makes more than a thousand calls after
// it. Its end names the first call, and a resume repeats it.
func TestFirstCallFailsLongRun(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) {
					n.act = func(ctx context.Context, job writ.Job) writ.Result {
						if job.Name == "first" && job.Attempt == 1 {
							return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no disk")}
						}
						return succeed(ctx, job)
					}
				})
				id := s.submitLong(`n := import("node"); volume := import("volume"); volume.create("first", {size_gib: 1})
					`+laterCalls+``, 1400)
				s.awaitCall(id, 1250, writ.CallSucceeded)
				if restarts {
					s.halt()
					s.start()
				}
				run, calls := s.wantState(id, writ.RunFailed)
				if run.Failure.Seq != 1 || run.Failure.Code != writ.CodeInjectedFinal || run.FirstEnded < 1000 {
					t.Errorf("failure %+v, %d of its first calls have ended", run.Failure, run.FirstEnded)
				}
				s.wantSummary(run, calls)
				run, calls = s.mustResume(id, writ.RunSucceeded)
				if calls[0].Attempt != 2 || len(calls) != 1301 {
					t.Errorf("the first of %d calls has %d attempts", len(calls), calls[0].Attempt)
				}
				s.wantSummary(run, calls)
			})
		})
	}
}

// wantSummary compares the signed summary of a run with its calls.
func (s *sim) wantSummary(run *journal.Run, calls []*journal.Call) {
	s.t.Helper()
	summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, envelope.Only(s.key.Public().(ed25519.PublicKey)))
	if err != nil || len(summaries) != 1 {
		s.t.Fatal(summaries, err)
	}
	summary := summaries[0]
	err = s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		want, err := tx.ResultsDigest(run.ID, calls)
		if summary.Results != want || summary.Calls != len(calls) || summary.State != run.State {
			s.t.Errorf("summary %+v, want %d calls with results %s", summary, len(calls), want)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// The last call of a long run is resumed. The step that ends the run stores the row of its first result, and the signed
// summary covers this result too.
func TestSummaryCoversResultOfLastStep(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name == "last" && job.Attempt == 1 {
					return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no disk")}
				}
				return succeed(ctx, job)
			}
		})
		id := s.submitLong(`n := import("node"); volume := import("volume")
`+laterCalls+`volume.create("last", {size_gib: 1})`, 1400)
		run, calls := s.wantState(id, writ.RunFailed)
		s.wantSummary(run, calls)
		run, calls = s.mustResume(id, writ.RunSucceeded)
		s.wantSummary(run, calls)
	})
}

// TestFailureOfLongRunNamesItsRootCause fails a run because of an early call whose need failed, before and after a
// thousand other calls.
func TestFailureOfLongRunNamesItsRootCause(t *testing.T) {
	for _, end := range []string{"", "run.log(b.uid)"} {
		t.Run(fmt.Sprintf("%q", end), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) {
					n.act = func(ctx context.Context, job writ.Job) writ.Result {
						if job.Name == "first" {
							return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no disk")}
						}
						return succeed(ctx, job)
					}
				})
				id := s.submitLong(`n := import("node"); volume := import("volume"); machine := import("machine"); run := import("run")
a := volume.create("first", {size_gib: 1})
a.err
b := machine.create("b", {cpus: 1, memory_mib: 64, disks: [a]})
`+laterCalls+end, 1400)
				run, _ := s.wantState(id, writ.RunFailed)
				if f := run.Failure; f.Code != writ.CodeInjectedFinal || f.Seq != 1 || !f.Handled || run.FirstEnded < 1000 {
					t.Errorf("failure %+v, %d of the first calls have ended", f, run.FirstEnded)
				}
			})
		})
	}
}

// A late call fails because of an early one whose need failed. Its error names the first cause, as in a short run.
func TestLateCallNamesRootCause(t *testing.T) {
	for _, between := range []string{"", laterCalls} {
		t.Run(fmt.Sprint(len(between)), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) {
					n.act = func(ctx context.Context, job writ.Job) writ.Result {
						if job.Name == "first" {
							return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no disk")}
						}
						return succeed(ctx, job)
					}
				})
				id := s.submitLong(`n := import("node"); volume := import("volume"); machine := import("machine")
b := machine.create("b", {cpus: 1, memory_mib: 64, disks: [volume.create("first", {size_gib: 1})]})
b.err
for i := 0; i < 150; i++ { b = machine.start(b); b.err }
`+between+`machine.start(b).err`, 1500)
				_, calls := s.wantState(id, writ.RunFailed)
				if last := calls[len(calls)-1]; last.Operation != "machine.start" || !strings.HasPrefix(last.Error.Message, "call 1 (volume.create first)") {
					t.Errorf("the error of %s is %v", last.Operation, last.Error)
				}
			})
		})
	}
}

// A missing row of an early call that failed holds the run, which the journal would otherwise report as succeeded.
func TestLongRunWithoutItsFailedCallStays(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				switch job.Name {
				case "first":
					return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "no disk")}
				case "last":
					time.Sleep(time.Minute)
				}
				return succeed(ctx, job)
			}
		})
		id := s.submitLong(`n := import("node"); volume := import("volume"); volume.create("first", {size_gib: 1})
`+laterCalls+`volume.create("last", {size_gib: 1})`, 1400)
		s.awaitCall(id, 1302, writ.CallRunning)
		s.tamper(`DELETE FROM calls WHERE run = $1 AND seq = 1`, string(id))
		time.Sleep(2 * time.Minute)
		if run, _ := s.look(id); run.State.Ended() || run.Why.Code != writ.ReasonForged {
			t.Errorf("the run is %s because of %+v", run.State, run.Why)
		}
	})
}

// A late volume gets the node of an early one that no call has used: a machine may use both.
func TestLateVolumeIsNearFirstVolume(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1")
				s.join("n2")
				id := s.submitLong(`n := import("node"); volume := import("volume"); machine := import("machine")
x := volume.create("x", {size_gib: 100}, {node: "n2"})
x.err
`+laterCalls+`y := volume.create("y", {size_gib: 1})
y.uid
machine.create("m", {cpus: 1, memory_mib: 64, disks: [x, y]})`, 1400)
				if restarts {
					s.awaitCall(id, 1250, writ.CallSucceeded)
					s.halt()
					s.start()
				}
				s.wantState(id, writ.RunSucceeded)
			})
		})
	}
}

// A database that restores an earlier row of a first call, from the time when it was open, holds the run.
func TestLongRunWithReopenedCallStays(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name != "" {
					time.Sleep(time.Minute)
				}
				return succeed(ctx, job)
			}
		})
		id := s.submitLong(`n := import("node"); volume := import("volume")
volume.create("first", {size_gib: 1}).err
`+laterCalls+`volume.create("last", {size_gib: 1})`, 1400)
		s.awaitCall(id, 1, writ.CallRunning)
		var before []byte
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT body FROM calls WHERE run = $1 AND seq = 1`, string(id)).Scan(&before)
		})
		if err != nil {
			t.Fatal(err)
		}
		s.awaitCall(id, 1302, writ.CallRunning)
		if run, _ := s.look(id); run.FirstEnded == 0 {
			t.Fatal("the supervisor reads the first calls")
		}
		s.tamper(`UPDATE calls SET body = $1 WHERE run = $2 AND seq = 1`, before, string(id))
		time.Sleep(2 * time.Minute)
		if run, _ := s.look(id); run.State.Ended() || run.Why.Code != writ.ReasonForged {
			t.Errorf("the run is %s because of %+v", run.State, run.Why)
		}
	})
}

// A long run is cancelled whose last call does not stop. It ends although the call is open.
func TestCancelledLongRunEndsWithAnOpenCall(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) {
					n.act = func(ctx context.Context, job writ.Job) writ.Result {
						if job.Name == "last" {
							time.Sleep(time.Hour)
						}
						return succeed(ctx, job)
					}
				})
				id := s.submitLong(`n := import("node"); volume := import("volume"); volume.create("first", {size_gib: 1})
`+laterCalls+`volume.create("last", {size_gib: 1})`, 1400)
				s.awaitCall(id, 1302, writ.CallRunning)
				if _, err := s.cancel(id); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					if time.Sleep(7 * time.Second); restarts {
						s.halt()
						s.start()
					}
				}
				run, calls := s.wantState(id, writ.RunCancelled)
				if run.FirstEnded == 0 || calls[1301].State != writ.CallCancelled {
					t.Errorf("%d of the first calls have ended, and the last one is %s", run.FirstEnded, calls[1301].State)
				}
				s.wantSummary(run, calls)
			})
		})
	}
}
