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

// scopes are what can be held, by the subjects of statements about them.
const (
	allWork    = "datacenter/" + string(theDatacenter)
	shopsWork  = "project/" + string(theProject)
	websWork   = "deployment/web"
	volumeWork = "operation/volume.create"
)

// seeHolds fills in what a person sees who decides about a scope.
func (s *sim) seeHolds(tx *journal.Tx, statement *identity.Statement) error {
	if kind := statement.Kind(); kind == "project" || kind == "deployment" {
		statement.Seen = identity.Seen{Project: theProject, ProjectName: "shop"}
	}
	all, _, err := tx.Holds()
	statement.Seen.Revision = all.Seen(identity.ScopeOf(statement))
	return err
}

// signed is a statement about a scope, which may be handed in later.
func (s *sim) signed(subject, decision string) []byte {
	s.t.Helper()
	return s.sign(s.statement(subject, decision))
}

// wantHeld fails the test unless a run waits because of a hold, and no node has any of it.
func (s *sim) wantHeld(id writ.RunID, words ...string) {
	s.t.Helper()
	time.Sleep(5 * time.Second)
	run, calls := s.look(id)
	said := run.Why.String()
	for _, c := range calls {
		said += "; " + c.Why.String()
		if c.Delivery > 0 {
			s.t.Errorf("call %d was sent: it is %s on %s", c.Seq, c.State, c.NodeName)
		}
		if c.Node != "" || c.Claimed {
			s.t.Errorf("call %d has room on %q, and a claim: %v", c.Seq, c.NodeName, c.Claimed)
		}
	}
	if run.State.Ended() || !testenv.Mentions(said, words...) {
		s.t.Errorf("the run is %s (%s), want one that waits and names %q", run.State, said, words)
	}
	s.wantAwake()
}

// From the answer to a hold on no job is sent of what it is about, and the datacenter takes submissions. The release lets all of them go on.
//
// Promise: Recovery: Held work does not start: from the answer to a hold on, no job of the held work is sent, while
// running work, results and submissions continue.
// How: One function creates jobs and checks holds first; waiting calls keep no claim and reserve no capacity; a
// release wakes all runs.
// Also: TestAHoldStopsItsPartOfTheWork, TestAHoldStopsFurtherAttempts, TestHeldDeploymentKeepsItsResources,
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
			t.Errorf("of a run that had begun, call 1 is %s, and call 2 %s (%s)", calls[0].State, calls[1].State, calls[1].Why.String())
		}
		if calls[1].Claimed || calls[1].Node != "" || calls[1].Need != (writ.Capacity{}) {
			t.Errorf("call 2 keeps what it had: %+v on %s", calls[1].Need, calls[1].NodeName)
		}
		if run.State != writ.RunRunning || len(n.given()) != 1 {
			t.Errorf("the run is %s, and its node got %d jobs", run.State, len(n.given()))
		}
		if run, _ := s.look(accepted); run.State != writ.RunAccepted || !run.Started.IsZero() {
			t.Errorf("the other run is %s", run.State)
		}
		s.decideFor(allWork, identity.DecisionRelease, "")
		s.wantState(begun, writ.RunSucceeded)
		s.wantState(accepted, writ.RunSucceeded)
		s.wantEffects(3)
	})
}

// The next supervisor holds what the one before held; what had been sent and got lost is not begun either, and does not run out of time.
//
// Promise: Recovery: A hold survives its supervisor, and a held run expires at its deadline.
// How: The journal stores all decisions in one authenticated row.
// Also: TestARunOnHoldEndsAsAnyOther, TestHoldsAreKept.
func TestAHoldOutlivesItsSupervisor(t *testing.T) {
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
			t.Errorf("the call is %s (%s), the run %s", c.State, c.Why.String(), run.State)
		}
		if got := len(n.given()); got != 1 {
			t.Errorf("the node got %d jobs", got)
		}
		s.wantAwake()
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(lost, writ.RunSucceeded)
		s.wantEffects(2)
	})
}

