package supervisor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// Subjects of statements about holds.
const (
	allWork    = "datacenter/" + string(theDatacenter)
	shopsWork  = "project/" + string(theProject)
	websWork   = "deployment/web"
	volumeWork = "operation/volume.create"
)

// seeHolds fills in the state of a scope that its signer has seen.
func (s *sim) seeHolds(tx *journal.Tx, statement *identity.Statement) error {
	if kind := statement.Kind(); kind == "project" || kind == "deployment" {
		statement.Seen = identity.Seen{Project: theProject, ProjectName: "shop"}
	}
	all, _, err := tx.Holds()
	statement.Seen.Revision = all.Seen(identity.ScopeOf(statement))
	return err
}

// signed returns a statement about a scope, to be submitted later.
func (s *sim) signed(subject, decision string) []byte {
	s.t.Helper()
	return s.sign(s.statement(subject, decision))
}

// wantHeld fails the test unless a run waits for a hold that names words, and no node has a job of it.
func (s *sim) wantHeld(id writ.RunID, words ...string) {
	s.t.Helper()
	time.Sleep(5 * time.Second)
	run, calls := s.look(id)
	reasons := run.Why.String()
	for _, c := range calls {
		reasons += "; " + c.Why.String()
		if c.Delivery > 0 {
			s.t.Errorf("call %d was sent: %s on %s", c.Seq, c.State, c.NodeName)
		}
		if c.Node != "" || c.Claimed {
			s.t.Errorf("call %d has capacity on %q, claim: %v", c.Seq, c.NodeName, c.Claimed)
		}
	}
	if run.State.Ended() || !testenv.Mentions(reasons, words...) {
		s.t.Errorf("run is %s (%s), want it waiting with %q", run.State, reasons, words)
	}
	s.wantAwake()
}

// As soon as a hold is answered, no job of the held work is sent. The datacenter still accepts submissions. A release
// resumes all held runs.
//
// Promise: Recovery: Held work does not start: from the answer to a hold on, no job of the held work is sent, while
// running work, results and submissions continue.
// How: One function creates jobs and checks holds first; waiting calls keep no claim and reserve no capacity; a
// release wakes all runs.
// Also: TestHoldStopsOnlyItsScope, TestHoldStopsFurtherAttempts, TestHeldDeploymentKeepsItsResources,
// TestCallsWaitForRelatedHeldCalls, TestSimulation.
func TestHoldPreventsEveryStart(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(20*time.Second))
		time.Sleep(2 * time.Second)
		begun := s.submit(webScript)
		s.awaitCall(begun, 1, writ.CallRunning)
		s.decideFor(allWork, identity.DecisionHold, "the disks fail")
		accepted := s.submit(oneVolume)
		s.wantHeld(accepted, "writ release --dc ams1", "alice")
		time.Sleep(time.Minute)
		run, calls := s.look(begun)
		if calls[0].State != writ.CallSucceeded || calls[1].State != writ.CallPlanned || !testenv.Mentions(calls[1].Why.String(), "the disks fail") {
			t.Errorf("started run: call 1 is %s, call 2 is %s (%s)", calls[0].State, calls[1].State, calls[1].Why.String())
		}
		if calls[1].Claimed || calls[1].Node != "" || calls[1].Need != (writ.Capacity{}) {
			t.Errorf("call 2 still reserves %+v on %s", calls[1].Need, calls[1].NodeName)
		}
		if run.State != writ.RunRunning || len(n.given()) != 1 {
			t.Errorf("run is %s, node received %d jobs", run.State, len(n.given()))
		}
		if run, _ := s.look(accepted); run.State != writ.RunAccepted || !run.Started.IsZero() {
			t.Errorf("the other run is %s, want accepted", run.State)
		}
		s.decideFor(allWork, identity.DecisionRelease, "")
		s.wantState(begun, writ.RunSucceeded)
		s.wantState(accepted, writ.RunSucceeded)
		s.wantEffects(3)
	})
}

