package supervisor_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// inSim runs a test in virtual time, so waiting costs nothing and the speed of the machine does not matter.
func inSim(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	inBubble(t, func(t *testing.T) { test(t, newSim(t)) })
}

// inBubble runs a test in virtual time that creates its own sim.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

const webScript = `
volume := import("volume")
machine := import("machine")
run := import("run")
root := volume.create("web-0", {size_gib: 10})
vm := machine.create("web-0", {cpus: 2, memory_mib: 512, disks: [root]})
run.log("made", vm.name)
run.output({name: vm.name, disk: root.uid})
`

func TestSignedScriptRunsInHandleOrder(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		id := s.submit(webScript)
		run, calls := s.wantState(id, writ.RunSucceeded)
		s.wantEffects(2)

		if len(calls) != 2 || calls[0].Operation != "volume.create" || !slices.Equal(calls[1].After, []int{1}) {
			t.Fatalf("calls = %+v", calls)
		}
		if calls[1].Queued.Before(calls[0].Ended) {
			t.Error("the machine was sent before its disk was created")
		}
		want := map[string]any{"name": "web-0", "disk": string(calls[0].UID)}
		if diff := cmp.Diff(want, run.Output); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
		disks := s.nodes[0].jobs[1].Args["disks"]
		if diff := cmp.Diff([]any{map[string]any{"kind": "volume", "name": "web-0", "uid": string(calls[0].UID)}}, disks); diff != "" {
			t.Errorf("disks of the job (-want +got):\n%s", diff)
		}
	})
}

// A run uses the signed text of a module, even if the binary that evaluates it contains another module of that name.
//
// Promise: Submissions: A run uses exactly the modules that were signed with its script.
// How: Their bytes are part of the signed text; a published library module never changes.
// Also: TestPublishedVersionsNeverChange.
func TestRunUsesSignedModules(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const text = "fleet := import(\"lib/fleet@1\")\nown := import(\"site/own\")\nrun := import(\"run\")\nrun.output({fleet: fleet.words, own: own.words})\n"
		p := s.payload("run := import(\"run\")\n")
		p.Script.Text = []byte(text)
		p.Modules = []identity.File{
			{Name: "lib/fleet@1", Text: []byte("export {words: \"as signed\"}\n")},
			{Name: "site/own", Text: []byte("export {words: \"these too\"}\n")},
		}
		accepted, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		run, _ := s.wantState(accepted.ID, writ.RunSucceeded)
		if diff := cmp.Diff(map[string]any{"fleet": "as signed", "own": "these too"}, run.Output); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
	})
}

func TestSupervisorSignsRunSummary(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		id := s.submit(webScript)
		run, _ := s.wantState(id, writ.RunSucceeded)
		summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, func(envelope.KeyID) (ed25519.PublicKey, error) {
			return s.roster.Datacenter(theDatacenter).SupervisorKey, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := summaries[0]
		if got.Run != id || got.State != writ.RunSucceeded || got.Calls != 2 || got.Output["name"] != "web-0" || got.Results.IsZero() {
			t.Errorf("summary = %+v", got)
		}
	})
}

// Promise: Submissions: A repeated submission returns the same run at any later time.
// How: The payload's digest is unique in the journal; the run's id derives from it.
func TestRepeatedSubmissionIsSameRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		signed := s.signPayload(s.payload(webScript))
		first, err := s.Submit(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(first.ID, writ.RunSucceeded)
		for _, wait := range []time.Duration{0, 17 * time.Minute} { // also after the submission has expired
			time.Sleep(wait)
			again, err := s.Submit(t.Context(), signed)
			if err != nil {
				t.Fatal(err)
			}
			if again.ID != first.ID || again.State != writ.RunSucceeded {
				t.Errorf("repeated submission = %s %s", again.ID, again.State)
			}
		}
		s.wantEffects(2)
	})
}

