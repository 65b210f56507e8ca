package admission

import (
	"context"
	"crypto/ed25519"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// Directory answers questions about the membership of decided and pending nodes.
type Directory struct{ site *Site }

// NewDirectory returns the directory of a datacenter.
func NewDirectory(site *Site) *Directory { return &Directory{site} }

// Node returns the record of a decided or pending node, or nil if the node is unknown.
func (d *Directory) Node(node writ.NodeID) *journal.Node {
	if n := d.site.Fleet.Members.Record(node); n != nil {
		return n
	}
	return d.site.Pending.Get(node)
}

// Member implements nodes.Members.
func (d *Directory) Member(key ed25519.PublicKey) *writ.Node {
	n := d.Node(nodeIDOf(d.site.Datacenter, key))
	if n == nil || !key.Equal(ed25519.PublicKey(n.PublicKey)) {
		n = d.site.Fleet.Members.ByKey(key) // the id of an older record was derived in another way
	}
	if n == nil {
		return nil
	}
	return &n.Node
}

// Gone implements nodes.Members.
func (d *Directory) Gone(node writ.NodeID) bool {
	known := d.site.Fleet.Members.Record(node)
	return known != nil && known.Gone
}

// Standing implements nodes.Backend.
func (d *Directory) Standing(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	n := d.Node(node)
	if n == nil {
		return nil, unknownNode(node)
	}
	return d.site.membership(envelope.Standing, n, nonce)
}

// Account implements nodes.Backend.
func (d *Directory) Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error) {
	n := d.Node(node)
	if n == nil {
		return nil, unknownNode(node)
	}
	if err := nodes.Admitted(&n.Node); err != nil {
		return nil, err
	}
	return d.site.Accounts.Of(ctx, n, asked)
}

func checkNonce(nonce []byte) error {
	if len(nonce) != identity.NonceSize {
		return writ.Errorf(writ.CodeBadRequest, "a nonce has %d bytes", identity.NonceSize)
	}
	return nil
}

func unknownNode(node writ.NodeID) error {
	return writ.Errorf(writ.CodeNotFound, "unknown node %s", node)
}
