package queue

import (
	"context"

	"writ"
)

// Accounts manages access to a transport with authentication. The account of a node permits access to the node's own
// queue and streams only.
type Accounts interface {
	// User returns the name of a node's account.
	User(node writ.NodeID) string
	// Apply makes the accounts with these passwords the only accounts of nodes: it creates missing accounts, changes
	// passwords, and removes all other accounts together with their connections. Correct accounts are unchanged. The
	// error wraps errors.ErrUnsupported if this transport has no accounts or does not permit changing them. Other
	// errors are as for Queue.
	Apply(ctx context.Context, passwords map[writ.NodeID]string) error
	// Instance returns a text that changes when the transport may have lost the accounts and streams, because it was
	// restarted or emptied.
	Instance(ctx context.Context) (string, error)
	// Survey checks the data that nodes sent since the last call, and a part of the stored data of each node, and returns
	// the offences. Several calls may be needed to find a node that is over its budget.
	Survey(ctx context.Context) ([]Finding, error)
	// Clear deletes all data of a node in the transport. The senders send the deleted data again once they detect the
	// loss.
	Clear(ctx context.Context, node writ.NodeID) error
}

// Budget of one node in the transport.
const (
	BudgetBytes   = 64 << 20
	BudgetEntries = 200_000
	BudgetKeys    = 20_000 // for transports with one key per waiting job; an honest node has fewer than half of this
	// BudgetConnections limits the connections of a node. It applies only while the connections for other nodes may run
	// out.
	BudgetConnections = 64
)

// Offence is a forbidden action of a node in the transport.
type Offence string

// Offences.
const (
	OverBudget Offence = "over budget"    // the node stores more than its budget
	Oversize   Offence = "oversize"       // the node sent messages that were dropped unread
	WrongType  Offence = "wrong type"     // a key of the node's queue had another type and was replaced
	TooFast    Offence = "sends too fast" // the node's messages are read with a delay
	TooMany    Offence = "connections"    // more than BudgetConnections, when other nodes may need them
)

// Finding is an offence of a node.
type Finding struct {
	Node    writ.NodeID
	Offence Offence
	Count   int64  // number of messages or entries
	Bytes   int64  // total size, as far as known
	What    string // details, or ""
}
