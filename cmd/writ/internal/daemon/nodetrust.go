package daemon

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
	"writ/runner"
)

// nodeTrust is what a node knows of the supervisor that it talks to. Until it has joined, these are the rosters that led from its token, or from the
// id of its cluster, to the supervisor; then they are those of the member.
type nodeTrust struct {
	log        *slog.Logger
	own        *tls.Certificate // of the node's key
	anchor     identity.Anchor
	datacenter writ.DatacenterID // "" if the node does not know where it will belong

	floors pki.Floors       // of the supervisor and of Redis: their certificates end together
	now    func() time.Time // of the certificates of others; time.Now if nil

	mu     sync.Mutex
	early  identity.RosterChain
	member *runner.Member
}

var _ transport.Rosters = (*nodeTrust)(nil)

// newNodeTrust begins with a token, or without one with a cluster. The node has the key.
func newNodeTrust(key ed25519.PrivateKey, token string, cluster writ.ClusterID, log *slog.Logger) (*nodeTrust, error) {
	own, err := pki.Bare(key)
	if err != nil {
		return nil, err
	}
	t := &nodeTrust{own: own, log: log, anchor: identity.Anchor{Cluster: cluster}}
	if token == "" {
		return t, nil
	}
	parsed, err := identity.ParseToken(token)
	if err != nil {
		return nil, err
	}
	t.anchor, t.datacenter = identity.Anchor{Cluster: parsed.Pin, Version: parsed.Roster, Digest: parsed.RosterDigest}, parsed.Datacenter
	return t, nil
}

// client reaches the node API, and nothing that is not the supervisor's. It shows the node's key there.
func (t *nodeTrust) client() *http.Client {
	return &http.Client{Transport: &transport.Transport{
		Rosters: t, Anchor: t.anchor, Want: t.supervisor, Fetch: transport.FromSupervisor,
		Own: func() (*tls.Certificate, error) { return t.own, nil }, Floors: &t.floors, Now: t.now, Version: t.version,
	}}
}

// joined says that the node is a member. What it sees of ended certificates is kept, for its next start.
func (t *nodeTrust) joined(m *runner.Member) {
	t.mu.Lock()
	t.member, t.early, t.datacenter = m, identity.RosterChain{}, m.Datacenter()
	t.mu.Unlock()
	var kept []pki.Floor
	if floor := m.Floor(); floor != nil {
		kept = append(kept, *floor)
	}
	t.floors.Keep(m.Roster().Cluster, kept, func(floor pki.Floor) {
		if err := m.KeepFloor(floor); err != nil {
			t.log.Warn("store the list of revoked certificates", "err", err)
		}
	})
}

// redis decides about the Redis that answers: it must be that of the datacenter or, if it shows a certificate of no cluster, have one for its name
// by an authority of this system.
func (t *nodeTrust) redis(host string, s tls.ConnectionState) error {
	v := transport.Verifier{Rosters: t, Floors: &t.floors, PublicNames: true, Now: t.now, Want: func(*identity.Roster) pki.Name {
		return pki.Name{Role: pki.Redis, Datacenter: t.supervisor(nil, "").Datacenter}
	}}
	return v.Verify(host, s.PeerCertificates)
}

// supervisor wants the supervisor of the datacenter, wherever it is.
func (t *nodeTrust) supervisor(*identity.Roster, string) pki.Name {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pki.Name{Role: pki.Supervisor, Datacenter: t.datacenter}
}

// Latest implements transport.Rosters.
func (t *nodeTrust) Latest() (*identity.Roster, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.member != nil {
		return t.member.Roster(), nil
	}
	return t.early.Newest, nil
}

// version is that of the newest roster, 0 if there is none.
func (t *nodeTrust) version() int {
	if r, err := t.Latest(); r != nil && err == nil {
		return r.Version
	}
	return 0
}

// Add implements transport.Rosters.
func (t *nodeTrust) Add(signed ...[]byte) (*identity.Roster, error) {
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
