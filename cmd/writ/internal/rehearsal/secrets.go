package rehearsal

import (
	"context"
	"fmt"

	"writ"
	"writ/identity"
	"writ/identity/secret"
)

// secretOf identifies a secret of a project.
type secretOf struct {
	project writ.ProjectID
	name    string
}

// secrets gives each secret that a script names a made-up value. It returns the references to sign.
func (s *cluster) secrets(ctx context.Context, project writ.ProjectID, names []string) ([]string, error) {
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

func (s *cluster) setSecret(ctx context.Context, project writ.ProjectID, name string) error {
	roster := s.super.Roster()
	reader, err := secret.ForSupervisor(roster.Datacenter(s.datacenter).SupervisorKey)
	if err != nil {
		return err
	}
	label := secret.Label{Cluster: roster.Cluster, Datacenter: s.datacenter, Project: project, Name: name, Version: 1}
	ciphertext, err := secret.Encrypt("made up for a test: "+name, label, reader)
	if err != nil {
		return err
	}
	return s.decide(ctx, func(statement *identity.Statement) {
		statement.Seen = identity.SeenSecret(project, roster.Project(project).Name, 0)
		identity.SecretChange{Project: project, Name: name, Version: 1, Ciphertext: ciphertext}.Statement(statement)
	})
}
