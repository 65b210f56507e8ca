package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"writ"
	"writ/identity/envelope"
)

// Validity of certificates.
const (
	// Backdate is how long before its creation a certificate becomes valid, for peers with slow clocks.
	Backdate = time.Hour

	authorityLife = 2 * Life // certificates issued in the first half get their full validity
)

// delegationOID identifies the extension with the delegation. It is a random number under the arc 2.25, where no
// registration is necessary.
var delegationOID = asn1.ObjectIdentifier{2, 25, 1467299041}

// delegation is signed by the owner's key in the roster. It names the key that may issue certificates for the owner,
// and its validity.
type delegation struct {
	Cluster     writ.ClusterID    `json:"cluster"`
	Datacenter  writ.DatacenterID `json:"datacenter,omitempty"`
	Coordinator string            `json:"coordinator,omitempty"`
	Key         []byte            `json:"key"`
	From        int64             `json:"from"` // unix milliseconds, like Until and Floor
	Until       int64             `json:"until"`
	// Floor revokes the owner's authorities that were created before it.
	Floor int64 `json:"floor,omitempty"`
}

func (d *delegation) owner() owner { return owner{d.Cluster, d.Datacenter, d.Coordinator} }

// authority issues certificates for one owner. Its key is kept only in memory.
type authority struct {
	owner  owner
	key    ed25519.PrivateKey
	parsed *x509.Certificate
	from   time.Time // start of the delegation
	made   time.Time // by the local clock; before floor if the clock was set back
	until  time.Time
}

// mayIssue reports whether a certificate issued now would be valid, and for the full Life.
func (a *authority) mayIssue(now time.Time) bool {
	return !now.Before(a.from) && now.Before(a.made.Add(authorityLife/2))
}

// newAuthority creates an authority with a delegation by the owner's key in the roster. Authorities created before
// floor are revoked.
func newAuthority(root ed25519.PrivateKey, of owner, floor, now time.Time) (*authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of an authority: %w", err)
	}
	begin := now
	if begin.Before(floor) { // the clock was set back, and peers reject an authority that begins before floor
		begin = floor
	}
	a := &authority{
		owner: of, key: key, from: begin.Add(-Backdate), made: now, until: now.Add(authorityLife),
	}
	d := delegation{
		Cluster: of.Cluster, Datacenter: of.Datacenter, Coordinator: of.Coordinator, Key: public,
		From: a.from.UnixMilli(), Until: a.until.UnixMilli(),
	}
	if !floor.IsZero() {
		d.Floor = floor.UnixMilli()
	}
	signed, err := envelope.Sign(envelope.Authority, root, d)
	if err != nil {
		return nil, fmt.Errorf("delegate to an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "writ authority"}, NotBefore: now.Add(-Backdate),
		NotAfter: a.until,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtraExtensions: []pkix.Extension{{Id: delegationOID, Value: signed}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	if a.parsed, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the certificate of an authority: %w", err)
	}
	return a, nil
}

// usages lists the extended key usages of each role.
var usages = map[Role][]x509.ExtKeyUsage{
	Coordinator: {x509.ExtKeyUsageServerAuth},
	Supervisor:  {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	Redis:       {x509.ExtKeyUsageServerAuth},
	Node:        {x509.ExtKeyUsageClientAuth},
}

// issue returns the certificate chain for a key: the certificate and the authority's certificate.
func (a *authority) issue(name Name, key ed25519.PublicKey, hosts []string, now time.Time) ([][]byte, error) {
	if !name.valid() || name.owner() != a.owner {
		return nil, fmt.Errorf("an authority of %v issues no certificates for %s", a.owner, name)
	}
	until := now.Add(Life)
	if until.After(a.until) {
		until = a.until
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "writ " + string(name.Role)},
		NotBefore: now.Add(-Backdate), NotAfter: until,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages[name.Role],
		URIs: []*url.URL{name.URI()},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", name, err)
	}
	return [][]byte{der, a.parsed.Raw}, nil
}

// serial returns 127 random bits, a positive number in every encoding.
func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}