// The next supervisor keeps the holds of the previous one. A sent job that was lost is not started either, and its call
// does not time out.
//
// Promise: Recovery: A hold survives its supervisor, and a held run expires at its deadline.
// How: The journal stores all decisions in one authenticated row.
// Also: TestHeldRunCanEnd, TestHoldsAreKept.
func TestHoldOutlivesItsSupervisor(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(30*time.Second), func(n *testNode) { n.slots = 1 })
		time.Sleep(2 * time.Second)
		busy := s.submit(oneVolume)
		s.awaitCall(busy, 1, writ.CallRunning)
		lost := s.submit(strings.Replace(oneVolume, `"v"`, `"w"`, 1))
		s.awaitCall(lost, 1, writ.CallQueued)
		s.decideFor(shopsWork, identity.DecisionHold, "")
		s.halt()
		s.queue.Flush()
		s.start()
		s.wantState(busy, writ.RunSucceeded)
		time.Sleep(50 * time.Minute)
		run, calls := s.look(lost)
		if c := calls[0]; c.State != writ.CallQueued || !c.KeptBack || !testenv.Mentions(c.Why.String(), "writ release --dc ams1 --project shop") || run.State != writ.RunRunning {
			t.Errorf("call is %s (%s), run is %s", c.State, c.Why.String(), run.State)
		}
		if got := len(n.given()); got != 1 {
			t.Errorf("the node received %d jobs, want 1", got)
		}
		s.wantAwake()
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(lost, writ.RunSucceeded)
		s.wantEffects(2)
	})
}

// A held run can be cancelled, and a hold does not extend the deadline of its run.
func TestHeldRunCanEnd(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		s.decideFor(allWork, identity.DecisionHold, "")
		cancelled, expires := s.submit(oneVolume), s.submit(webScript)
		s.wantHeld(cancelled, "writ release --dc ams1")
		s.decideFor("run/"+string(cancelled), "cancel", "")
		s.wantState(cancelled, writ.RunCancelled)
		run, _ := s.wantState(expires, writ.RunExpired)
		if !testenv.Mentions(run.Failure.Hint, "alice", "datacenter") {
			t.Errorf("failure = %+v, want a hint about the hold", run.Failure)
		}
		s.wantEffects(0)
		s.wantAwake()
	})
}

const twoKinds = `
volume := import("volume")
image := import("image")
volume.create("held", {size_gib: 1})
volume.create("too", {size_gib: 1})
image.fetch("free", {url: "https://images.example/i.tar", sha256: "0000000000000000000000000000000000000000000000000000000000000000", format: "oci"})
`

// A hold stops exactly the held work, also if only some calls of a run are held.
func TestHoldStopsOnlyItsScope(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		web := func(script string) writ.RunID {
			p := s.payload(script)
			p.Deployment = identity.Deployment{Name: "web"}
			run, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			return run.ID
		}
		s.decideFor(websWork, identity.DecisionHold, "")
		held := web(oneVolume)
		s.wantHeld(held, "writ release --dc ams1 --project shop --deployment web", "alice")
		s.wantState(s.submit(strings.Replace(oneVolume, `"v"`, `"other"`, 1)), writ.RunSucceeded)
		s.decideFor(websWork, identity.DecisionRelease, "")
		s.wantState(held, writ.RunSucceeded)

		s.decideFor(volumeWork, identity.DecisionHold, "")
		held = s.submit(twoKinds)
		s.awaitCall(held, 3, writ.CallSucceeded)
		time.Sleep(5 * time.Second)
		_, calls := s.look(held)
		for _, c := range calls[:2] {
			if c.Delivery > 0 || !testenv.Mentions(c.Why.String(), "writ release --dc ams1 --operation volume.create", "alice") {
				t.Errorf("call %d is %s (%s), want it held", c.Seq, c.State, c.Why.String())
			}
		}
		s.wantAwake()
		s.decideFor("operation/volume", identity.DecisionHold, "") // includes volume.create
		s.decideFor(volumeWork, identity.DecisionRelease, "")      // releases it from both holds
		s.wantState(held, writ.RunSucceeded)
		s.wantHeld(s.submit("volume := import(\"volume\")\nvolume.resize(\"held\", {size_gib: 2})\n"), "writ release --dc ams1 --operation volume")
	})
}

