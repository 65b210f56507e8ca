package rosters

import (
	"context"

	"writ"
	"writ/identity"
)

// Verifier returns a verifier with the newest roster. The coordinator checks signed texts with it before it stores or
// forwards them; the supervisor verifies them again.
func (s *Store) Verifier(ctx context.Context) (*identity.Verifier, error) {
	roster, err := s.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return &identity.Verifier{
		Roster: roster,
		Now:    s.Now,
		ProjectOf: func(id writ.RunID) (writ.ProjectID, error) {
			run, err := s.Ledger.Run(ctx, id)
			return run.Project, err
		},
		Forked: func(signer string, err error) {
			if s.forks.First(err) {
				s.Log.Error("two rosters of one version exist", "signer", signer, "code", writ.CodeOf(err), "err", err)
			}
		},
	}, nil
}

// CertificateOf returns the certificate that signed a submission, nil if it was signed by a plain key.
func (s *Store) CertificateOf(ctx context.Context, signed []byte) (*identity.Certificate, error) {
	roster, err := s.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return identity.CertificateOf(roster, signed)
}

// DatacenterName returns the name of a datacenter in the newest roster, or its id.
func (s *Store) DatacenterName(id writ.DatacenterID) string {
	return identity.DatacenterName(s.current.Load(), id)
}

// ProjectName returns the name of a project in the newest roster, or its id.
func (s *Store) ProjectName(id writ.ProjectID) string {
	return identity.ProjectName(s.current.Load(), id)
}
