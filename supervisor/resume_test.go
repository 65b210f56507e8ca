package supervisor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

func (s *sim) resume(id writ.RunID) error {
	s.t.Helper()
	_, err := s.Decide(s.t.Context(), s.sign(s.statement("run/"+string(id), "resume")))
	return err
}

// mustResume resumes a run and waits until it has ended again.
func (s *sim) mustResume(id writ.RunID, want writ.RunState) (*journal.Run, []*journal.Call) {
	s.t.Helper()
	if err := s.resume(id); err != nil {
		s.t.Fatal(err)
	}
	return s.wantRest(id, want)
}

// wantRest waits until a run has ended, and fails the test unless its state is want.
func (s *sim) wantRest(id writ.RunID, want writ.RunState) (*journal.Run, []*journal.Call) {
	s.t.Helper()
	for {
		run, calls := s.look(id)
		if run.State.Ended() {
			if run.State != want {
				s.t.Fatalf("run is %s (%+v), want %s", run.State, run.Failure, want)
			}
			return run, calls
		}
		time.Sleep(time.Second)
	}
}

// breaking fails jobs by name: faults holds the number of failures left, negative for permanent failures.
type breaking struct {
	mu     sync.Mutex
	faults map[string]int
	made   map[string]int // number of successes
}

func (b *breaking) act(ctx context.Context, job writ.Job) writ.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.faults[job.Name]; left != 0 {
		b.faults[job.Name]--
		return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "injected failure")}
	}
	b.made[job.Name]++
	return succeed(ctx, job)
}

func newBreaking(faults map[string]int) *breaking {
	return &breaking{faults: faults, made: make(map[string]int)}
}

func (b *breaking) join(n *testNode) { n.act = b.act }

// states formats calls as "1:succeeded/2": the state and the attempt of each call.
func states(calls []*journal.Call) string {
	var all []string
	for _, c := range calls {
		all = append(all, fmt.Sprintf("%d:%s/%d", c.Seq, c.State, c.Attempt))
	}
	return strings.Join(all, " ")
}

// branching continues after the error of its first call. It fails by its third call, which the fourth call needs.
const branching = `
volume := import("volume")
run := import("run")
a := volume.create("a", {size_gib: 1})
if a.err { volume.create("b", {size_gib: 1}).uid }
c := volume.create("c", {size_gib: 1})
d := volume.clone("d", {from: c})
run.output({c: c.name})
`

func TestResumeRepeatsOnlyFailedCalls(t *testing.T) {
	for name, between := range map[string]func(s *sim){
		"AtOnce":     func(*sim) {},
		"AfterCrash": func(s *sim) { s.halt(); s.start() },
		"AfterFlush": func(s *sim) { s.queue.Flush() },
	} {
		for _, bound := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/bound=%v", name, bound), func(t *testing.T) {
				inSim(t, func(t *testing.T, s *sim) {
					b := newBreaking(map[string]int{"a": 1, "c": 1})
					s.join("n1", b.join)
					planned := ""
					if bound {
						planned = branching
					}
					id := s.submitMaybeBound(branching, planned)
					run, calls := s.wantRest(id, writ.RunFailed)
					if got := states(calls); got != "1:failed/1 2:succeeded/1 3:failed/1 4:failed/1" || run.Failure.Seq != 3 {
						t.Fatalf("calls are %s, failure = %+v", got, run.Failure)
					}
					between(s)
					run, calls = s.mustResume(id, writ.RunSucceeded)
					if got := states(calls); got != "1:failed/1 2:succeeded/1 3:succeeded/2 4:succeeded/1" {
						t.Errorf("calls are %s", got)
					}
					if diff := cmp.Diff(map[string]int{"b": 1, "c": 1, "d": 1}, b.made); diff != "" {
						t.Errorf("made (-want +got):\n%s", diff)
					}
					summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, s.nodes[0].supervisorKey)
					if err != nil || summaries[0].State != writ.RunSucceeded || summaries[0].Output["c"] != "c" {
						t.Errorf("signed summaries = %+v, %v", summaries, err)
					}
				})
			})
		}
	}
}

// submitMaybeBound submits a script, bound to the plan of another one unless planned is "".
func (s *sim) submitMaybeBound(script, planned string) writ.RunID {
	s.t.Helper()
	if planned == "" {
		return s.submit(script)
	}
	return s.submitBound(script, planned)
}