// A released part continues while the rest stays on hold, until a new hold covers everything.
//
// Promise: Recovery: A datacenter on hold can be released in parts.
// How: A release excludes a part from the earlier, wider holds.
func TestHeldDatacenterIsReleasedInParts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		s.decideFor(allWork, identity.DecisionHold, "")
		s.decideFor("operation/image", identity.DecisionRelease, "")
		some := s.submit(twoKinds)
		s.wantHeld(some, "writ release --dc ams1") // the run itself has not started
		answer, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease))
		if err != nil || !testenv.Mentions(answer.Done, "project shop", "alice", "datacenter") {
			t.Errorf("%q, %v", answer.Done, err)
		}
		s.wantState(some, writ.RunSucceeded)
		s.decideFor(shopsWork, identity.DecisionHold, "")
		if answer, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease)); err != nil || !testenv.Mentions(answer.Done, "alice", "project shop") {
			t.Errorf("release of the hold of the project: %q, %v", answer.Done, err)
		}
		s.decideFor(allWork, identity.DecisionHold, "once more")
		s.wantHeld(s.submit(oneVolume), "once more")
		s.halt()
		s.start()
		s.decideFor(allWork, identity.DecisionRelease, "")
		if _, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease)); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("release without a hold: %v, want CONFLICT", err)
		}
	})
}

// An attacker who delays, repeats or reorders decisions changes nothing.
//
// Promise: Signatures and rosters: A delayed or reordered hold or release has no effect.
// How: It names the newest decision about the same or the enclosing work, as its signer saw it.
// Also: TestAHostileCoordinatorRedirectsNoDecision/later.
func TestDelayedHoldOrReleaseIsRejected(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		refused := func(what string, kept []byte) {
			t.Helper()
			if answer, err := s.Decide(t.Context(), kept); writ.CodeOf(err) != writ.CodeConflict {
				t.Errorf("%s: %q, %v", what, answer.Done, err)
			}
		}
		for _, subject := range []string{allWork, shopsWork, websWork, volumeWork} {
			early := s.signed(subject, identity.DecisionHold)
			s.decideFor(subject, identity.DecisionHold, "")
			refused("a hold of "+subject+" next to another one", early)
			kept, again := s.signed(subject, identity.DecisionRelease), s.signed(subject, identity.DecisionRelease)
			s.decideFor(subject, identity.DecisionHold, "for another reason")
			refused("a release of "+subject+" by a signer who has not seen the newest hold", kept)
			late := s.signed(subject, identity.DecisionHold)
			s.decideFor(subject, identity.DecisionRelease, "")
			refused("a hold of "+subject+" from before its release", late)
			refused("a release of "+subject+" again", again)
		}
		// A release of a part, signed under one hold of the datacenter, does not affect a later hold.
		s.decideFor(allWork, identity.DecisionHold, "")
		parts := make(map[string][]byte)
		for _, subject := range []string{shopsWork, websWork, volumeWork} {
			parts[subject] = s.signed(subject, identity.DecisionRelease)
		}
		s.decideFor(allWork, identity.DecisionRelease, "")
		s.decideFor(allWork, identity.DecisionHold, "a new incident")
		for subject, kept := range parts {
			refused("a release of "+subject+" from the last incident", kept)
		}
		// A decision about a part does not invalidate a decision about the whole.
		whole := s.signed(allWork, identity.DecisionRelease)
		s.decideFor(websWork, identity.DecisionHold, "")
		if _, err := s.Decide(t.Context(), whole); err != nil {
			t.Error(err)
		}
		signed := s.signed(shopsWork, identity.DecisionHold)
		for range 2 {
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Errorf("repeated statement: %v", err)
			}
		}
	})
}