// Promise: Submissions: A refused submission has no effect.
// How: The supervisor verifies before the first write and writes the rest in one transaction.
func TestRefusedSubmissionsHaveNoEffect(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for _, tt := range []struct {
			name   string
			change func(p *identity.Payload)
			want   writ.Code
		}{
			{"OtherDatacenter", func(p *identity.Payload) { p.Datacenter = "01920000-0000-7000-8000-00000000000f" }, writ.CodeWrongDatacenter},
			{"BadScript", func(p *identity.Payload) { p.Script.Text = []byte("nonsense(") }, writ.CodeScriptInvalid},
			{"NotAllowed", func(p *identity.Payload) { p.Allow = []string{"volume.create"} }, writ.CodeOperationNotAllowed},
			{"ParameterMissing", func(p *identity.Payload) {
				p.Script.Text = []byte("params := {n: {type: \"int\", default: 1}}\nrun := import(\"run\")\nrun.output({n: run.params.n})\n")
				p.Params = nil
			}, writ.CodeArgumentsInvalid},
			{"OldRevision", func(p *identity.Payload) { p.Deployment = identity.Deployment{Name: "web", Base: 3} }, writ.CodeConflict},
		} {
			p := s.payload(webScript)
			tt.change(p)
			if _, err := s.Submit(t.Context(), s.signPayload(p)); writ.CodeOf(err) != tt.want {
				t.Errorf("%s: Submit = %v (%s), want %s", tt.name, err, writ.CodeOf(err), tt.want)
			}
		}
		if err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			open, err := tx.PendingRuns()
			if len(open) > 0 {
				t.Errorf("%d runs recorded, want none", len(open))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// slowly makes every job take d.
func slowly(d time.Duration) func(n *testNode) {
	return func(n *testNode) {
		n.act = func(ctx context.Context, job writ.Job) writ.Result {
			select {
			case <-time.After(d):
				return succeed(ctx, job)
			case <-ctx.Done():
				return writ.Result{Error: writ.Errorf(writ.CodeRunCancelled, "stopped")}
			}
		}
	}
}

// Promise: Failures: Losing all Redis data delays a run by at most 10 s and changes no result.
// How: The journal lists the delivered jobs; a mark in Redis reveals the loss.
func TestQueueLossOnlyDelaysRuns(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Second))
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallQueued)
		const promised = 10*time.Second + 2*time.Second // until the redelivery, and the duration of the job
		flushed := time.Now()
		s.queue.Flush() // before or while the node has the job
		s.awaitCall(id, 2, writ.CallQueued)
		first := time.Since(flushed)
		flushed = time.Now()
		s.queue.Flush()
		s.wantState(id, writ.RunSucceeded)
		if second := time.Since(flushed); max(first, second) > promised {
			t.Errorf("the first lost job ended after %s, the second after %s, want at most %s", first, second, promised)
		}
		s.wantEffects(2)
	})
}

// Promise: Failures: A restarted supervisor continues its runs under a higher epoch.
// How: Open runs wake up from the journal.
func TestReturningSupervisorContinuesWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		if took := restartDuringRun(t, s); took > continueLimit+3*time.Second {
			t.Errorf("the run ended %s after the return of its supervisor, with a last call of 3 s", took)
		}
	})
}

// continueLimit is the promised time limit for continuing work after the return of a runner or supervisor.
const continueLimit = 5 * time.Second

// restartDuringRun restarts the supervisor in the middle of a run. It returns the time from the restart to the end of
// the run.
func restartDuringRun(t *testing.T, s *sim) time.Duration {
	s.join("n1", slowly(3*time.Second))
	id := s.submit(webScript)
	s.awaitCall(id, 1, writ.CallQueued)
	epoch := s.Epoch()
	s.halt()
	time.Sleep(10 * time.Second) // the node finishes its job meanwhile
	s.start()
	began := time.Now()
	if s.Epoch() <= epoch {
		t.Errorf("epoch = %d, want more than %d", s.Epoch(), epoch)
	}
	s.wantState(id, writ.RunSucceeded)
	s.wantEffects(2)
	return time.Since(began)
}

func TestOnlyRetryableFailuresAreRetried(t *testing.T) {
	const script = `
volume := import("volume")
volume.create("v", {size_gib: 1}, {retries: 2})
`
	for _, tt := range []struct {
		code writ.Code
		want int // number of attempts
	}{{writ.CodeDriverFailed, 3}, {writ.CodeQuotaExceeded, 1}} {
		t.Run(string(tt.code), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", func(n *testNode) { n.act = failing("v", tt.code) })
				id := s.submit(script)
				run, calls := s.wantState(id, writ.RunFailed)
				if calls[0].Attempt != tt.want || run.Failure.Code != tt.code || run.Failure.Seq != 1 {
					t.Errorf("%d attempts, failure = %+v", calls[0].Attempt, run.Failure)
				}
				s.wantEffects(tt.want)
			})
		})
	}
}