func TestResumeMayBeRepeated(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		b := newBreaking(map[string]int{"v": 3})
		s.join("n1", b.join)
		id := s.submit(oneVolume)
		s.wantRest(id, writ.RunFailed)
		signed := s.sign(s.statement("run/"+string(id), "resume"))
		for range 2 { // a repeated statement has no effect
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Fatal(err)
			}
			s.wantRest(id, writ.RunFailed)
		}
		s.mustResume(id, writ.RunFailed)
		_, calls := s.mustResume(id, writ.RunSucceeded)
		if got := states(calls); got != "1:succeeded/4" {
			t.Errorf("calls are %s", got)
		}
	})
}

// The summary from before a resume stays validly signed, so the supervisor signs which summary is the newest for each
// reader.
func TestRunStateIsSignedForEachReader(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		b := newBreaking(map[string]int{"v": 2})
		s.join("n1", b.join)
		id := s.submit(oneVolume)
		nonce := make([]byte, writ.ClientNonce)
		wantStanding := func(run *journal.Run, resumes int) {
			t.Helper()
			nonce[0]++
			answer, err := s.Ask(t.Context(), link.VerbStanding, link.Standing{Run: id, Nonce: nonce})
			if err != nil {
				t.Fatal(err)
			}
			want := link.RunStanding{
				Cluster: s.Pin, Datacenter: theDatacenter, Run: id, State: run.State, Resumes: resumes, Nonce: nonce, Time: s.Now().UnixMilli(),
			}
			if run.State.Ended() {
				want.Summary = writ.DigestOf(run.Summary)
			}
			got, _, err := envelope.Open[link.RunStanding](envelope.RunStanding, answer.(link.StandingAnswer).Proof, envelope.Only(s.key.Public().(ed25519.PublicKey)))
			if diff := cmp.Diff([]link.RunStanding{want}, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		}
		first, _ := s.wantRest(id, writ.RunFailed)
		wantStanding(first, 0)
		again, _ := s.mustResume(id, writ.RunFailed)
		wantStanding(again, 1)
		if bytes.Equal(first.Summary, again.Summary) {
			t.Error("both summaries are equal")
		}
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		open, _ := s.look(id)
		if open.State.Ended() {
			t.Fatalf("resumed run is %s", open.State)
		}
		wantStanding(open, 2)
		last, _ := s.wantRest(id, writ.RunSucceeded)
		wantStanding(last, 2)

		for what, params := range map[writ.Code]link.Standing{
			writ.CodeBadRequest: {Run: id, Nonce: []byte("short")},
			writ.CodeNotFound:   {Run: writ.RunIDOf(writ.Digest{}), Nonce: nonce},
		} {
			if answer, err := s.Ask(t.Context(), link.VerbStanding, params); writ.CodeOf(err) != what {
				t.Errorf("%+v: %+v, %v; want %s", params, answer, err, what)
			}
		}
	})
}

// A coordinator delays a cancel, and sends it after another person has resumed the run.
//
// Promise: Signatures and rosters: A delayed cancel does not end a run that was resumed after the cancel was signed.
// How: The run stores the signing time of its newest resume.
func TestResumeInvalidatesEarlierCancel(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		b := newBreaking(map[string]int{"v": 1})
		node := s.join("n1", b.join)
		id := s.submit(oneVolume)
		kept := s.sign(s.statement("run/"+string(id), "cancel"))
		s.wantRest(id, writ.RunFailed)
		time.Sleep(2 * time.Second)
		schedule := func(decision string) {
			t.Helper()
			if _, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(node.id), decision))); err != nil {
				t.Fatal(err)
			}
		}
		schedule("cordon") // or the run could succeed before the cancel arrives
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Decide(t.Context(), kept); writ.CodeOf(err) != writ.CodeConflict || !strings.Contains(err.Error(), "resumed") {
			t.Errorf("delayed cancel: %v, want CONFLICT", err)
		}
		schedule("uncordon")
		s.wantRest(id, writ.RunSucceeded)
	})
}

func TestResumedRunSurvivesSupervisorRestart(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", newBreaking(map[string]int{"v": 1}).join)
		id := s.submit(oneVolume)
		s.wantRest(id, writ.RunFailed)
		s.nodes[0].setSilent(true)
		time.Sleep(10 * time.Second)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.halt()
		s.start()
		s.nodes[0].setSilent(false)
		time.Sleep(time.Minute)
		if run, _ := s.look(id); run.State != writ.RunSucceeded {
			t.Errorf("run is %s after a minute", run.State)
		}
	})
}