// A script of another deployment, or without one, cannot bypass a hold by adopting the resources of the held
// deployment.
func TestHeldDeploymentKeepsItsResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		p := s.payload(oneVolume)
		p.Deployment = identity.Deployment{Name: "web"}
		made, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(made.ID, writ.RunSucceeded)
		s.decideFor(websWork, identity.DecisionHold, "")
		takes := s.submit("volume := import(\"volume\")\nvolume.resize(\"v\", {size_gib: 2}, {adopt: true})\n")
		s.wantHeld(takes, "writ release --dc ams1 --project shop --deployment web", "alice")
		s.decideFor(websWork, identity.DecisionRelease, "")
		s.wantState(takes, writ.RunSucceeded)
	})
}

// Members of a project hold and release their own work, but cannot release the holds of an operator of the datacenter.
//
// Promise: Signatures and rosters: Members of a project can neither release the hold of a datacenter operator nor
// prevent operators from holding.
// How: A hold records whether an operator of all projects signed it; decisions about a part do not change the
// revision of the whole.
func TestProjectCannotReleaseOperatorHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		dora := sshsig.NewSigner(newKey(t))
		r := *s.roster
		r.Version++
		r.Principals = append(r.Principals, identity.Principal{Name: "dora", Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: dora.PublicKey(), State: identity.Active}}})
		r.Bindings = append(r.Bindings, identity.Binding{Principal: "dora", Role: identity.Deployer, Project: "*"})
		s.rosters = s.rosters[:1]
		s.adopt(&r)
		s.start()
		by := func(signer sshsig.Signer, name, subject, decision string) error {
			st := s.statement(subject, decision)
			st.Signer = name
			s.see(st)
			text, err := st.Text()
			if err != nil {
				t.Fatal(err)
			}
			armored, err := signer.Sign(sshsig.StatementNamespace, text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Decide(t.Context(), sshsig.Join(text, armored))
			return err
		}
		want := func(code writ.Code, who, subject, decision string) {
			t.Helper()
			signer := s.person
			if who == "dora" {
				signer = dora
			}
			if err := by(signer, who, subject, decision); writ.CodeOf(err) != code {
				t.Errorf("%s of %s by %s: %v, want %q", decision, subject, who, err, code)
			}
		}
		want("", "dora", shopsWork, identity.DecisionHold)
		want("", "dora", websWork, identity.DecisionRelease)
		want("", "alice", shopsWork, identity.DecisionHold)
		want(writ.CodeRoleMissing, "dora", shopsWork, identity.DecisionRelease)
		want("", "dora", shopsWork, identity.DecisionHold) // leaves the operator's hold in force
		want(writ.CodeRoleMissing, "dora", shopsWork, identity.DecisionRelease)
		want(writ.CodeRoleMissing, "dora", websWork, identity.DecisionRelease)
		want("", "alice", shopsWork, identity.DecisionRelease)
		want(writ.CodeRoleMissing, "dora", allWork, identity.DecisionHold)
		want(writ.CodeRoleMissing, "dora", volumeWork, identity.DecisionHold)
		want("", "alice", allWork, identity.DecisionHold)
		want(writ.CodeRoleMissing, "dora", shopsWork, identity.DecisionRelease)
		want("", "alice", "operation/volume", identity.DecisionRelease)
		want(writ.CodeNotFound, "alice", "operation/volume.explode", identity.DecisionHold)
		for i := range 40 { // decisions of one project leave space for those of operators
			_ = by(dora, "dora", "deployment/d"+string(rune('a'+i%26))+string(rune('a'+i/26)), identity.DecisionHold)
		}
		want(writ.CodeConflict, "dora", "deployment/one-more", identity.DecisionHold)
		want("", "alice", shopsWork, identity.DecisionHold)
		want("", "alice", volumeWork, identity.DecisionHold)
	})
}

