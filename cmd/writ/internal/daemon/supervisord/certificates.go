package supervisord

import (
	"time"

	"writ"
	"writ/identity/pki"
	"writ/supervisor/decision"
)

// certificates lists and rotates the certificates of a datacenter: of its supervisor, and of its Redis if the
// supervisor issues it.
type certificates struct {
	issuer *pki.Issuer
	redis  *redisTLS // nil if Redis has no certificate, or a certificate of another issuer
}

var _ decision.CertificateIssuer = certificates{}

// List implements decision.CertificateIssuer.
func (c certificates) List() ([]writ.Certificate, error) {
	own, err := c.issuer.Describe(nil)
	if err != nil {
		return nil, err
	}
	all := []writ.Certificate{own}
	if c.redis == nil || c.redis.shown() == nil {
		return all, nil
	}
	ofRedis, err := c.issuer.Describe(c.redis.shown())
	return append(all, ofRedis), err
}

// Rotate implements decision.CertificateIssuer.
func (c certificates) Rotate(floor time.Time) {
	c.issuer.Rotate(floor)
	if c.redis != nil {
		c.redis.again()
	}
}