func TestResumedCallHasAllAttemptsAgain(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		left := 4
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if left > 0 {
					left--
					return writ.Result{Error: writ.Errorf(writ.CodeInjected, "injected failure")}
				}
				return succeed(ctx, job)
			}
		})
		id := s.submit("volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1}, {retries: 2})\n")
		s.wantRest(id, writ.RunFailed)
		_, calls := s.mustResume(id, writ.RunSucceeded)
		if got := states(calls); got != "1:succeeded/5" {
			t.Errorf("calls are %s", got)
		}
	})
}

func TestRepeatedScriptFailureSendsNoCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		b := newBreaking(nil)
		s.join("n1", b.join)
		id := s.submit(`
volume := import("volume")
run := import("run")
a := volume.create("a", {size_gib: 1})
a.uid
volume.create("b", {size_gib: 1})
run.fail("enough")
`)
		s.wantRest(id, writ.RunFailed)
		run, calls := s.mustResume(id, writ.RunFailed)
		if got := states(calls); got != "1:succeeded/1 2:cancelled/1" || !strings.Contains(run.Failure.Message, "enough") {
			t.Errorf("calls are %s, failure = %+v", got, run.Failure)
		}
		if b.made["b"] != 0 {
			t.Error("the cancelled call was executed before the script was evaluated")
		}
	})
}

// Promise: Evaluation and resumes: A resume is refused if the run has not failed, its deployment has a newer
// revision, its signer lost the right, or its deadline has passed.
// How: The transaction that opens the run checks all of this against the newest roster.
func TestOnlyNewestFailedRunIsResumed(t *testing.T) {
	fails := func(t *testing.T, s *sim, change ...func(p *identity.Payload)) writ.RunID {
		s.join("n1", newBreaking(map[string]int{"v": 1}).join)
		p := s.payload(oneVolume)
		for _, c := range change {
			c(p)
		}
		run, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		s.wantRest(run.ID, writ.RunFailed)
		return run.ID
	}
	revision := func(base int) func(p *identity.Payload) {
		return func(p *identity.Payload) { p.Deployment = identity.Deployment{Name: "web", Base: base} }
	}
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, s *sim) writ.RunID
		want    writ.Code
	}{
		{"Succeeded", func(t *testing.T, s *sim) writ.RunID {
			s.join("n1")
			id := s.submit(oneVolume)
			s.wantState(id, writ.RunSucceeded)
			return id
		}, writ.CodeConflict},
		{"Waiting", func(t *testing.T, s *sim) writ.RunID { return s.submit(oneVolume) }, writ.CodeConflict},
		{"Cancelled", func(t *testing.T, s *sim) writ.RunID {
			id := s.submit(oneVolume)
			if _, err := s.cancel(id); err != nil {
				t.Fatal(err)
			}
			s.wantState(id, writ.RunCancelled)
			return id
		}, writ.CodeConflict},
		{"Unknown", func(t *testing.T, s *sim) writ.RunID { return writ.RunIDOf(writ.Digest{1}) }, writ.CodeNotFound},
		{"PastItsDeadline", func(t *testing.T, s *sim) writ.RunID {
			id := fails(t, s, func(p *identity.Payload) { p.Deadline = 2 * time.Minute })
			time.Sleep(3 * time.Minute)
			return id
		}, writ.CodeRunExpired},
		{"DeploymentMovedOn", func(t *testing.T, s *sim) writ.RunID {
			id := fails(t, s, revision(0))
			p := s.payload(oneVolume)
			revision(1)(p)
			if _, err := s.Submit(t.Context(), s.signPayload(p)); err != nil {
				t.Fatal(err)
			}
			return id
		}, writ.CodeConflict},
		{"NewestOfItsDeployment", func(t *testing.T, s *sim) writ.RunID { return fails(t, s, revision(0)) }, ""},
		{"SignerLostTheRight", func(t *testing.T, s *sim) writ.RunID {
			id := fails(t, s)
			s.revoke()
			if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
				t.Fatal(err)
			}
			return id
		}, writ.CodeRoleMissing},
		{"CauseWasSeen", func(t *testing.T, s *sim) writ.RunID {
			s.join("n1", newBreaking(map[string]int{"a": 1}).join)
			id := s.submit("volume := import(\"volume\")\na := volume.create(\"a\", {size_gib: 1})\nb := volume.clone(\"b\", {from: a})\na.err\n")
			s.wantRest(id, writ.RunFailed)
			return id
		}, writ.CodeConflict},
		{"CauseWasSeenAndItsResultRead", func(t *testing.T, s *sim) writ.RunID {
			s.join("n1", newBreaking(map[string]int{"a": 1}).join)
			id := s.submit("volume := import(\"volume\")\na := volume.create(\"a\", {size_gib: 1})\na.err\na.path\n")
			s.wantRest(id, writ.RunFailed)
			return id
		}, writ.CodeConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				id := tt.prepare(t, s)
				before, _ := s.look(id)
				err := s.resume(id)
				if writ.CodeOf(err) != tt.want {
					t.Fatalf("resume = %v, want %q", err, tt.want)
				}
				if tt.want == "" {
					s.wantRest(id, writ.RunSucceeded)
					return
				}
				if after, _ := s.look(id); before != nil && after.Resumes+len(after.Summary) != before.Resumes+len(before.Summary) {
					t.Errorf("the refused resume changed the run: %+v", after)
				}
			})
		})
	}
}