// A run on hold can be cancelled, and a hold gives it no more time than its signer did.
func TestARunOnHoldEndsAsAnyOther(t *testing.T) {
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
			t.Errorf("it expired with %+v", run.Failure)
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

// A hold stops its part of the work and nothing else, also where parts of a run are held.
func TestAHoldStopsItsPartOfTheWork(t *testing.T) {
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
				t.Errorf("call %d is %s (%s)", c.Seq, c.State, c.Why.String())
			}
		}
		s.wantAwake()
		s.decideFor("operation/volume", identity.DecisionHold, "") // which has all of it
		s.decideFor(volumeWork, identity.DecisionRelease, "")      // out of both
		s.wantState(held, writ.RunSucceeded)
		s.wantHeld(s.submit("volume := import(\"volume\")\nvolume.resize(\"held\", {size_gib: 2})\n"), "writ release --dc ams1 --operation volume")
	})
}

// A part that is released goes on while the rest stays on hold, until somebody holds the whole again.
//
// Promise: Recovery: A datacenter on hold can be released in parts.
// How: A release excludes a part from the earlier, wider holds.
func TestADatacenterIsLetGoPieceByPiece(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		s.decideFor(allWork, identity.DecisionHold, "")
		s.decideFor("operation/image", identity.DecisionRelease, "")
		some := s.submit(twoKinds)
		s.wantHeld(some, "writ release --dc ams1") // the run as a whole has not begun
		answer, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease))
		if err != nil || !testenv.Mentions(answer.Done, "project shop", "alice", "datacenter") {
			t.Errorf("%q, %v", answer.Done, err)
		}
		s.wantState(some, writ.RunSucceeded)
		s.decideFor(shopsWork, identity.DecisionHold, "")
		if answer, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease)); err != nil || !testenv.Mentions(answer.Done, "alice", "project shop") {
			t.Errorf("a hold of its own: %q, %v", answer.Done, err)
		}
		s.decideFor(allWork, identity.DecisionHold, "once more")
		s.wantHeld(s.submit(oneVolume), "once more")
		s.halt()
		s.start()
		s.decideFor(allWork, identity.DecisionRelease, "")
		if _, err := s.Decide(t.Context(), s.signed(shopsWork, identity.DecisionRelease)); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("what is not on hold is released: %v", err)
		}
	})
}

// Who keeps decisions back, or hands them in again or in another order, changes nothing.
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
			refused("a hold of "+subject+" beside another one", early)
			kept, again := s.signed(subject, identity.DecisionRelease), s.signed(subject, identity.DecisionRelease)
			s.decideFor(subject, identity.DecisionHold, "for another reason")
			refused("a release of "+subject+" by somebody who did not see the newest hold", kept)
			late := s.signed(subject, identity.DecisionHold)
			s.decideFor(subject, identity.DecisionRelease, "")
			refused("a hold of "+subject+" from before its release", late)
			refused("a release of "+subject+" once more", again)
		}
		// A release of a part, signed under one hold of the whole, takes nothing out of the next one.
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
		// What is decided about a part keeps nobody from deciding about the whole.
		whole := s.signed(allWork, identity.DecisionRelease)
		s.decideFor(websWork, identity.DecisionHold, "")
		if _, err := s.Decide(t.Context(), whole); err != nil {
			t.Error(err)
		}
		signed := s.signed(shopsWork, identity.DecisionHold)
		for range 2 {
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Errorf("the same statement again: %v", err)
			}
		}
	})
}

// A script of another deployment, or of none, does not get past a hold by taking over what the deployment has.
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

