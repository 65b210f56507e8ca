package supervisor

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Certificates are those that a supervisor shows, and issues in its datacenter.
type Certificates interface {
	// List says which there are now.
	List() ([]writ.Certificate, error)
	// Rotate issues others by another authority. Those of authorities that were made before floor count no more with whoever sees one of the others.
	// It may be called with the same floor again.
	Rotate(floor time.Time)
}

// rotate ends the certificates of a datacenter that were issued before, as a statement says.
func (s *Supervisor) rotate(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	is := v.Statement.DatacenterName // the verifier has found it in the roster
	switch {
	case v.Statement.ID() != string(s.Datacenter) || v.Statement.Seen.Name != is:
		return link.StatementAnswer{}, writ.Errorf(writ.CodeConflict, "the decision is about the datacenter %s, and this one is %s", v.Statement.Seen.Name, is)
	case s.Certificates == nil:
		return link.StatementAnswer{}, writ.Errorf(writ.CodeConflict, "the supervisor of %s issues no certificates", is)
	}
	var answer link.StatementAnswer
	var floor time.Time
	err := s.Journal.Write(failpoint.At(ctx, failpoint.FloorRaised), func(tx *journal.Tx) error {
		floor = tx.Now
		answer = link.StatementAnswer{
			Subject: v.Statement.Subject, Done: fmt.Sprintf("%s has new certificates; those from before %s count no more", is, floor.UTC().Format(time.RFC3339)),
		}
		if err := tx.SetCertificateFloor(floor); err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
	if err == nil {
		s.Certificates.Rotate(floor)
	}
	return answer, err
}

// restoreFloor has certificates of this process count where an earlier one, or another one, has ended those from before.
func (s *Supervisor) restoreFloor(ctx context.Context) error {
	if s.Certificates == nil {
		return nil
	}
	var floor time.Time
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		floor, err = tx.CertificateFloor()
		return err
	})
	if err == nil && !floor.IsZero() {
		s.Certificates.Rotate(floor)
	}
	return err
}

// certificates answers the coordinator that asks for them.
func (s *Supervisor) certificates() ([]writ.Certificate, error) {
	if s.Certificates == nil {
		return []writ.Certificate{}, nil
	}
	return s.Certificates.List()
}
