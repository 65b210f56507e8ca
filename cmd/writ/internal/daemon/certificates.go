package daemon

import (
	"time"

	"writ"
	"writ/identity/pki"
	"writ/supervisor"
)

// certificates are those of a datacenter: of its supervisor, and of its Redis if the supervisor issues that.
type certificates struct {
	issuer *pki.Issuer
	redis  *redisTLS // nil if its certificate comes from somewhere else, or if it has none
}

var _ supervisor.Certificates = certificates{}

// List implements supervisor.Certificates.
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

// Rotate implements supervisor.Certificates.
func (c certificates) Rotate(floor time.Time) {
	c.issuer.Rotate(floor)
	if c.redis != nil {
		c.redis.again()
	}
}