// Promise: Recovery: A success that arrives after its call was abandoned is reused by a resume.
// How: The journal keeps it with the call.
func TestLateSuccessIsReused(t *testing.T) {
	for name, at := range map[string]time.Duration{"BeforeTheResume": 3 * time.Minute, "AfterIt": 80 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n := s.join("n1", slowly(2*time.Minute))
				id := s.submit(oneVolume)
				s.awaitCall(id, 1, writ.CallRunning)
				began := time.Now()
				n.setSilent(true)
				run, _ := s.wantRest(id, writ.RunFailed)
				if run.Failure.Code != writ.CodeNodeLost {
					t.Fatalf("failure = %+v", run.Failure)
				}
				time.Sleep(at - time.Since(began))
				_, calls := s.mustResume(id, writ.RunSucceeded)
				if calls[0].Values["path"] == nil {
					t.Errorf("values of the call = %+v", calls[0].Values)
				}
				s.wantEffects(1)
				if volumes, err := s.resources(t); err != nil || len(volumes) != 1 || volumes[0].UID != calls[0].UID {
					t.Errorf("resources = %+v, %v; want one volume", volumes, err)
				}
			})
		})
	}
}

func (s *sim) resources(t *testing.T) (all []*journal.Resource, err error) {
	err = s.journal.Read(t.Context(), func(tx *journal.Tx) error {
		all, err = tx.Resources()
		return err
	})
	return all, err
}

func TestOldResultDoesNotAnswerResumedCall(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Attempt == 1 {
					time.Sleep(2 * time.Minute)
					return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "injected late failure")}
				}
				time.Sleep(2 * time.Minute)
				return succeed(ctx, job)
			}
		})
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		n.setSilent(true)
		s.wantRest(id, writ.RunFailed)
		n.setSilent(false)
		time.Sleep(5 * time.Second)
		_, calls := s.mustResume(id, writ.RunSucceeded)
		if got := states(calls); got != "1:succeeded/2" {
			t.Errorf("calls are %s", got)
		}
		job := n.jobs[len(n.jobs)-1]
		if job.Resumes != 1 {
			t.Errorf("job with %d resumes, want 1: a node that knows the end of the run refuses it", job.Resumes)
		}
	})
}

func TestResumingRunCanBeCancelled(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", newBreaking(map[string]int{"v": -1}).join)
		id := s.submit(oneVolume)
		s.wantRest(id, writ.RunFailed)
		s.nodes[0].setSilent(true)
		time.Sleep(10 * time.Second)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if run, _ := s.look(id); run.State != writ.RunRunning || run.Failure != nil || len(run.Summary) > 0 || !run.Ended.IsZero() {
			t.Errorf("resumed run = %+v", run)
		}
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		s.wantRest(id, writ.RunCancelled)
	})
}

// dyingEvaluator crashes in left passes after the second call.
type dyingEvaluator struct {
	inProcess
	left int
}

func (e *dyingEvaluator) Pass(ctx context.Context, b scripts.Bundle, in scripts.Inputs, past []scripts.Entry) (scripts.Outcome, error) {
	if len(past) > 1 && e.left > 0 {
		e.left--
		return scripts.Outcome{}, writ.Errorf(writ.CodeEvaluatorCrashed, "injected crash")
	}
	return e.inProcess.Pass(ctx, b, in, past)
}

