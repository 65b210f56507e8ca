package supervisor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
)

// withoutDeployers removes the right to deploy from all principals.
func withoutDeployers(r *identity.Roster) {
	r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Role == identity.Deployer })
}

// Promise: Signatures and rosters: A run is cancelled if the newest roster rejects its submission for any reason, not
// only for a lost role.
// How: Each error of the check is a stop, so an earlier check cannot hide that a right was lost.
func TestRejectedSubmissionCancelsItsRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *identity.Roster)
		want   writ.Code
	}{
		"project removed with its rights": {func(r *identity.Roster) {
			withoutDeployers(r)
			r.Projects = slices.DeleteFunc(r.Projects, func(p identity.Project) bool { return p.ID == theProject })
			r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Project == theProject })
		}, writ.CodeProjectUnknown},
		"project has another name": {func(r *identity.Roster) { r.Project(theProject).Name = "other" }, writ.CodeProjectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", slowly(2*time.Minute))
				id := s.submit(webScript)
				s.awaitCall(id, 1, writ.CallRunning)
				s.amendRoster(c.change)
				run, _ := s.wantState(id, writ.RunCancelled)
				if run.Failure.Code != c.want || run.Failure.Hint == "" {
					t.Errorf("failure = %+v", run.Failure)
				}
			})
		})
	}
}

// A run that was stored a moment after its text expired continues while its signer has the right, and only then.
func TestLateStoredRunNeedsTheRight(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *identity.Roster)
		want   writ.RunState
	}{
		"kept": {func(*identity.Roster) {}, writ.RunSucceeded},
		"lost": {withoutDeployers, writ.RunCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				p := s.payload(oneVolume)
				signed := s.signPayload(p)
				time.Sleep(time.Until(p.Expires) + identity.Skew)
				release := s.blockWrites()
				var run writ.Run
				submitted := make(chan error)
				go func() {
					var err error
					run, err = s.Submit(context.Background(), signed)
					submitted <- err
				}()
				synctest.Wait()
				time.Sleep(500 * time.Millisecond)
				release()
				if err := <-submitted; err != nil {
					t.Fatal(err)
				}
				s.amendRoster(c.change)
				s.join("n1")
				s.wantState(run.ID, c.want)
			})
		})
	}
}
