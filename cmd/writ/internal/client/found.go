package client

import (
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
)

// DefaultProject is the name of the first project and tenant of a new cluster.
const DefaultProject = "default"

// Found creates version 1 of the roster of a new cluster with these coordinators. The signer is its root and only root
// operator, and has all roles in all projects, including the right to destroy data.
func Found(
	signer sshsig.Signer, name string, now time.Time, coordinators ...identity.Coordinator,
) (*identity.Roster, []byte, error) {
	root := signer.PublicKey()
	if _, ok := root.(*ssh.Certificate); ok {
		return nil, nil, writ.Errorf(writ.CodeKeyUnusable, "a certificate cannot be the root of a cluster").
			WithHint("use the plain key")
	}
	created := now.UTC().Truncate(time.Second)
	tenant := identity.Tenant{ID: writ.TenantID(writ.NewUUID()), Name: DefaultProject}
	roster := &identity.Roster{
		Cluster:   identity.ClusterOf(root),
		Version:   1,
		Created:   created,
		Expires:   created.Add(identity.RosterValidity),
		Root:      root,
		Threshold: 1,
		Operators: []string{name},
		Principals: []identity.Principal{{
			Name: name, Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: root, State: identity.Active}},
		}},
		Tenants:  []identity.Tenant{tenant},
		Projects: []identity.Project{{ID: writ.ProjectID(writ.NewUUID()), Name: DefaultProject, Tenant: tenant.ID}},
		Bindings: []identity.Binding{
			{Principal: name, Role: identity.Deployer, Project: identity.AllProjects, Destructive: true},
			{Principal: name, Role: identity.Operator, Project: identity.AllProjects},
			{Principal: name, Role: identity.Admin, Project: identity.AllProjects},
		},
		Coordinators: coordinators,
	}
	signed, err := identity.SignRoster(roster, signer)
	return roster, signed, err
}