func TestDependentOfFailedCallIsNotSent(t *testing.T) {
	const script = `
volume := import("volume")
machine := import("machine")
run := import("run")
disk := volume.create("v", {size_gib: 1})
m := machine.create("m", {cpus: 1, memory_mib: 512, disks: [disk]})
machine.stop(m)
volume.create("w", {size_gib: 1})
`
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) { n.act = failing("v", writ.CodeQuotaExceeded) })
		id := s.submit(script)
		run, calls := s.wantState(id, writ.RunFailed)
		for _, c := range calls[1:3] { // machine.stop depends on machine.create, and both name the call that failed first
			want := "call 1 (volume.create v) did not succeed: QUOTA_EXCEEDED: " + calls[0].Error.Message
			if c.State != writ.CallFailed || c.Error.Code != writ.CodeDependencyFailed || c.Error.Message != want {
				t.Errorf("%s: %s %+v", c.Operation, c.State, c.Error)
			}
		}
		if calls[3].State != writ.CallSucceeded {
			t.Errorf("independent call is %s, want succeeded", calls[3].State)
		}
		if run.Failure.Seq != 1 {
			t.Errorf("failure names call %d, want 1", run.Failure.Seq)
		}
		s.wantEffects(2)
	})
}

func TestHandledErrorDoesNotFailRun(t *testing.T) {
	const script = `
volume := import("volume")
run := import("run")
disk := volume.create("v", {size_gib: 1})
e := disk.err
if e { run.output({code: e.code}) }
`
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) { n.act = failing("v", writ.CodeQuotaExceeded) })
		run, _ := s.wantState(s.submit(script), writ.RunSucceeded)
		if run.Output["code"] != "QUOTA_EXCEEDED" {
			t.Errorf("output = %v", run.Output)
		}
	})
}

func TestScriptErrorCancelsUnsentCalls(t *testing.T) {
	const script = `
volume := import("volume")
run := import("run")
a := volume.create("a", {size_gib: 1})
b := volume.create("b", {size_gib: 1}, {node: "n1"})
c := volume.clone("c", {from: b})
a.uid
run.fail("enough")
`
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name == "b" {
					time.Sleep(5 * time.Second)
				}
				return succeed(ctx, job)
			}
		})
		run, calls := s.wantState(s.submit(script), writ.RunFailed)
		states := fmt.Sprintf("%s %s %s", calls[0].State, calls[1].State, calls[2].State)
		if states != "succeeded succeeded cancelled" {
			t.Errorf("calls = %s", states)
		}
		if !strings.Contains(run.Failure.Message, "enough") || run.Failure.Position == "" {
			t.Errorf("failure = %+v", run.Failure)
		}
		s.wantEffects(2)
	})
}

func TestCancelledRunStopsItsJobs(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				<-n.stopped
				return writ.Result{Error: writ.Errorf(writ.CodeRunCancelled, "stopped")}
			}
		})
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallRunning)
		signed := s.sign(s.statement("run/"+string(id), "cancel"))
		answer, err := s.Decide(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		run, calls := s.wantState(id, writ.RunCancelled)
		if run.Failure.Code != writ.CodeRunCancelled || calls[0].State != writ.CallCancelled {
			t.Errorf("failure = %+v, call is %s", run.Failure, calls[0].State)
		}
		again, err := s.Decide(t.Context(), signed)
		if err != nil || !reflect.DeepEqual(again, answer) {
			t.Errorf("repeated statement: %+v, %v", again, err)
		}
		if len(n.jobs) != 1 {
			t.Errorf("sent %d jobs, want 1", len(n.jobs))
		}
	})
}

// Promise: Limits and shares: A cancelled run ends within 35 s, also if its node is silent.
// How: The supervisor withdraws the job, sends the cancel to the node, then abandons the job.
func TestCancelledRunEndsWithoutItsNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(20*time.Minute))
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallRunning)
		began := time.Now()
		if _, err := s.Decide(t.Context(), s.sign(s.statement("run/"+string(id), "cancel"))); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunCancelled)
		if took := time.Since(began); took > 35*time.Second {
			t.Errorf("the run ended after %s, want at most 35 s", took)
		}
	})
}