// The people of a project hold and release their own work, and not what an operator of the datacenter holds.
//
// Promise: Signatures and rosters: Members of a project can neither release the hold of a datacenter operator nor
// prevent operators from holding.
// How: A hold records whether an operator of all projects signed it; decisions about a part do not change the
// revision of the whole.
func TestProjectCannotReleaseOperatorHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
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
		want("", "dora", shopsWork, identity.DecisionHold) // which makes it no weaker
		want(writ.CodeRoleMissing, "dora", shopsWork, identity.DecisionRelease)
		want(writ.CodeRoleMissing, "dora", websWork, identity.DecisionRelease)
		want("", "alice", shopsWork, identity.DecisionRelease)
		want(writ.CodeRoleMissing, "dora", allWork, identity.DecisionHold)
		want(writ.CodeRoleMissing, "dora", volumeWork, identity.DecisionHold)
		want("", "alice", allWork, identity.DecisionHold)
		want(writ.CodeRoleMissing, "dora", shopsWork, identity.DecisionRelease)
		want("", "alice", "operation/volume", identity.DecisionRelease)
		want(writ.CodeNotFound, "alice", "operation/volume.explode", identity.DecisionHold)
		for i := range 40 { // a project cannot have so many decisions kept that there is no room for those of operators
			_ = by(dora, "dora", "deployment/d"+string(rune('a'+i%26))+string(rune('a'+i/26)), identity.DecisionHold)
		}
		want(writ.CodeConflict, "dora", "deployment/one-more", identity.DecisionHold)
		want("", "alice", shopsWork, identity.DecisionHold)
		want("", "alice", volumeWork, identity.DecisionHold)
	})
}

// A supervisor that is started held sends nothing of what is open, whatever the journal says of it, until people release it piece by piece.
//
// Promise: Recovery: A supervisor started with `--held`, or with a journal that lost a hold, sends no job of open
// runs.
// How: A mark beside the supervisor's key has the number of the newest decision.
// Also: TestJournalWithLostHoldStartsHeld.
func TestASupervisorStartsHeld(t *testing.T) {
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
			t.Errorf("the node got %d jobs; %+v", len(n.given()), calls[0])
		}
		n.act = succeed
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(accepted, writ.RunSucceeded)
		s.halt()
		s.start() // which is not started held
		s.wantState(queued, writ.RunSucceeded)
	})
}

// A database that forgets a hold, and one that comes from a backup, let nothing start: the mark beside the key knows better.
func TestJournalWithLostHoldStartsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		s.marks = new(memoryMarks)
		s.start()
		s.join("n1")
		s.decideFor(shopsWork, identity.DecisionHold, "")
		time.Sleep(time.Minute) // the mark follows
		s.halt()
		s.execOn("DELETE FROM holds")
		s.start()
		held := s.submit(oneVolume)
		s.wantHeld(held, "writ release --dc ams1", "supervisor")
		late, later := s.signed(allWork, identity.DecisionRelease), s.signed(allWork, identity.DecisionHold)
		s.execOn("UPDATE holds SET body = x'00'")
		if _, err := s.Decide(t.Context(), late); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("a decision on a record that somebody else wrote: %v", err)
		}
		s.execOn("DELETE FROM holds")
		if _, err := s.Decide(t.Context(), later); writ.CodeOf(err) != writ.CodeRecordForged {
			t.Errorf("a decision on a record that was taken away: %v", err)
		}
		s.wantHeld(held, "writ release --dc ams1", "supervisor") // which this process knows
		s.logs.Reset()
	})
}

// What is placed with a call on hold waits for it, and says so: half of what a script wants is no good.
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
			t.Errorf("the preview says %q, and of call 2 %q", preview.Reason, c.Reason)
		}
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.decideFor("operation/machine", identity.DecisionHold, "")
		s.decideFor("operation/machine.create", identity.DecisionRelease, "")
		s.wantState(id, writ.RunSucceeded)
	})
}

// A further attempt is a new job: it waits for the release, also behind a call that has its node and its resource.
func TestAHoldStopsFurtherAttempts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Attempt > 1 {
					return succeed(ctx, job)
				}
				return writ.Result{Error: writ.Errorf(writ.CodeInjected, "told to fail")}
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
			t.Errorf("it is in attempt %d, was sent %d times (%s); the node got %d jobs", c.Attempt, c.Delivery, c.Why.String(), len(n.given()))
		}
		s.wantAwake()
		s.decideFor(shopsWork, identity.DecisionRelease, "")
		s.wantState(id, writ.RunSucceeded)
	})
}
