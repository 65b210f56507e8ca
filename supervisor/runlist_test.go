package supervisor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/scripts"
)

// listOf returns a list of runs in the state that a person sees now.
func (s *sim) listOf(resume bool, ids ...writ.RunID) identity.RunList {
	s.t.Helper()
	l := identity.RunList{Project: theProject, ProjectName: "shop", Resume: resume}
	for _, id := range ids {
		run, _ := s.look(id)
		l.Runs = append(l.Runs, identity.SawRun(id, run.Script, resume, run.Ended))
	}
	return l
}

// signRuns signs a statement about several runs.
func (s *sim) signRuns(l identity.RunList) []byte {
	s.t.Helper()
	statement := s.statement("", "")
	statement.Format, statement.RosterDigest, statement.DatacenterName = identity.FormatV2, s.firstRoster(), s.roster.Datacenter(theDatacenter).Name
	l.Statement(statement)
	return s.sign(statement)
}

// wantCodes compares the outcome of each run of a list: an error code, or "" for success.
func (s *sim) wantCodes(proof []byte, want map[writ.RunID]writ.Code) {
	s.t.Helper()
	got := map[writ.RunID]writ.Code{}
	for id, why := range s.opened(proof).Runs {
		got[id] = ""
		if why != nil {
			got[id] = why.Code
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("signed outcome of each run (-want +got):\n%s", diff)
	}
}

// Promise: CI certificates and batches: One statement cancels or resumes exactly the listed runs of one project, and
// the outcome of each run is signed.
// How: The text contains ids, scripts and ends instead of a filter; each run is decided in its own transaction.
// Also: TestStatementResumesRunsAsSignerSawThem, TestRepeatedRunListGetsSameAnswer,
// TestListOmitsUnrequestedRuns.
func TestStatementCancelsOnlyListedRuns(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Minute))
		ended, spared := s.submit("// nothing\n"), s.submit(webScript)
		s.wantState(ended, writ.RunSucceeded)
		one, two, swapped := s.submit(webScript), s.submit(webScript), s.submit(webScript)
		unknown := writ.RunIDOf(writ.Digest{1})
		list := s.listOf(false, one, two, swapped, ended)
		list.Runs[2].Script = "other.tengo" // a coordinator showed a different script
		list.Runs = append(list.Runs, identity.SawRun(unknown, "web.tengo", false, time.Time{}))
		signed := s.signRuns(list)
		answer, err := s.Decide(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		if !testenv.Mentions(answer.Done, "2", "5") {
			t.Errorf("answer = %q", answer.Done)
		}
		s.wantCodes(answer.Proof, map[writ.RunID]writ.Code{one: "", two: "", swapped: writ.CodeConflict, ended: writ.CodeConflict, unknown: writ.CodeNotFound})
		run, _ := s.wantState(one, writ.RunCancelled)
		if len(run.Decided) != 1 || run.Decided[0].Decision != "cancel" || run.Decided[0].Signer != "alice" {
			t.Errorf("decisions = %+v", run.Decided)
		}
		s.wantState(two, writ.RunCancelled)
		s.wantState(swapped, writ.RunSucceeded)
		s.wantState(spared, writ.RunSucceeded)
		again, err := s.Decide(t.Context(), signed)
		if diff := cmp.Diff(answer, again); diff != "" || err != nil {
			t.Errorf("repeated statement: %v, %s", err, diff)
		}
	})
}

func TestStatementResumesRunsAsSignerSawThem(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		b := newBreaking(map[string]int{"web": 4})
		s.join("n1", b.join)
		const script = `import("volume").create("web", {size_gib: 1}, {retries: 0})`
		var ids []writ.RunID
		for range 3 {
			id := s.submit(script)
			s.wantRest(id, writ.RunFailed)
			ids = append(ids, id)
		}
		list := s.listOf(true, ids...)
		if err := s.resume(ids[0]); err != nil { // after the signer saw the list
			t.Fatal(err)
		}
		s.wantRest(ids[0], writ.RunFailed)
		answer, err := s.Decide(t.Context(), s.signRuns(list))
		if err != nil {
			t.Fatal(err)
		}
		s.wantCodes(answer.Proof, map[writ.RunID]writ.Code{ids[0]: writ.CodeConflict, ids[1]: "", ids[2]: ""})
		s.wantRest(ids[1], writ.RunSucceeded)
		s.wantRest(ids[2], writ.RunSucceeded)
		if run, _ := s.look(ids[0]); run.Resumes != 1 || run.State != writ.RunFailed {
			t.Errorf("the run that failed again has %d resumes and is %s", run.Resumes, run.State)
		}
	})
}

// pondering takes half a minute for each pass.
type pondering struct{ inProcess }

func (e pondering) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	time.Sleep(30 * time.Second)
	return e.inProcess.Pass(ctx, bundle, inputs, journal)
}

