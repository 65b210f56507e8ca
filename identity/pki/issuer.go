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

// Issuer is a supervisor or coordinator as the issuer of its own certificate and, if it is a supervisor, of those of its datacenter. It keeps
// nothing: after a restart it delegates to another authority, and what the one before it issued goes on. Fill it in before use.
type Issuer struct {
	Key   ed25519.PrivateKey // that the roster has for it
	Name  Name               // of its own certificate
	Hosts []string           // names and addresses in it, for tools of others
	Now   func() time.Time   // time.Now if nil

	mu        sync.Mutex
	authority *authority
	floor     time.Time // see Rotate
	own       *tls.Certificate
	renewFrom time.Time // of own
}

// Certificate returns the certificate of the issuer itself, a fresh one when two thirds of the life of the last are over.
func (i *Issuer) Certificate() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.own != nil && now.Before(i.renewFrom) {
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
	i.own, i.renewFrom = &tls.Certificate{Certificate: chain, PrivateKey: key}, now.Add(renewAfter(Life))
	return i.own, nil
}

// Describe says what a chain that the issuer issued shows of its owner; that of the issuer itself if it is nil.
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
		Of: string(name.Role), Name: name.String(), From: leaf.NotBefore.Add(Backdate), Until: leaf.NotAfter, Renew: RenewFrom(leaf.NotBefore, leaf.NotAfter),
		Authority: authority.NotBefore.Add(Backdate), Floor: i.floor,
	}, nil
}

// Issue returns the chain of a certificate for the owner of a key, as DER: itself and its authority's. The name must belong to the issuer.
func (i *Issuer) Issue(name Name, key ed25519.PublicKey, hosts ...string) ([][]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.issue(name, key, hosts, i.now())
}

// Rotate makes another authority, and with it another certificate of the issuer. Who sees that refuses all certificates of authorities that were
// made before floor. The floor may be somewhat in the future, because the supervisor that rotated last had a clock that was ahead: peers may have seen it, and what is
// made here is to count there. One so far in the future counts as now: what is made here would not be valid yet.
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
	if i.authority == nil || !now.Before(i.authority.made.Add(authorityLife/2)) {
		next, err := newAuthority(i.Key, i.Name.owner(), i.floor, now)
		if err != nil {
			return nil, err
		}
		i.authority = next
	}
	return i.authority.issue(name, key, hosts, now)
}

func (i *Issuer) now() time.Time {
	if i.Now == nil {
		return time.Now()
	}
	return i.Now()
}

// renewAfter is when a certificate is renewed.
func renewAfter(life time.Duration) time.Duration { return life / 3 * 2 }

// RenewFrom returns from when on a certificate should be renewed: when two thirds of its life are over.
func RenewFrom(notBefore, notAfter time.Time) time.Time {
	made := notBefore.Add(Backdate)
	return made.Add(renewAfter(notAfter.Sub(made)))
}
