package supervisor_test

import (
	"fmt"
	"testing"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// TestNamesOfDeploymentsAreBounded gives a project as many deployments as it may have. Runs of these go on, and another name is refused.
//
// Promise: Limits and shares: A project has at most 10,000 deployment names in a datacenter; further names are
// refused with `QUOTA_EXCEEDED`.
// How: Revisions are kept forever, so an old payload stays refused.
func TestNamesOfDeploymentsAreBounded(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		submit := func(deployment string, base int) error {
			p := s.payload(webScript)
			p.Deployment = identity.Deployment{Name: deployment, Base: base}
			_, err := s.Submit(t.Context(), s.signPayload(p))
			return err
		}
		if err := submit("first", 0); err != nil {
			t.Fatal(err)
		}
		project := s.payload(webScript).Project
		err := s.journal.Write(t.Context(), func(tx *journal.Tx) error {
			for i := range 9_999 {
				if err := tx.SetRevision(project, fmt.Sprint("d-", i), 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := submit("more", 0); writ.CodeOf(err) != writ.CodeQuotaExceeded {
			t.Errorf("another name: %v, want %s", err, writ.CodeQuotaExceeded)
		}
		if err := submit("first", 1); err != nil {
			t.Errorf("a deployment that exists: %v", err)
		}
	})
}

// Promise: Plans, scripts and manuals: A run deletes a pruned resource only if its deployment owns it, and only if the
// script succeeded.
func TestPruneDeletesOwnedResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		bases := make(map[string]int)
		run := func(deployment, script string, prune []string, want writ.RunState) *writ.Failure {
			t.Helper()
			p := s.payload("volume := import(\"volume\")\n" + script + "\n")
			p.Deployment = identity.Deployment{Name: deployment, Base: bases[deployment]}
			p.Prune, p.Targets, p.Allow = prune, prune, append(p.Allow, "volume.delete")
			accepted, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			bases[deployment]++
			ended, _ := s.wantState(accepted.ID, want)
			return ended.Failure
		}
		creates := func(names ...string) (script string) {
			for _, name := range names {
				script += fmt.Sprintf("volume.create(%q, {size_gib: 1})\n", name)
			}
			return script
		}
		run("shop", creates("a", "b", "c"), nil, writ.RunSucceeded)
		run("mail", creates("letters"), nil, writ.RunSucceeded)

		run("shop", creates("a")+`volume.get("nothing")`, []string{"volume/b", "volume/c"}, writ.RunFailed)
		s.wantResources("volume a", "volume b", "volume c", "volume letters")
		run("shop", creates("a")+`volume.get("c")`, []string{"volume/b", "volume/c"}, writ.RunSucceeded)
		s.wantResources("volume a", "volume c", "volume letters")
		why := run("shop", creates("a"), []string{"volume/c", "volume/letters"}, writ.RunFailed)
		if why.Code != writ.CodeNotOwner {
			t.Errorf("it prunes a resource of another deployment: %+v", why)
		}
		s.wantResources("volume a", "volume letters")
	})
}