// A person who has the id of a run in another project cannot find out whether it exists: the answer equals that for an
// unknown run.
func TestAnswersHideRunsOfOtherProjects(t *testing.T) {
	const mail = writ.ProjectID("01920000-0000-7000-8000-0000000000aa")
	inSim(t, func(t *testing.T, s *sim) {
		there, absent := s.submit("// nothing\n"), writ.RunIDOf(writ.Digest{1})
		bob := sshsig.NewSigner(newKey(t))
		s.amendRoster(func(r *identity.Roster) {
			r.Projects = append(r.Projects, identity.Project{ID: mail, Name: "mail"})
			r.Principals = append(r.Principals, identity.Principal{Name: "bob", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: bob.PublicKey(), State: identity.Active}}})
			r.Bindings = append(r.Bindings, identity.Binding{Principal: "bob", Role: identity.Deployer, Project: mail})
		})
		s.person = bob
		answerTo := func(id writ.RunID, change func(statement *identity.Statement)) string {
			statement := s.statement("run/"+string(id), "cancel")
			statement.Signer, statement.Seen = "bob", identity.SeenRun("test.tengo", mail, "mail", time.Time{})
			statement.Format, statement.RosterDigest, statement.DatacenterName = identity.FormatV2, s.firstRoster(), s.roster.Datacenter(theDatacenter).Name
			change(statement)
			answer, err := s.Decide(t.Context(), s.sign(statement))
			if err == nil {
				err = s.opened(answer.Proof).Runs[id]
			}
			e := writ.AsError(err)
			return strings.ReplaceAll(string(e.Code)+" "+e.Message+" "+e.Hint, string(id), "ID")
		}
		for name, change := range map[string]func(id writ.RunID) func(*identity.Statement){
			"one": func(writ.RunID) func(*identity.Statement) { return func(*identity.Statement) {} },
			"list": func(id writ.RunID) func(*identity.Statement) {
				return identity.RunList{Project: mail, ProjectName: "mail", Runs: []identity.SeenOfRun{identity.SawRun(id, "test.tengo", false, time.Time{})}}.Statement
			},
		} {
			if of, none := answerTo(there, change(there)), answerTo(absent, change(absent)); of != none || !strings.HasPrefix(of, "NOT_FOUND") {
				t.Errorf("%s: answer for a run of another project %q, for an unknown run %q", name, of, none)
			}
		}
	})
}

// A list is sent again while its runs are still being cancelled. The second answer reports the outcome of each run, not
// a conflict.
func TestRepeatedRunListGetsSameAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.evaluator = pondering{}
		s.start()
		defer s.halt()
		one, two := s.submit(webScript), s.submit(webScript)
		signed := s.signRuns(s.listOf(false, one, two))
		soon, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if answer, err := s.Decide(soon, signed); err == nil {
			t.Fatalf("the request was not interrupted: %+v", answer)
		}
		answer, err := s.Decide(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		s.wantCodes(answer.Proof, map[writ.RunID]writ.Code{one: "", two: ""})
		s.wantState(one, writ.RunCancelled)
		s.wantState(two, writ.RunCancelled)
	})
}

// A crash interrupts a list between two runs. Sending the statement again completes the list, and no answer reports a
// refusal.
//
// Promise: CI certificates and batches: A statement about several runs that a crash interrupted is completed on
// resubmission and never reported as refused.
// How: It is recorded before the first run changes.
func TestInterruptedRunListIsCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.evaluator = pondering{}
		s.start()
		defer s.halt()
		s.join("n1", slowly(5*time.Minute))
		ready := s.submit(webScript)
		s.awaitCall(ready, 1, writ.CallRunning)
		one, two := s.submit(webScript), s.submit(webScript)
		first, second := s.signRuns(s.listOf(false, ready, one)), s.signRuns(s.listOf(false, two))
		for _, signed := range [][]byte{first, second} {
			soon, stop := context.WithTimeout(t.Context(), 5*time.Second)
			if answer, err := s.Decide(soon, signed); err == nil {
				t.Fatalf("the request was not interrupted: %+v", answer)
			}
			stop()
		}
		s.halt() // drops the steps that wait for the evaluator
		s.start()
		s.wantState(ready, writ.RunCancelled)
		answer, err := s.Decide(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		s.wantCodes(answer.Proof, map[writ.RunID]writ.Code{ready: "", one: ""})
		s.wantState(one, writ.RunCancelled)
		time.Sleep(20 * time.Minute) // until the second statement has expired
		answer, err = s.Decide(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		if a := s.opened(answer.Proof); a.Refused != nil || len(a.Runs) != 0 || !testenv.Mentions(a.Done, "1") {
			t.Errorf("proof = %+v", a)
		}
		if run, _ := s.look(two); run.State == writ.RunCancelled || run.Stop != nil {
			t.Errorf("an expired statement cancelled a run: %s", run.State)
		}
	})
}
