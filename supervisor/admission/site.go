// Package admission decides which nodes belong to a datacenter. It admits nodes with a token, by a batch or after a
// signed statement. It signs their memberships, maintains their accounts at the queue, and fences nodes that were
// removed as lost. Package decision carries out the signed decisions; Site.Apply then updates the state of this
// package.
package admission

import (
	"crypto/ed25519"
	"log/slog"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/limit"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// Site holds the dependencies that the parts of the package share.
type Site struct {
	Datacenter writ.DatacenterID
	Cluster    writ.ClusterID
	Key        ed25519.PrivateKey
	Epoch      int64
	Journal    *journal.Journal
	Roster     func() *identity.Roster // roster in force
	Verifier   func() *identity.Verifier
	Fleet      *fleet.Fleet
	Pending    *Pending
	Accounts   *Accounts
	Refusals   *limit.Lines     // rate limit of log lines about refusals
	Now        func() time.Time // wall clock
	Log        *slog.Logger
}

// Apply applies a decision about a node after its commit to the journal.
func (s *Site) Apply(n journal.Node) {
	s.Fleet.Members.Put(n)
	s.Pending.Remove(n.ID)
	s.Accounts.Refresh()
}

// membership signs the membership of node n as an envelope of the given kind, bound to nonce.
func (s *Site) membership(kind envelope.Kind, n *journal.Node, nonce []byte) ([]byte, error) {
	roster := s.Roster()
	digest, err := roster.Digest()
	if err != nil {
		return nil, err
	}
	m := nodes.Membership{
		Node: n.ID, Name: n.Name, Key: n.PublicKey, Admission: n.Admission, Cluster: s.Cluster, Datacenter: s.Datacenter,
		Epoch: s.Epoch, Roster: roster.Version, Digest: digest, Nonce: nonce, Made: s.Now().UnixMilli(),
	}
	if kind == envelope.Fence { // earlier nodes reject the field in other kinds
		m.Lost = n.Lost
	}
	return envelope.Sign(kind, s.Key, m)
}
