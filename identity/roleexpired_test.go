package identity

import (
	"strings"
	"testing"
	"time"

	"writ"
)

// Promise: Operation: An expired role is named in the error, with the time and the command that renews it.
func TestExpiredRoleIsNamed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &Roster{
		Principals: []Principal{{Name: "eve", Kind: Person, State: Active}, {Name: "bob", Kind: Person, State: Active}},
		Projects:   []Project{{ID: "p", Name: "web-shop"}},
		Bindings: []Binding{
			{Principal: "eve", Role: Deployer, Project: "p", Expires: at.Add(-time.Hour)},
			{Principal: "eve", Role: Deployer, Project: "p", Destructive: true, Expires: at},
			{Principal: "bob", Role: Viewer, Project: "p"},
		},
	}
	const want, again = "the role deployer of eve on web-shop expired at 2026-03-01 12:00:00", "writ user add eve --role deployer --project web-shop --destructive"
	_, reads := r.rightsOf("eve", at, proof{userVerified: true}).readable()
	for name, err := range map[string]error{"Submit": r.Allows("eve", ActionSubmit, "p", at), "Read": reads} {
		e := writ.AsError(err)
		if e == nil || e.Code != writ.CodeRoleMissing || e.Message != want || !strings.HasSuffix(e.Hint, again) {
			t.Errorf("%s: %+v, want %s", name, e, want)
		}
	}
	if err := r.Allows("eve", ActionSubmit, "p", at.Add(-time.Second)); err != nil {
		t.Errorf("before it expires: %v", err)
	}
	if err := writ.AsError(r.Allows("bob", ActionSubmit, "p", at)); err == nil || strings.Contains(err.Message, "expired") {
		t.Errorf("a role that never was: %v", err)
	}
}