func TestClockSetBackDelaysNoCancel(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.clock.set(24 * time.Hour) // leaves room to set the clock back
		s.join("n1", slowly(20*time.Hour))
		id := s.submit("volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1}, {timeout: \"20h\"})\n")
		s.awaitCall(id, 1, writ.CallRunning)
		if _, err := s.Decide(t.Context(), s.sign(s.statement("run/"+string(id), "cancel"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.clock.set(18 * time.Hour)
		began := time.Now()
		s.wantState(id, writ.RunCancelled)
		if took := time.Since(began); took > 35*time.Second {
			t.Errorf("the run ended after %s, want at most 35 s", took)
		}
	})
}

// Promise: Limits and shares: A run ends at its deadline at the latest.
// How: Every run and every job has a deadline.
func TestRunEndsAtItsDeadline(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) { // without nodes
		p := s.payload(webScript)
		p.Deadline = 2 * time.Minute
		run, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ended, calls := s.wantState(run.ID, writ.RunExpired)
		if took := time.Since(began); took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("the run ended after %s, want 2 to 3 min", took)
		}
		if ended.Failure.Code != writ.CodeRunExpired || calls[0].State != writ.CallExpired {
			t.Errorf("failure = %+v, call is %s", ended.Failure, calls[0].State)
		}
		if f := ended.Failure; !testenv.Mentions(f.Message, "call 1 volume.create web-0 waited at the end", "no nodes") ||
			!testenv.Mentions(f.Hint, "cause of the wait") {
			t.Errorf("the failure does not name the wait: %+v", f)
		}
	})
}

func TestWorkWithoutNodeWaitsWithReason(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		id := s.submit(webScript)
		time.Sleep(10 * time.Second)
		if _, calls := s.look(id); len(calls) != 2 || !testenv.Mentions(calls[0].Why.String(), "no nodes") {
			t.Errorf("calls = %+v", calls)
		}
		s.join("n1")
		s.wantState(id, writ.RunSucceeded)
	})
}

func TestLostNodeEndsItsSentCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(time.Hour))
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallRunning)
		n.setSilent(true)
		began := time.Now()
		run, _ := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost {
			t.Errorf("failure = %+v", run.Failure)
		}
		if took := time.Since(began); took < 55*time.Second || took > 70*time.Second {
			t.Errorf("the run failed after %s, want 55 s to 70 s", took)
		}
	})
}

// Promise: Limits and shares: A silent node gets no work, and a lost node fails its possibly started calls after a
// minute or after the times in the roster.
// How: Beats are checked every second; a standby counts the same way.
// Also: TestNodeGetsWorkUntilItIsSilent, TestLostNodeEndsItsSentCalls,
// TestLostNodesCallsEndAfterLossTimeout, TestSilentNodeIsLostOnce,
// TestTimesOfSilentNodesHaveBounds, TestNodeSilencesHaveFormatThree.
func TestSilentNodeGetsNoNewWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(2 * time.Second)
		n.setSilent(true)
		time.Sleep(8 * time.Second)
		id := s.submit(webScript)
		time.Sleep(10 * time.Second)
		if len(n.jobs) != 0 {
			t.Error("a silent node received work")
		}
		if _, calls := s.look(id); !strings.Contains(calls[0].Why.String(), "silent") {
			t.Errorf("reason = %q", calls[0].Why.String())
		}
		n.setSilent(false)
		s.wantState(id, writ.RunSucceeded)
	})
}

// Promise: Nodes and Redis: A forged result has no effect.
// How: The node must sign it, and it must name a delivery that was sent to that node.
func TestForgedResultsAreIgnored(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(20*time.Second))
		other := s.join("n2")
		other.setSilent(true)
		id := s.submit(`volume := import("volume")` + "\n" + `volume.create("v", {size_gib: 1}, {node: "n1"})` + "\n")
		s.awaitCall(id, 1, writ.CallRunning)
		n.mu.Lock()
		job := n.jobs[0]
		n.mu.Unlock()
		lie := writ.Result{JobKey: job.JobKey, Job: writ.DigestOf([]byte("another job")), Node: n.id, Change: writ.ChangeCreated}
		n.send(envelope.Result, lie)     // right node, unknown job
		other.send(envelope.Result, lie) // wrong node
		stranger := &testNode{sim: s, id: n.id, key: newKey(t)}
		stranger.send(envelope.Result, lie) // unknown key
		time.Sleep(5 * time.Second)
		if _, calls := s.look(id); calls[0].State != writ.CallRunning {
			t.Errorf("call after a forged result is %s, want running", calls[0].State)
		}
		s.wantState(id, writ.RunSucceeded)
	})
}

