package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"writ"
)

// Issuer issues the certificate of a supervisor or coordinator, and for a supervisor also the other certificates of its
// datacenter. It has no storage: after a restart it delegates to a new authority, and certificates of the previous
// authority stay valid. Set the exported fields before use.
type Issuer struct {
	Key   ed25519.PrivateKey // in the roster
	Name  Name               // of its own certificate
	Hosts []string           // host names and addresses in the certificate, for other tools
	Now   func() time.Time   // time.Now if nil

	mu        sync.Mutex
	authority *authority
	floor     time.Time // see Rotate
	own       *tls.Certificate
	validFrom time.Time // of own
	renewFrom time.Time // when own is due for renewal
}

// Certificate returns the issuer's own certificate. It renews the certificate after two thirds of its validity, and if
// the clock was set back to a time before its validity.
func (i *Issuer) Certificate() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.own != nil && !now.Before(i.validFrom) && now.Before(i.renewFrom) {
		return i.own, nil
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a certificate: %w", err)
	}
	chain, err := i.issue(i.Name, public, i.Hosts, now)
	if err != nil {
		return nil, err
	}
	i.own = &tls.Certificate{Certificate: chain, PrivateKey: key}
	i.validFrom, i.renewFrom = now.Add(-Backdate), now.Add(renewAfter(Life))
	return i.own, nil
}

// Describe returns a description of a chain that the issuer issued, or of its own certificate if chain is nil.
func (i *Issuer) Describe(chain [][]byte) (writ.Certificate, error) {
	if chain == nil {
		own, err := i.Certificate()
		if err != nil {
			return writ.Certificate{}, err
		}
		chain = own.Certificate
	}
	var parsed []*x509.Certificate
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return writ.Certificate{}, fmt.Errorf("describe a certificate: %w", err)
		}
		parsed = append(parsed, c)
	}
	if len(parsed) != 2 {
		return writ.Certificate{}, fmt.Errorf("describe a certificate: there are %d instead of 2", len(parsed))
	}
	leaf, authority := parsed[0], parsed[1]
	name, err := nameIn(leaf)
	if err != nil {
		return writ.Certificate{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return writ.Certificate{
		Of: string(name.Role), Name: name.String(), From: leaf.NotBefore.Add(Backdate), Until: leaf.NotAfter,
		Renew:     RenewFrom(leaf.NotBefore, leaf.NotAfter),
		Authority: authority.NotBefore.Add(Backdate), Floor: i.floor,
	}, nil
}

// Issue returns the chain of a certificate for a key, as DER: the certificate and the authority's certificate. The name
// must belong to the issuer.
func (i *Issuer) Issue(name Name, key ed25519.PublicKey, hosts ...string) ([][]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.issue(name, key, hosts, i.now())
}

// Rotate discards the authority and the issuer's certificate. The next Certificate or Issue creates new ones. Peers
// that see the new certificate reject all certificates of authorities created before floor.
//
// The floor may be slightly in the future if the supervisor that rotated last had a fast clock. Peers may have seen
// that floor, so new authorities must satisfy it. A floor too far in the future counts as now, because new certificates
// would not be valid yet.
func (i *Issuer) Rotate(floor time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.now(); floor.After(now.Add(Backdate)) {
		floor = now
	}
	if floor = floor.Truncate(time.Millisecond); floor.After(i.floor) {
		i.floor = floor
	}
	i.authority, i.own = nil, nil
}

func (i *Issuer) issue(name Name, key ed25519.PublicKey, hosts []string, now time.Time) ([][]byte, error) {
	if i.authority == nil || !i.authority.mayIssue(now) {
		next, err := newAuthority(i.Key, i.Name.owner(), i.floor, now)
		if err != nil {
			return nil, err
		}
		i.authority = next
	}
	return i.authority.issue(name, key, hosts, now)
}

// now returns the time by the wall clock. A monotonic reading would hide that the clock was set, and peers compare the
// times in certificates with their wall clocks.
func (i *Issuer) now() time.Time {
	if i.Now == nil {
		return time.Now().Round(0)
	}
	return i.Now().Round(0)
}

// renewAfter returns the time from the creation of a certificate to its renewal.
func renewAfter(life time.Duration) time.Duration { return life / 3 * 2 }

// RenewFrom returns when a certificate is due for renewal: after two thirds of its validity.
func RenewFrom(notBefore, notAfter time.Time) time.Time {
	made := notBefore.Add(Backdate)
	return made.Add(renewAfter(notAfter.Sub(made)))
}
