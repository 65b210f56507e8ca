package client

import (
	"strings"
	"testing"

	"writ"
	"writ/identity"
)

func TestUnbindRemovesOnlyItsBinding(t *testing.T) {
	shop, all := writ.ProjectID(writ.NewUUID()), identity.AllProjects
	roster := func() *identity.Roster {
		return &identity.Roster{
			Principals: []identity.Principal{{Name: "bob"}, {Name: "carol"}},
			Projects:   []identity.Project{{ID: shop, Name: "shop"}},
			Bindings: []identity.Binding{
				{Principal: "bob", Role: identity.Viewer, Project: shop}, {Principal: "bob", Role: identity.Deployer, Project: shop, Destructive: true},
				{Principal: "bob", Role: identity.Operator, Project: all}, {Principal: "carol", Role: identity.Deployer, Project: shop},
			},
		}
	}
	r := roster()
	if err := Unbind(r, "bob", []identity.Role{identity.Deployer}, []writ.ProjectID{shop}); err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Bindings {
		if b.Principal == "bob" && b.Role == identity.Deployer {
			t.Errorf("bob is still %s", b.Role)
		}
	}
	if len(r.Bindings) != 3 {
		t.Errorf("%d bindings are left, want 3", len(r.Bindings))
	}
	for hint, err := range map[string]error{
		"user list":                         Unbind(roster(), "dave", []identity.Role{identity.Viewer}, []writ.ProjectID{shop}),
		"the roles of each":                 Unbind(roster(), "carol", []identity.Role{identity.Admin}, []writ.ProjectID{all}),
		"--role operator --project '*'":     Unbind(roster(), "bob", []identity.Role{identity.Operator}, []writ.ProjectID{shop}),
		"`writ user list` shows the roles ": Unbind(roster(), "bob", []identity.Role{identity.Viewer, identity.Admin}, []writ.ProjectID{shop}),
	} {
		if writ.CodeOf(err) != writ.CodeNotFound || !strings.Contains(writ.AsError(err).Hint, hint) {
			t.Errorf("%v, want the hint %q", err, hint)
		}
	}
}