func TestDeliveriesPerSlotAreLimited(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 2 })
		time.Sleep(2 * time.Second)
		id := s.submit(`
node := import("node")
for i := 0; i < 20; i++ { node.ping() }
`)
		s.awaitCall(id, 1, writ.CallRunning)
		out := 0
		_, calls := s.look(id)
		for _, c := range calls {
			if c.State.Sent() {
				out++
			}
		}
		if out != 4 {
			t.Errorf("%d calls delivered to a node with %d slots, want 4", out, n.slots)
		}
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(20)
	})
}

func TestConnectedResourcesShareOneNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.join("n2")
		time.Sleep(2 * time.Second)
		id := s.submit(`
volume := import("volume")
machine := import("machine")
for i := 0; i < 6; i++ {
	root := volume.create("d" + i, {size_gib: 1})
	machine.create("m" + i, {cpus: 1, memory_mib: 512, disks: [root]})
}
`)
		_, calls := s.wantState(id, writ.RunSucceeded)
		perNode := map[string]int{}
		for i := 0; i < len(calls); i += 2 {
			if calls[i].Node != calls[i+1].Node {
				t.Errorf("machine %s is on %s, its disk on %s", calls[i+1].Name, calls[i+1].NodeName, calls[i].NodeName)
			}
			perNode[calls[i].NodeName]++
		}
		if diff := cmp.Diff(map[string]int{"n1": 3, "n2": 3}, perNode); diff != "" {
			t.Errorf("machines per node (-want +got):\n%s", diff)
		}
	})
}

// A network exists on one node. On another node the database could not use its handle.
func TestDatabaseIsCreatedOnNodeOfNetwork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.join("n2")
		time.Sleep(2 * time.Second)
		id := s.submit(`
network := import("network")
herodb := import("herodb")
lans := []
for i := 0; i < 4; i++ {
	lans = append(lans, network.create("lan" + i, {}))
}
for i, lan in lans {
	lan.bridge // it is there, and the database is placed later
	herodb.create("a" + i, {memory_mib: 32, network: lan})
	herodb.create("b" + i, {memory_mib: 32, network: network.create("own" + i, {})})
}
`)
		_, calls := s.wantState(id, writ.RunSucceeded)
		on := map[string]string{}
		for _, c := range calls {
			on[c.Name] = c.NodeName
		}
		for i := range 4 {
			for db, lan := range map[string]string{"a": "lan", "b": "own"} {
				if db, lan := fmt.Sprint(db, i), fmt.Sprint(lan, i); on[db] != on[lan] {
					t.Errorf("database %s is on %s, its network on %s", db, on[db], on[lan])
				}
			}
		}
	})
}

func TestDatabaseIsCreatedOnNodeWithEngine(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for name, engine := range map[string]writ.Engine{"n1": {Name: "redis-server", Version: "7.0.15"}, "n2": {Name: "valkey-server", Version: "8.1.1"}} {
			s.join(name, func(n *testNode) {
				n.engines = []writ.Engine{engine, {Name: "hero_redis", Refused: strings.Repeat("it shows its secret; ", 1000)}}
			})
		}
		time.Sleep(2 * time.Second)
		id := s.submit(`
herodb := import("herodb")
for i := 0; i < 3; i++ {
	herodb.create("a" + i, {memory_mib: 32, engines: ["valkey-server"]})
	herodb.create("b" + i, {memory_mib: 32, engines: ["hero_redis", "redis-server"]})
	herodb.create("c" + i, {memory_mib: 32, version: "8"})
}
`)
		_, calls := s.wantState(id, writ.RunSucceeded)
		for _, c := range calls {
			if want := map[byte]string{'a': "n2", 'b': "n1", 'c': "n2"}[c.Name[0]]; c.NodeName != want {
				t.Errorf("database %s is on %s, want %s", c.Name, c.NodeName, want)
			}
		}
		id = s.submit(`import("herodb").create("d", {memory_mib: 32, engines: ["hero_redis"]})`)
		run, _ := s.wantState(id, writ.RunFailed)
		if f := run.Failure; f.Code != writ.CodeNoCapacity || !testenv.Mentions(f.Message, "herodb", "engine") || len(f.Message) > 10_000 {
			t.Errorf("failure = %+v", f)
		}
	})
}