// A supervisor started with --held sends no job of open runs, whatever the journal records, until people release the
// work in parts.
//
// Promise: Recovery: A supervisor started with `--held`, or with a journal that lost a hold, sends no job of open
// runs.
// How: A mark beside the supervisor's key has the number of the newest decision.
// Also: TestJournalWithLostHoldStartsHeld.
func TestSupervisorStartsHeld(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(time.Hour), func(n *testNode) { n.slots = 1 })
		time.Sleep(2 * time.Second)
		running := s.submit(oneVolume)
		s.awaitCall(running, 1, writ.CallRunning)
		queued := s.submit(strings.Replace(oneVolume, `"v"`, `"w"`, 1))
		s.awaitCall(queued, 1, writ.CallQueued)
		s.halt()
		s.queue.Flush()
		s.held = true
		s.start()
		s.held = false
		accepted := s.submit("import(\"run\").log(\"x\")\n")
		s.wantHeld(accepted, "writ release --dc ams1", "supervisor")
		time.Sleep(20 * time.Minute)
		if _, calls := s.look(queued); len(n.given()) != 1 || !calls[0].KeptBack {
			t.Errorf("the node received %d jobs; call %+v", len(n.given()), calls[0])
		}
		n.act = succeed
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(accepted, writ.RunSucceeded)
		s.halt()
		s.start() // without --held
		s.wantState(queued, writ.RunSucceeded)
	})
}

// If the database lost a hold, or was restored from a backup, no work starts: the mark beside the key has a higher
// number.
func TestJournalWithLostHoldStartsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.marks = new(memoryMarks)
		s.start()
		s.join("n1")
		s.decideFor(shopsWork, identity.DecisionHold, "")
		time.Sleep(time.Minute) // until the mark is written
		s.halt()
		s.execOn("DELETE FROM holds")
		s.start()
		held := s.submit(oneVolume)
		s.wantHeld(held, "writ release --dc ams1", "supervisor")
		late, later := s.signed(allWork, identity.DecisionRelease), s.signed(allWork, identity.DecisionHold)
		s.execOn("UPDATE holds SET body = x'00'")
		if _, err := s.Decide(t.Context(), late); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("decision on a forged record: %v, want RECORD_FORGED", err)
		}
		s.execOn("DELETE FROM holds")
		if _, err := s.Decide(t.Context(), later); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("decision on a deleted record: %v, want RECORD_FORGED", err)
		}
		s.wantHeld(held, "writ release --dc ams1", "supervisor") // this process still has it in memory
		s.logs.Reset()
	})
}

// Calls that are placed together with a held call wait for it, and name it. Otherwise a script would get half of its
// resources.
func TestCallsWaitForRelatedHeldCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		s.decideFor("operation/machine.create", identity.DecisionHold, "")
		id := s.submit(webScript)
		s.wantHeld(id, "call 2", "machine.create web-0", "writ release --dc ams1 --operation machine.create", "alice")
		s.decideFor(shopsWork, identity.DecisionHold, "")
		preview := s.preview(s.payload(strings.ReplaceAll(webScript, "web-0", "web-1")))
		if c := preview.Calls[1]; !testenv.Mentions(preview.Reason, "writ release --dc ams1 --project shop") || !c.Waits || !testenv.Mentions(c.Reason, "writ release --dc ams1 --operation machine.create") {
			t.Errorf("reason of the preview = %q, of call 2 = %q", preview.Reason, c.Reason)
		}
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.decideFor("operation/machine", identity.DecisionHold, "")
		s.decideFor("operation/machine.create", identity.DecisionRelease, "")
		s.wantState(id, writ.RunSucceeded)
	})
}

// A further attempt is a new job, so it waits for the release, even if the call has its node and its resource.
func TestHoldStopsFurtherAttempts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Attempt > 1 {
					return succeed(ctx, job)
				}
				return writ.Result{Error: writ.Errorf(writ.CodeInjected, "injected failure")}
			}
		})
		time.Sleep(2 * time.Second)
		id := s.submit("volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1})\n")
		for {
			if _, calls := s.look(id); len(calls) == 1 && calls[0].Attempt == 2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		s.decideFor(shopsWork, identity.DecisionHold, "")
		time.Sleep(5 * time.Minute)
		_, calls := s.look(id)
		if c := calls[0]; c.Attempt != 2 || c.Delivery > 0 || !testenv.Mentions(c.Why.String(), "writ release --dc ams1 --project shop") || len(n.given()) != 1 {
			t.Errorf("attempt %d, delivery %d (%s); the node received %d jobs", c.Attempt, c.Delivery, c.Why.String(), len(n.given()))
		}
		s.wantAwake()
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(id, writ.RunSucceeded)
	})
}
