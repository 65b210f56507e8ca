package daemontest

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"

	"writ"
	"writ/supervisor/nodes"
)

// NodeAPI is the backend of a node API with fixed rosters and one node.
type NodeAPI struct {
	nodes.Backend
	Signed [][]byte // its rosters
	Node   writ.Node
	Key    ed25519.PublicKey
}

// Rosters returns the rosters after a version.
func (s *NodeAPI) Rosters(_ context.Context, after int) ([][]byte, error) {
	return s.Signed[after:], nil
}

// Gone returns false: no node was declared lost.
func (s *NodeAPI) Gone(writ.NodeID) bool { return false }

// RosterPage returns all rosters as one page.
func (s *NodeAPI) RosterPage(after int) (start, newest int) { return after, len(s.Signed) }

// Account returns the same account for each node.
func (s *NodeAPI) Account(context.Context, writ.NodeID, []byte) ([]byte, error) {
	return []byte("account"), nil
}

// Member returns Node for Key, and nil for any other key.
func (s *NodeAPI) Member(key ed25519.PublicKey) *writ.Node {
	if !key.Equal(s.Key) {
		return nil
	}
	return &s.Node
}

// AcceptAll accepts every client of a node API.
func AcceptAll([]*x509.Certificate) error { return nil }