func TestUnplaceableCallNamesNodeReasons(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) { n.capacity.CPUs = 1 })
		s.join("n2")
		time.Sleep(2 * time.Second)
		id := s.submit(`
machine := import("machine")
machine.create("big", {cpus: 8, memory_mib: 512}, {labels: {disk: "ssd"}})
`)
		run, _ := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeNoCapacity || !testenv.Mentions(run.Failure.Message, "n1", "n2", "disk=ssd") {
			t.Errorf("failure = %+v", run.Failure)
		}
	})
}

func TestResourcesBelongToTheirDeployment(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.join("n2")
		in := func(deployment string, base int, script string) writ.RunID {
			t.Helper()
			p := s.payload(script)
			p.Deployment = identity.Deployment{Name: deployment, Base: base}
			run, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			return run.ID
		}
		_, made := s.wantState(in("web", 0, `volume := import("volume")`+"\n"+`volume.create("data", {size_gib: 1})`+"\n"), writ.RunSucceeded)
		const use = `
volume := import("volume")
machine := import("machine")
d := volume.get("data")
machine.create("m", {cpus: 1, memory_mib: 512, disks: [d]})
`
		_, used := s.wantState(in("other", 0, use), writ.RunSucceeded)
		if used[0].UID != made[0].UID || used[1].Node != made[0].Node {
			t.Errorf("get found %s on %s, want %s on %s", used[0].UID, used[1].Node, made[0].UID, made[0].Node)
		}
		const remove = `
volume := import("volume")
machine := import("machine")
machine.delete("m")
volume.delete("data", {}%s)
`
		run, _ := s.wantState(in("other", 1, fmt.Sprintf(remove, "")), writ.RunFailed)
		if run.Failure.Code != writ.CodeNotOwner || !testenv.Mentions(run.Failure.Hint, "--deployment web", "adopt: true", "volume") {
			t.Errorf("failure = %+v", run.Failure)
		}
		s.wantState(in("other", 2, fmt.Sprintf(remove, ", {adopt: true}")), writ.RunSucceeded)
		run, _ = s.wantState(in("web", 1, use), writ.RunFailed)
		if run.Failure.Code != writ.CodeResourceUnknown {
			t.Errorf("failure after the delete = %+v", run.Failure)
		}
	})
}

func TestRunsOfOneDeploymentAreSequential(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(5*time.Second))
		var ids []writ.RunID
		for base := range 2 {
			p := s.payload(`volume := import("volume")` + "\n" + `volume.create("data", {size_gib: 1})` + "\n")
			p.Deployment = identity.Deployment{Name: "web", Base: base}
			run, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
		}
		s.awaitCall(ids[0], 1, writ.CallRunning)
		if blocked, _ := s.look(ids[1]); !testenv.Mentions(blocked.Why.String(), string(ids[0])) {
			t.Errorf("reason of the second run = %q", blocked.Why.String())
		}
		first, _ := s.wantState(ids[0], writ.RunSucceeded)
		second, _ := s.wantState(ids[1], writ.RunSucceeded)
		if second.Why.String() != "" {
			t.Errorf("reason of an ended run = %q, want none", second.Why.String())
		}
		if second.Started.Before(first.Ended) {
			t.Error("the runs overlap")
		}
	})
}

func TestConcurrentRunsCreateResourceOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(3*time.Second))
		s.join("n2", slowly(3*time.Second))
		const script = `
volume := import("volume")
v := volume.create("shared", {size_gib: 1})
v.name
`
		a, b := s.submit(script), s.submit(script)
		_, callsA := s.wantState(a, writ.RunSucceeded)
		_, callsB := s.wantState(b, writ.RunSucceeded)
		if callsA[0].UID != callsB[0].UID || callsA[0].Node != callsB[0].Node {
			t.Errorf("two resources: %s on %s, %s on %s; want one", callsA[0].UID, callsA[0].NodeName, callsB[0].UID, callsB[0].NodeName)
		}
	})
}

