// Package nodetrust verifies the servers of a datacenter for a node: the node API of its supervisors, and Redis. Before
// the node has a roster, it trusts the cluster that its token or its settings name.
package nodetrust

import (
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/pki"
	"writ/runner/member"
)

// Trust verifies the supervisor of a node. Before the node has joined, it uses the rosters that lead from the token
// or the cluster's id to the supervisor. Then it uses the member's rosters.
type Trust struct {
	log        *slog.Logger
	own        *tls.Certificate // certificate of the node's key
	anchor     identity.Anchor
	datacenter writ.DatacenterID // "" if not known yet

	floors pki.Floors       // which authorities of the supervisor and of Redis are revoked; both share one list
	now    func() time.Time // clock for verifying certificates; time.Now if nil

	mu     sync.Mutex
	early  identity.RosterChain
	member *member.Member
}

var _ transport.Rosters = (*Trust)(nil)

// New returns the trust of a node that has not joined: in the cluster of its token, or in cluster if token is "". key
// is the node's key.
func New(key ed25519.PrivateKey, token string, cluster writ.ClusterID, log *slog.Logger) (*Trust, error) {
	own, err := pki.Bare(key)
	if err != nil {
		return nil, err
	}
	t := &Trust{own: own, log: log, anchor: identity.Anchor{Cluster: cluster}}
	if token == "" {
		return t, nil
	}
	parsed, err := identity.ParseToken(token)
	if err != nil {
		return nil, err
	}
	t.anchor, t.datacenter = identity.Anchor{
		Cluster: parsed.Pin, Version: parsed.Roster, Digest: parsed.RosterDigest,
	}, parsed.Datacenter
	return t, nil
}

// Client returns a client for the node API that accepts only the supervisor. It presents the node's key.
func (t *Trust) Client() *http.Client {
	return &http.Client{Transport: &transport.Transport{
		Rosters: t, Anchor: t.anchor, Want: t.supervisor, Fetch: transport.FromSupervisor,
		Own: func() (*tls.Certificate, error) { return t.own, nil }, Floors: &t.floors, Now: t.now, Version: t.version,
	}}
}

// Joined switches to the rosters of a member. It stores later revocations of certificates for the next start.
func (t *Trust) Joined(m *member.Member) {
	t.mu.Lock()
	t.member, t.early, t.datacenter = m, identity.RosterChain{}, m.Datacenter()
	t.mu.Unlock()
	var kept []pki.Floor
	if floor := m.State().Floor; floor != nil {
		kept = append(kept, *floor)
	}
	t.floors.Keep(m.Roster().Cluster, kept, func(floor pki.Floor) {
		if err := m.KeepFloor(floor); err != nil {
			t.log.Warn("store the list of revoked certificates", "err", err)
		}
	})
}

// Redis verifies the certificate of Redis. It must belong to the datacenter, or be issued for the host name by an
// authority of the operating system.
func (t *Trust) Redis(host string, s tls.ConnectionState) error {
	v := transport.Verifier{Rosters: t, Floors: &t.floors, PublicNames: true, Now: t.now,
		Want: func(*identity.Roster) pki.Name {
			return pki.Name{Role: pki.Redis, Datacenter: t.supervisor(nil, "").Datacenter}
		}}
	return v.Verify(host, s.PeerCertificates)
}

// supervisor returns the expected name: the supervisor of the datacenter at any address.
func (t *Trust) supervisor(*identity.Roster, string) pki.Name {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pki.Name{Role: pki.Supervisor, Datacenter: t.datacenter}
}

// Latest implements transport.Rosters.
func (t *Trust) Latest() (*identity.Roster, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.member != nil {
		return t.member.Roster(), nil
	}
	return t.early.Newest, nil
}

// version returns the version of the newest roster, 0 without one.
func (t *Trust) version() int {
	if r, err := t.Latest(); r != nil && err == nil {
		return r.Version
	}
	return 0
}

// Add implements transport.Rosters.
func (t *Trust) Add(signed ...[]byte) (*identity.Roster, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.member != nil {
		err := t.member.Adopt(signed)
		return t.member.Roster(), err
	}
	chain, err := t.early.Extend(t.anchor.Cluster, signed, time.Now())
	if err == nil {
		t.early = chain
	}
	return t.early.Newest, err
}
