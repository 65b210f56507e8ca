package pki

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
)

// Verifier identifies the owner of a certificate with a roster only. Set Roster and Now.
type Verifier struct {
	Roster *identity.Roster
	Now    time.Time
	Floors *Floors // revocations seen so far, see Floor; nil remembers none
}

// Name returns the owner of the first certificate in a chain. The errors are CERTIFICATE_UNTRUSTED if no key of the
// roster delegates to the issuer, WRONG_CLUSTER, CERTIFICATE_EXPIRED, CERTIFICATE_NOT_YET_VALID, and
// CERTIFICATE_REVOKED if the authority was replaced.
func (v *Verifier) Name(chain []*x509.Certificate) (Name, error) {
	if len(chain) != 2 {
		return Name{}, untrusted("it is not a certificate of writ")
	}
	leaf, issuer := chain[0], chain[1]
	name, err := nameIn(leaf)
	if err != nil {
		return Name{}, err
	}
	if name.Cluster != v.Roster.Cluster {
		return Name{}, writ.Errorf(writ.CodeWrongCluster, "it is the certificate of a %s of the cluster %s", name.Role,
			name.Cluster).
			WithHint("check the address, and which context is current (`writ context list`)")
	}
	d, err := v.delegated(issuer, name)
	if err != nil {
		return Name{}, err
	}
	if err := issuer.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature); err != nil {
		return Name{}, untrusted("its authority did not issue it")
	}
	for _, times := range [][2]time.Time{
		{leaf.NotBefore, leaf.NotAfter}, {time.UnixMilli(d.From), time.UnixMilli(d.Until)},
	} {
		if err := v.within(name, times[0], times[1]); err != nil {
			return Name{}, err
		}
	}
	made := d.From + Backdate.Milliseconds()
	// An authority revokes only earlier authorities. A floor after the authority's creation would also revoke its
	// successors, so the floor is capped at the creation.
	if ended := v.Floors.raise(name.owner(), v.rootOf(name.owner()), min(d.Floor, made)); made < ended {
		return Name{}, writ.Errorf(writ.CodeCertificateRevoked,
			"the authority that issued the certificate of the %s was replaced", name.Role).
			WithHint("it renews its certificate automatically; otherwise restart it")
	}
	return name, nil
}

// Is checks that a chain belongs to the expected peer: the role must match, and so must the datacenter and the id
// unless they are empty. It returns the errors of Name, or CERTIFICATE_ROLE.
func (v *Verifier) Is(want Name, chain []*x509.Certificate) error {
	have, err := v.Name(chain)
	if err != nil {
		return err
	}
	if have.Role != want.Role || want.Datacenter != "" && have.Datacenter != want.Datacenter || want.ID != "" &&
		have.ID != want.ID {
		return writ.Errorf(writ.CodeCertificateRole, "the peer must be a %s, but it is %s", want.Role,
			v.describe(have)).
			WithHint("check the address")
	}
	return nil
}

// describe formats a peer for people.
func (v *Verifier) describe(n Name) string {
	if n.Role == Coordinator {
		return "the coordinator " + v.Roster.Coordinator(n.ID).Name
	}
	of := v.Roster.Datacenter(n.Datacenter).Name
	if n.Role == Node {
		return fmt.Sprintf("the node %s of %s", n.ID, of)
	}
	return fmt.Sprintf("the %s of %s", n.Role, of)
}

// nameIn returns the name in a certificate.
func nameIn(leaf *x509.Certificate) (Name, error) {
	if len(leaf.URIs) != 1 {
		return Name{}, untrusted("it is not a certificate of writ")
	}
	name, ok := parseName(leaf.URIs[0])
	switch {
	case !ok:
		return Name{}, untrusted("it is not a certificate of writ")
	case leaf.IsCA || len(leaf.UnhandledCriticalExtensions) > 0 || len(leaf.EmailAddresses) > 0 ||
		!slices.Equal(leaf.ExtKeyUsage, usages[name.Role]):
		return Name{}, untrusted("it is for another use")
	}
	return name, nil
}

// delegated returns the delegation in the certificate of an authority. The owner of the name must have signed it for
// that authority.
func (v *Verifier) delegated(issuer *x509.Certificate, name Name) (*delegation, error) {
	root := v.rootOf(name.owner())
	if root == nil {
		return nil, untrusted("the roster does not contain its owner")
	}
	var signed []byte
	for _, e := range issuer.Extensions {
		if e.Id.Equal(delegationOID) {
			signed = e.Value
		}
	}
	if signed == nil {
		return nil, untrusted("no key of the roster delegates to its authority")
	}
	all, _, err := envelope.Open[delegation](envelope.Authority, signed, envelope.Only(root))
	if err != nil {
		return nil, untrusted("no key of the roster delegates to its authority")
	}
	d := all[0]
	key, _ := issuer.PublicKey.(ed25519.PublicKey)
	if len(all) != 1 || d.owner() != name.owner() || !key.Equal(ed25519.PublicKey(d.Key)) {
		return nil, untrusted("its authority presents the delegation of another authority")
	}
	return &d, nil
}