// Promise: Admission of nodes: A join token admits one machine, or the number that its maker signed, and the stored
// form admits no machine.
// How: The admitting transaction spends the token; stores keep a public key.
// Also: TestTokenAdmitsSignedNumberOfNodes, TestATokenAdmitsAsManyAsItSays, TestStoredTokenKeyCannotMakeProofs.
func TestJoinTokenAdmitsOneNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token := s.token()
		node := func(name string) *testNode { return &testNode{sim: s, name: name, key: newKey(t)} }
		first := node("n1")
		welcome, err := first.claim(token)
		if err != nil || welcome.Admission != writ.AdmissionApproved {
			t.Fatalf("join = %+v, %v", welcome, err)
		}
		if again, err := first.claim(token); err != nil || again.Node != welcome.Node || again.Admission != welcome.Admission {
			t.Errorf("claim with the same key = %+v, %v", again, err)
		}
		if _, err := node("n2").claim(token); writ.CodeOf(err) != writ.CodeTokenSpent {
			t.Errorf("claim with another key: %v, want TOKEN_SPENT", err)
		}
		wrong := s.token()
		wrong.Secret[0] ^= 1
		if _, err := node("n3").claim(wrong); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with a wrong secret: %v, want TOKEN_INVALID", err)
		}
		if _, err := node("n4").claim(identity.NewToken(s.Pin)); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with an unknown token: %v, want TOKEN_INVALID", err)
		}
		late := s.token()
		time.Sleep(6 * time.Minute)
		if _, err := node("n5").claim(late); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with an expired token: %v, want TOKEN_INVALID", err)
		}
	})
}

// joinAtOnce makes twenty machines join concurrently with one token, and returns the names of the admitted ones. The
// others must get TOKEN_SPENT.
func (s *sim) joinAtOnce(token identity.Token, prefix string) (names []string) {
	s.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 20 {
		n := &testNode{sim: s, name: fmt.Sprintf("%s%02d", prefix, i), key: newKey(s.t)}
		all.Go(func() {
			switch _, err := n.claim(token); writ.CodeOf(err) {
			case "":
				mu.Lock()
				defer mu.Unlock()
				names = append(names, n.name)
			case writ.CodeTokenSpent:
			default:
				s.t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(names)
	return names
}

func TestTokenAdmitsSignedNumberOfNodes(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		if names := s.joinAtOnce(s.token(), "one-"); len(names) != 1 {
			t.Errorf("a token for one node admitted %v", names)
		}
	})
	inSim(t, func(t *testing.T, s *sim) {
		token := s.tokenFor(3)
		names := s.joinAtOnce(token, "n")
		s.halt()
		s.start()
		if _, err := (&testNode{sim: s, name: "late", key: newKey(t)}).claim(token); writ.CodeOf(err) != writ.CodeTokenSpent {
			t.Errorf("claim with a spent token after a restart: %v", err)
		}
		answer, err := s.Ask(t.Context(), link.VerbTokens, link.Tokens{})
		list, _ := answer.([]writ.JoinToken)
		if err != nil || len(list) != 1 || len(names) != 3 {
			t.Fatalf("admitted %d nodes; list = %+v, %v", len(names), list, err)
		}
		got := list[0]
		if got.ID != token.ID || got.Uses != 3 || got.Used != 3 || got.CreatedBy != "alice" || !slices.Equal(got.Nodes, names) {
			t.Errorf("admitted %v; listed token = %+v", names, got)
		}

		over := s.tokenFor(3)
		if _, err := (&testNode{sim: s, name: "early", key: newKey(t)}).claim(over); err != nil {
			t.Fatal(err)
		}
		revoke := func(id string) error {
			_, err := s.Decide(t.Context(), s.sign(s.statement("token/"+id, identity.DecisionRevoke)))
			return err
		}
		for range 2 { // the second has no effect
			if err := revoke(over.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := revoke("aaaaaaaaaaaaa"); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("revoke of an unknown token: %v, want NOT_FOUND", err)
		}
		if _, err := (&testNode{sim: s, name: "later", key: newKey(t)}).claim(over); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with a revoked token: %v, want TOKEN_INVALID", err)
		}
		s.clock.set(-10 * time.Minute) // before the revocation
		if _, err := (&testNode{sim: s, name: "later", key: newKey(t)}).claim(over); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("claim with a revoked token and an earlier clock: %v, want TOKEN_INVALID", err)
		}
	})
}

func TestNodeWithoutTokenAwaitsStatement(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := &testNode{sim: s, name: "n1", key: newKey(t)}
		welcome, err := n.claim(identity.Token{})
		if err != nil || welcome.Admission != writ.AdmissionPending {
			t.Fatalf("join = %+v, %v", welcome, err)
		}
		if _, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(welcome.Node), "approve"))); err != nil {
			t.Fatal(err)
		}
		if again, err := n.claim(identity.Token{}); err != nil || again.Admission != writ.AdmissionApproved || again.Node != welcome.Node {
			t.Errorf("claim after the statement = %+v, %v", again, err)
		}
	})
}

