package queue

import (
	"context"

	"writ"
)

// Accounts lets nodes into a transport that knows who is who: each has an account with which it reaches its own queue and streams and
// nothing else.
type Accounts interface {
	// User returns the name of a node's account.
	User(node writ.NodeID) string
	// Settle makes the accounts of nodes be these: it makes those that are missing or have another password, and removes all others, with
	// the connections that use them. What is right already stays untouched. The error wraps errors.ErrUnsupported if this transport has
	// no accounts or does not let us make any; else it is as those of Queue.
	Settle(ctx context.Context, passwords map[writ.NodeID]string) error
}
