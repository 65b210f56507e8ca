package queue

import (
	"context"

	"writ"
)

// Account is what one node uses to reach its queue.
type Account struct {
	Password string
	Runner   Runner
}

// Runner says what is known of the program of a node.
type Runner int

// The kinds of runners.
const (
	RunnerUnknown Runner = iota // it has not said anything; an account that it has stays as it is
	RunnerOlder                 // built before nodes lost the right to bring scripts to the queue
	RunnerCurrent
)

// Accounts lets nodes into a transport that knows who is who: each has an account with which it reaches its own queue and streams and
// nothing else.
type Accounts interface {
	// User returns the name of a node's account.
	User(node writ.NodeID) string
	// Apply makes the accounts of nodes be these: it makes those that are missing or have another password, and removes all others, with
	// the connections that use them. What is right already stays untouched. The error wraps errors.ErrUnsupported if this transport has
	// no accounts or does not let us make any; else it is as those of Queue.
	Apply(ctx context.Context, accounts map[writ.NodeID]Account) error
	// Survey looks at what nodes put into the transport since the last call, and at a part of what they have there. It returns what they may
	// not. A node that holds more than Budget allows is found within some calls.
	Survey(ctx context.Context) ([]Finding, error)
	// Clear removes everything that a node has in the transport. What is lost is sent again by whoever misses it.
	Clear(ctx context.Context, node writ.NodeID) error
}

// What one node may have in the transport at a time.
const (
	BudgetBytes   = 64 << 20
	BudgetEntries = 200_000
	BudgetKeys    = 20_000 // of a transport that has some: a job that waits is one, and no node has half as many of these
	// BudgetConnections is how many connections a node may have while it is not sure that others get any.
	BudgetConnections = 64
)

// Offence is something that a node must not do to the transport.
type Offence string

// The offences.
const (
	OverBudget Offence = "over budget"    // it has more there than Budget allows
	Oversize   Offence = "oversize"       // it sent messages that were dropped unread
	WrongType  Offence = "wrong type"     // something under a name of its own is not what belongs there; it was replaced
	TooFast    Offence = "sends too fast" // what it sends is read later
	TooMany    Offence = "connections"    // it has more than BudgetConnections, which others may need
)

// Finding is an offence of a node.
type Finding struct {
	Node    writ.NodeID
	Offence Offence
	Count   int64  // of messages or entries
	Bytes   int64  // that they have together, as far as it is known
	What    string // more about it, "" if there is no more to say
}