func TestSupervisorRecoversFromExpiredRoster(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		time.Sleep(identity.RosterValidity + 24*time.Hour)
		s.start()
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload(webScript))); writ.CodeOf(err) != writ.CodeRosterTooOld {
			t.Errorf("submission under an expired roster: %v, want ROSTER_TOO_OLD", err)
		}
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.adopt(next)
		if version, err := s.AdoptRosters(t.Context(), s.rosters); err != nil || version != 2 {
			t.Fatalf("AdoptRosters = %d, %v", version, err)
		}
		s.join("n1")
		s.wantState(s.submit(webScript), writ.RunSucceeded)
	})
}

func TestNodeDecisionIsSentAtOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(2500 * time.Millisecond) // between two scans of the watch, which reports nodes as well
		if _, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(n.id), "cordon"))); err != nil {
			t.Fatal(err)
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1].Node
		if last == nil || last.Scheduling != writ.SchedulingCordoned || last.Liveness != writ.LivenessReady || last.Slots != n.slots {
			t.Errorf("node in the last event = %+v", last)
		}
	})
}

func TestRejectedNodeIsNotified(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := &testNode{sim: s, name: "n1", key: newKey(t)}
		welcome, err := n.claim(identity.Token{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(welcome.Node), "reject"))); err != nil {
			t.Fatal(err)
		}
		if again, err := n.claim(identity.Token{}); err != nil || again.Admission != writ.AdmissionRejected { // signed in its welcome
			t.Errorf("claim after the statement: %+v, %v", again, err)
		}
	})
}

// Promise: Submissions: Revoking a signer cancels the open runs of that signer.
// How: The transaction that adopts the roster lists the open runs; the supervisor checks them at once and again after
// a restart.
// Also: TestRevocationOutlivesItsLink,
// TestUnreadableRunBlocksNoOtherCheck, TestRosterAdoptedBeforeCrashCancels.
func TestRevokedSignerLosesOpenRuns(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Minute))
		ci := sshsig.NewSigner(newKey(t))
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Principals = append(next.Principals, identity.Principal{Name: "ci", Kind: identity.CI, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: ci.PublicKey(), State: identity.Active}}})
		next.Bindings = append(next.Bindings, identity.Binding{Principal: "ci", Role: identity.Deployer, Project: theProject})
		s.adopt(next)
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		p := s.payload(webScript)
		p.Signer = "ci"
		person := s.person
		s.person = ci
		signed := s.signPayload(p)
		s.person = person
		run, err := s.Submit(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		mine := s.submit(webScript)
		s.awaitCall(run.ID, 1, writ.CallRunning)

		next, err = s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Principal("ci").State = identity.Revoked
		s.adopt(next)
		if version, err := s.AdoptRosters(t.Context(), s.rosters); err != nil || version != 3 {
			t.Fatalf("AdoptRosters = %d, %v", version, err)
		}
		ended, _ := s.wantState(run.ID, writ.RunCancelled)
		if ended.Failure.Code != writ.CodeSignerRevoked {
			t.Errorf("failure = %+v", ended.Failure)
		}
		s.wantState(mine, writ.RunSucceeded)
	})
}

func TestResultsAreAcknowledged(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.wantState(s.submit(webScript), writ.RunSucceeded)
		time.Sleep(2 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		for key := range n.done {
			if !n.acked[key] {
				t.Errorf("result %s was not acknowledged", key)
			}
		}
	})
}