// rootOf returns the key of an owner in the roster, or nil.
func (v *Verifier) rootOf(o owner) ed25519.PublicKey {
	if o.Coordinator != "" {
		if c := v.Roster.Coordinator(o.Coordinator); c != nil {
			return c.Key
		}
		return nil
	}
	if d := v.Roster.Datacenter(o.Datacenter); d != nil {
		return d.SupervisorKey
	}
	return nil
}

// within checks that the current time is between `from` and `until`.
func (v *Verifier) within(name Name, from, until time.Time) error {
	now := v.Now
	switch {
	case now.Before(from):
		return writ.Errorf(writ.CodeCertificateNotYetValid,
			"the certificate of the %s begins at %s, and the clock of this machine shows %s: one of the clocks is wrong by %s or more",
			name.Role, clock(from), clock(now), from.Sub(now).Round(time.Minute)).
			WithHint("set the clock of this machine or of the peer")
	case !now.Before(until):
		return writ.Errorf(writ.CodeCertificateExpired,
			"the certificate of the %s ended at %s, and the clock of this machine shows %s", name.Role, clock(until),
			clock(now)).
			WithHint("compare the clocks of both machines; if they are right, restart the peer, which renews the certificate")
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

func untrusted(why string) *writ.Error {
	return writ.Errorf(writ.CodeCertificateUntrusted, "the certificate of the peer is not trusted: %s", why).
		WithHint("check the address, and whether a proxy answers in its place")
}

// Floors stores the highest floor of each owner: the time before which its authorities are revoked. The zero value is
// empty and ready to use. A nil Floors stores no floors.
type Floors struct {
	mu   sync.Mutex
	seen map[floored]int64
	keep func(Floor)
}

// Floor revokes the authorities of a supervisor's key that were created before Time.
type Floor struct {
	Datacenter writ.DatacenterID `json:"datacenter"`
	Key        []byte            `json:"key"`  // supervisor's key in the roster; a new key has its own floor
	Time       int64             `json:"time"` // unix milliseconds
}

type floored struct {
	owner
	key string
}

// Keep adds stored floors, and calls `keep` for each later increase of a datacenter's floor. Calls of `keep` are
// sequential.
func (f *Floors) Keep(cluster writ.ClusterID, kept []Floor, keep func(Floor)) {
	for _, k := range kept {
		f.raise(owner{Cluster: cluster, Datacenter: k.Datacenter}, k.Key, k.Time)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep = keep
}

// raise records a floor of an owner's key, and returns the highest known floor, in unix milliseconds.
func (f *Floors) raise(of owner, key ed25519.PublicKey, floor int64) int64 {
	if f == nil {
		return floor
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := floored{of, string(key)}
	if floor > f.seen[at] {
		if f.seen == nil {
			f.seen = make(map[floored]int64)
		}
		f.seen[at] = floor
		if f.keep != nil && of.Datacenter != "" {
			f.keep(Floor{of.Datacenter, key, floor})
		}
	}
	return f.seen[at]
}

// Server returns a TLS configuration for a listener. verify checks the certificate of each client that presents one. If
// verify is nil, the server requests no certificates. Sessions are not resumed, so every connection is verified.
func Server(own func() (*tls.Certificate, error), verify func(chain []*x509.Certificate) error) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own() },
	}
	if verify != nil {
		c.ClientAuth = tls.RequestClientCert
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil
			}
			return verify(s.PeerCertificates)
		}
	}
	return c
}

// Client returns a TLS configuration for outgoing connections. verify checks each server. `own` returns this process's
// certificate; it may be nil. The configuration offers Marker, so that a coordinator with a certificate for browsers
// presents its certificate for writ.
func Client(verify func(chain []*x509.Certificate) error, own func() (*tls.Certificate, error)) *tls.Config {
	c := &tls.Config{
		// verify replaces the verification that InsecureSkipVerify turns off: host names and the system's authorities
		// do not apply.
		MinVersion: tls.VersionTLS13, NextProtos: offered(), InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error { return verify(s.PeerCertificates) },
	}
	if own != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	}
	return c
}
