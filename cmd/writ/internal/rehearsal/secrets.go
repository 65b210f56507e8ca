package rehearsal

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/secret"
)

// secretOf names a secret of a project.
type secretOf struct {
	project writ.ProjectID
	name    string
}

// secrets lets the datacenter have the secrets that a script names, each with a value made up for the test, and returns what to sign.
func (s *site) secrets(ctx context.Context, project writ.ProjectID, names []string) ([]string, error) {
	var refs []string
	for _, name := range names {
		if of := (secretOf{project, name}); !s.set[of] {
			if err := s.setSecret(ctx, project, name); err != nil {
				return nil, fmt.Errorf("set the secret %s: %w", name, err)
			}
			s.set[of] = true
		}
		refs = append(refs, identity.SecretRef(name, 1))
	}
	return refs, nil
}

func (s *site) setSecret(ctx context.Context, project writ.ProjectID, name string) error {
	roster := s.super.Roster()
	reader, err := secret.ForSupervisor(roster.Datacenter(s.datacenter).SupervisorKey)
	if err != nil {
		return err
	}
	label := secret.Label{Cluster: roster.Cluster, Datacenter: s.datacenter, Project: project, Name: name, Version: 1}
	sealed, err := secret.Seal("made up for a test: "+name, label, reader)
	if err != nil {
		return err
	}
	now := time.Now()
	statement := identity.Statement{
		Cluster: roster.Cluster, Datacenter: s.datacenter, Roster: roster.Version, Signer: personName,
		Created: now, Expires: now.Add(identity.DefaultValidity), Nonce: identity.NewNonce(),
	}
	identity.SecretChange{Project: project, Name: name, Version: 1, Sealed: sealed}.Statement(&statement)
	text, err := statement.Text()
	if err != nil {
		return err
	}
	armored, err := s.person.Sign(identity.StatementNamespace, text)
	if err != nil {
		return err
	}
	_, err = s.super.Decide(ctx, identity.Join(text, armored))
	return err
}
