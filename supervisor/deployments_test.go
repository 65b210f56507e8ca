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