func TestResumeRestoresEvaluationAttempts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		s.evaluator = &dyingEvaluator{left: 5}
		s.start()
		b := newBreaking(map[string]int{"a": 1})
		s.join("n1", b.join)
		id := s.submit(branching)
		run, _ := s.wantRest(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeEvaluatorCrashed {
			t.Fatalf("failure = %+v", run.Failure)
		}
		_, calls := s.mustResume(id, writ.RunSucceeded)
		if got := states(calls); got != "1:failed/1 2:succeeded/1 3:succeeded/1 4:succeeded/1" {
			t.Errorf("calls are %s", got)
		}
	})
}

// randomScript makes a random script. Its calls may be read or needed by others. It continues after errors of calls
// whose names begin with x.
func randomScript(r *rand.Rand) (script string, names []string) {
	var b strings.Builder
	b.WriteString("volume := import(\"volume\")\nrun := import(\"run\")\nout := {}\n")
	for i := range 3 + r.IntN(8) {
		name := fmt.Sprintf("v%d", i)
		from := ""
		if len(names) > 0 && r.IntN(2) == 0 {
			from = names[r.IntN(len(names))]
		}
		switch {
		case r.IntN(5) == 0:
			fmt.Fprintf(&b, "x%d := volume.create(\"x%d\", {size_gib: 1})\nif x%d.err { run.log(\"gave up x%d\") } else { volume.create(\"never%d\", {size_gib: 1}) }\n", i, i, i, i, i)
			continue
		case from != "":
			fmt.Fprintf(&b, "%s := volume.clone(%q, {from: %s})\n", name, name, from)
		default:
			fmt.Fprintf(&b, "%s := volume.create(%q, {size_gib: 1})\n", name, name)
		}
		names = append(names, name)
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "run.log(\"read\", %s.path)\n", names[r.IntN(len(names))])
		case 1:
			fmt.Fprintf(&b, "out.%s = %s.path\n", name, name)
		}
	}
	b.WriteString("run.output(out)\n")
	return b.String(), names
}

// story holds the result of a run, without fields that differ between equal runs.
type story struct {
	Calls  []string
	Logs   []string
	Output map[string]any
	Made   map[string]int
}

func (s *sim) story(id writ.RunID, b *breaking) story {
	run, calls := s.wantRest(id, writ.RunSucceeded)
	got := story{Output: run.Output, Made: b.made}
	for _, c := range calls {
		got.Calls = append(got.Calls, fmt.Sprintf("%s %s %s %v", c.Operation, c.Name, c.State, c.After))
	}
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		lines, err := tx.Logs(id, 0, 100)
		for _, l := range lines {
			got.Logs = append(got.Logs, l.Text)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	return got
}

// withFaults adds permanent failures for the calls whose errors the script handles.
func withFaults(faults map[string]int) map[string]int {
	for i := range 20 {
		faults[fmt.Sprintf("x%d", i)] = -1
	}
	return faults
}

// Promise: Evaluation and resumes: A resumed run ends as if the failure had not happened, and each effect happens
// once.
// How: A resume reopens the calls that the script has not read, each under a new key; the script is evaluated before
// any call is sent.
// Also: TestResumedRunSurvivesSupervisorRestart,
// TestResumeRepeatsOnlyFailedCalls.
func TestResumedRunEqualsRunWithoutFailure(t *testing.T) {
	seeds := uint64(11)
	if testenv.IsLong() {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			script, names := randomScript(r)
			var want story
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t)
				b := newBreaking(withFaults(map[string]int{}))
				s.join("n1", b.join)
				want = s.story(s.submit(script), b)
			})
			faults := make(map[string]int)
			for range 1 + r.IntN(4) {
				faults[names[r.IntN(len(names))]] = 1 + r.IntN(2)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t)
				s.halt()
				s.evaluator = &dyingEvaluator{left: r.IntN(6)}
				s.start()
				b := newBreaking(withFaults(faults))
				s.join("n1", b.join)
				id := s.submit(script)
				for range 30 {
					for run, _ := s.look(id); !run.State.Ended(); run, _ = s.look(id) {
						time.Sleep(time.Second)
					}
					if run, _ := s.look(id); run.State != writ.RunFailed {
						break
					}
					switch r.IntN(4) {
					case 0:
						s.halt()
						s.start()
					case 1:
						s.queue.Flush()
					}
					if err := s.resume(id); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(want, s.story(id, b)); diff != "" {
					t.Errorf("the resumed run differs (-want +got):\n%s\n%s", diff, script)
				}
				for name, times := range b.made {
					if times != 1 {
						t.Errorf("%s was created %d times, want 1", name, times)
					}
				}
			})
		})
	}
}
