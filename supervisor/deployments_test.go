package supervisor_test

import (
	"fmt"
	"maps"
	"testing"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// TestNamesOfDeploymentsAreBounded gives a project the maximum number of deployments. Existing deployments accept new
// revisions, and a new name is refused.
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
			t.Errorf("new name: %v, want %s", err, writ.CodeQuotaExceeded)
		}
		if err := submit("first", 1); err != nil {
			t.Errorf("existing deployment: %v", err)
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
			t.Errorf("prune of another deployment's resource: %+v, want NOT_OWNER", why)
		}
		s.wantResources("volume a", "volume letters")
	})
}

// Promise: Plans, scripts and manuals: With `--uses`, a script changes the resources of another deployment of its
// project; they keep their owner, and the other deployment keeps its revision.
// How: The signed header names the other deployment; the supervisor compares it with the owner of each resource.
// Also: TestScripts/uses.
func TestUsedDeploymentKeepsItsResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		bases := make(map[string]int)
		payload := func(deployment, script string, uses ...string) *identity.Payload {
			p := s.payload("volume := import(\"volume\")\n" + script + "\n")
			p.Deployment = identity.Deployment{Name: deployment, Base: bases[deployment]}
			p.Uses, p.Targets = uses, []string{"volume/data", "volume/own"}
			return p
		}
		run := func(p *identity.Payload, want writ.RunState) *writ.Failure {
			t.Helper()
			accepted, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			bases[p.Deployment.Name]++
			ended, _ := s.wantState(accepted.ID, want)
			return ended.Failure
		}
		owners := func(want map[string]string) {
			t.Helper()
			resources, err := journal.Query(t.Context(), s.journal, func(tx *journal.Tx) ([]*journal.Resource, error) {
				return tx.ProjectResources(theProject)
			})
			if err != nil {
				t.Fatal(err)
			}
			have := make(map[string]string)
			for _, r := range resources {
				have[r.Name] = r.Deployment
			}
			if !maps.Equal(have, want) {
				t.Errorf("owners = %v, want %v", have, want)
			}
		}
		const job = `volume.resize("data", {size_gib: 2}); volume.create("data", {size_gib: 2}); volume.create("own", {size_gib: 1})`
		run(payload("shop", `volume.create("data", {size_gib: 1})`), writ.RunSucceeded)
		for name, uses := range map[string][]string{"none": nil, "another": {"mail"}} {
			if seen := s.preview(payload("nightly", job, uses...)).Calls[0]; seen.Action != writ.ActionRefused || seen.Error.Code != writ.CodeNotOwner {
				t.Errorf("%s: preview = %+v", name, seen)
			}
			if why := run(payload("nightly", job, uses...), writ.RunFailed); why.Code != writ.CodeNotOwner || !testenv.Mentions(why.Hint, "--uses shop") {
				t.Errorf("%s: %+v", name, why)
			}
		}
		if seen := s.preview(payload("nightly", job, "mail", "shop")).Calls[0]; seen.Action != writ.ActionUpdate && seen.Action != writ.ActionAct {
			t.Errorf("preview = %+v", seen)
		}
		run(payload("nightly", job, "mail", "shop"), writ.RunSucceeded)
		owners(map[string]string{"data": "shop", "own": "nightly"})

		prunes := payload("nightly", `volume.create("own", {size_gib: 1})`, "shop")
		prunes.Prune, prunes.Allow = []string{"volume/data"}, append(prunes.Allow, "volume.delete")
		if why := run(prunes, writ.RunFailed); why.Code != writ.CodeNotOwner {
			t.Errorf("prune of a used deployment's resource: %+v, want NOT_OWNER", why)
		}
		run(payload("shop", `volume.create("data", {size_gib: 2})`), writ.RunSucceeded)
		run(payload("nightly", `volume.delete("data")`, "shop"), writ.RunSucceeded)
		run(payload("nightly", `volume.create("data", {size_gib: 1})`, "shop"), writ.RunSucceeded)
		owners(map[string]string{"data": "nightly", "own": "nightly"})
	})
}
