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

// Times of certificates.
const (
	// Backdate is how far before its making a certificate begins, for peers whose clocks are late.
	Backdate = time.Hour

	authorityLife = 2 * Life // so that what it issues in its first half has all of its time
)

// delegationOID marks the extension with the delegation: 2.25, the arc of numbers that anybody may draw, and one that was drawn for writ.
var delegationOID = asn1.ObjectIdentifier{2, 25, 1467299041}

// delegation is what the key in the roster signs: which key may issue certificates for its owner, and for how long.
type delegation struct {
	Cluster     writ.ClusterID    `json:"cluster"`
	Datacenter  writ.DatacenterID `json:"datacenter,omitempty"`
	Coordinator string            `json:"coordinator,omitempty"`
	Key         []byte            `json:"key"`
	From        int64             `json:"from"` // unix milliseconds, as the others
	Until       int64             `json:"until"`
	// Floor ends the authorities of the owner that were made before it.
	Floor int64 `json:"floor,omitempty"`
}

func (d *delegation) owner() owner { return owner{d.Cluster, d.Datacenter, d.Coordinator} }

// authority issues certificates for one owner. Its key is never written down.
type authority struct {
	owner  owner
	key    ed25519.PrivateKey
	parsed *x509.Certificate
	made   time.Time
	until  time.Time
}

// newAuthority makes an authority to which the owner's key in the roster delegates. Those that were made before floor end.
func newAuthority(root ed25519.PrivateKey, of owner, floor, now time.Time) (*authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of an authority: %w", err)
	}
	made := now
	if made.Before(floor) { // the clock went back since
		made = floor
	}
	a := &authority{owner: of, key: key, made: now, until: now.Add(authorityLife)}
	d := delegation{
		Cluster: of.Cluster, Datacenter: of.Datacenter, Coordinator: of.Coordinator, Key: public, From: made.Add(-Backdate).UnixMilli(), Until: a.until.UnixMilli(),
	}
	if !floor.IsZero() {
		d.Floor = floor.UnixMilli()
	}
	signed, err := envelope.Sign(envelope.Authority, root, d)
	if err != nil {
		return nil, fmt.Errorf("delegate to an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "writ authority"}, NotBefore: now.Add(-Backdate), NotAfter: a.until,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
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

// usages says what a role does with its certificate.
var usages = map[Role][]x509.ExtKeyUsage{
	Coordinator: {x509.ExtKeyUsageServerAuth},
	Supervisor:  {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	Redis:       {x509.ExtKeyUsageServerAuth},
	Node:        {x509.ExtKeyUsageClientAuth},
}

// issue returns the chain of a certificate for the owner of a key: itself and the authority's.
func (a *authority) issue(name Name, key ed25519.PublicKey, hosts []string, now time.Time) ([][]byte, error) {
	if !name.valid() || name.owner() != a.owner {
		return nil, fmt.Errorf("an authority of %v issues nothing for %s", a.owner, name)
	}
	until := now.Add(Life)
	if until.After(a.until) {
		until = a.until
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "writ " + string(name.Role)}, NotBefore: now.Add(-Backdate), NotAfter: until,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages[name.Role], URIs: []*url.URL{name.URI()},
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

// serial returns 127 random bits: positive in every encoding.
func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}
