// Package ledger is the contract of a coordinator's central records: rosters, received submissions, and copies of the
// runs, calls, nodes and resources of the datacenters. The ledger is the source of truth only for rosters and waiting
// submissions. Everything else is a copy that events keep up to date, and datacenters work without it. Arguments and
// values of operations are never stored here. The package must not depend on HTTP or Redis and enforces no policy:
// callers verify records before they write them. Package ledger/ledgertest is the conformance suite.
package ledger

import (
	"context"
	"fmt"
	"time"

	"writ"
)

// Ledger stores all records of a coordinator.
//
// All methods may be called concurrently. A method that changes records has stored the whole change durably when it
// returns nil, and no part of it when it returns an error. Errors are *writ.Error where the caller can act on them:
// NOT_FOUND, CONFLICT, BAD_REQUEST for a cursor of another ledger, and STORE_UNAVAILABLE while the store cannot be
// used. Returned values belong to the caller.
type Ledger interface {
	Rosters
	Registrations
	Submissions
	Records
	Usages
	Events
	Webhooks

	// Check returns nil if the ledger can be written now. It returns STORE_UNAVAILABLE if the disk is full, read-only
	// or missing.
	Check(ctx context.Context) error
	// Prune deletes the events that were stored before `events`, and the runs that ended before `runs`, with their calls
	// and submissions. It keeps an accepted run of a deployment whose submission is stored, until a newer run of the
	// deployment replaces it. The newer run must also have ended before `runs`. Only a successful run replaces a
	// successful run. So each deployment keeps its newest revision and its newest successful revision, up to
	// KeptRevisions for each project in each datacenter.
	Prune(ctx context.Context, events, runs time.Time) error
	// Close releases the resources of the ledger. No method may be called afterwards.
	Close() error
}

// KeptRevisions is the maximum number of runs of a project in a datacenter that Prune keeps beyond their time. Above
// this limit, Prune deletes the runs that ended first. A signed text has up to 512 KiB, so the texts of a project need at
// most 1 GiB.
const KeptRevisions = 2000

// NotThere returns the NOT_FOUND error for a missing record. Coordinators also return it for records that the reader
// may not see.
func NotThere(what string, id any) error {
	return writ.Errorf(writ.CodeNotFound, "there is no %s %v", what, id)
}

// Unreadable describes a row that the store cannot decode: another program or a fault of the disk changed it. Lists
// skip the row and return the others.
type Unreadable struct {
	Row string     // for example "node n1 of datacenter vienna"
	Run writ.RunID // the run of a waiting submission, otherwise ""
	Err error
}

// Error describes the row for an operator.
func (u Unreadable) Error() *writ.Error {
	return &writ.Error{
		Code: writ.CodeStoreDamaged, Message: fmt.Sprintf("the ledger cannot read its row for %s: %v", u.Row, u.Err),
		Hint: "find out who can write to the ledger, then restore the ledger from a backup", Err: u.Err,
	}
}

// UnreadableReporter is implemented by ledgers that report unreadable rows.
type UnreadableReporter interface {
	// OnUnreadable sets the function to call for each unreadable row that a list skips, normally once per row.
	OnUnreadable(report func(Unreadable))
}
