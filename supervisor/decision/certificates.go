package decision

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// CertificateIssuer holds the TLS certificates that a supervisor uses and issues in its datacenter.
type CertificateIssuer interface {
	// List returns the current certificates.
	List() ([]writ.Certificate, error)
	// Rotate replaces the certificates by new ones of a new authority. A peer that has seen a new certificate rejects
	// the certificates of authorities that were created before floor. Calling Rotate again with the same floor is
	// allowed.
	Rotate(floor time.Time)
}

// Certificates rotates the certificates of a datacenter. All fields but Issuer are required.
type Certificates struct {
	Issuer     CertificateIssuer // nil if the supervisor issues no certificates
	Journal    *journal.Journal
	Answers    *answers.Store
	Datacenter writ.DatacenterID
}

// Rotate carries out a signed statement that invalidates the earlier certificates of this datacenter. It stores the
// floor and the answer in the journal before it replaces the certificates.
func (c *Certificates) Rotate(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	is := v.Statement.DatacenterName // the verifier checked that the roster has it
	switch {
	case v.Statement.ID() != string(c.Datacenter) || v.Statement.Seen.Name != is:
		return link.StatementAnswer{}, writ.Errorf(writ.CodeConflict,
			"the decision is about the datacenter %s, and this datacenter is %s", v.Statement.Seen.Name, is)
	case c.Issuer == nil:
		return link.StatementAnswer{}, writ.Errorf(writ.CodeConflict, "the supervisor of %s issues no certificates", is)
	}
	var answer link.StatementAnswer
	var floor time.Time
	err := c.Journal.Write(failpoint.At(ctx, failpoint.FloorRaised), func(tx *journal.Tx) error {
		floor = tx.Now
		answer = link.StatementAnswer{
			Subject: v.Statement.Subject,
			Done: fmt.Sprintf("%s has new certificates; certificates from before %s are rejected", is,
				floor.UTC().Format(time.RFC3339)),
		}
		if err := tx.SetCertificateFloor(floor); err != nil {
			return err
		}
		return c.Answers.Record(tx, v, &answer)
	})
	if err == nil {
		c.Issuer.Rotate(floor)
	}
	return answer, err
}

// Restore applies the certificate floor of the journal at start. An earlier process, or another supervisor of the
// datacenter, may have rotated the certificates.
func (c *Certificates) Restore(ctx context.Context) error {
	if c.Issuer == nil {
		return nil
	}
	floor, err := journal.Query(ctx, c.Journal, (*journal.Tx).CertificateFloor)
	if err == nil && !floor.IsZero() {
		c.Issuer.Rotate(floor)
	}
	return err
}

// List returns the current certificates, for a coordinator.
func (c *Certificates) List(context.Context) ([]writ.Certificate, error) {
	if c.Issuer == nil {
		return []writ.Certificate{}, nil
	}
	return c.Issuer.List()
}
