package identity

import (
	"testing"

	"writ"
)

// A roster of an earlier version may lack the project of a hold.
func TestHoldOfUnknownProjectIsReleasedByID(t *testing.T) {
	t.Parallel()
	const id = "0198a0f4-0000-7000-8000-000000000001"
	for scope, want := range map[Scope]string{
		{Project: id}:                    "writ release --dc ams1 --project " + id,
		{Project: id, Deployment: "web"}: "writ release --dc ams1 --project " + id + " --deployment web",
	} {
		reason := scope.Reason("ams1", "")
		if reason.Project != id || reason.Deployment != scope.Deployment {
			t.Errorf("%v has the reason %+v", scope, reason)
		}
		if got := scope.Release("ams1", ""); got != want {
			t.Errorf("%v is released by %q, want %q", scope, got, want)
		}
	}
	if got := (Scope{Project: writ.ProjectID(id)}).Text(""); got != "the project "+id {
		t.Errorf("text %q", got)
	}
}
