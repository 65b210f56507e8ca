package watch

import (
	"slices"
	"time"

	"writ/supervisor/journal"
)

// maxHeld limits the waiting calls that a scan rechecks in rotation. A scan rechecks at most maxHeld calls that wait
// for a node, and at most maxHeld that wait for their resource. Normally an event wakes such a call, but no event does
// if the call waits for any one of several conditions.
const maxHeld = 100

// dueCalls holds the cursors of the calls to check.
type dueCalls struct {
	due   journal.Due // position among the calls whose time comes
	again journal.Due // position of the repeated check of the same calls
	held  journal.Due // position among the calls that wait for their resource
}

// restart makes the next scan recheck the calls that wait for a node, beginning with the first call. It runs when a
// node has changed, because any of these calls may wait for the change.
func (d *dueCalls) restart() { d.due = journal.Due{} }

// next returns the calls whose time has come since the last scan, and a rotating part of all waiting calls. After
// restart, it returns all calls whose time has come, maxDue per scan.
func (d *dueCalls) next(tx *journal.Tx, now time.Time) ([]journal.Due, error) {
	due, err := tx.DueCalls(d.due, now, maxDue)
	if err != nil {
		return nil, err
	}
	if len(due) > 0 {
		d.due = due[len(due)-1]
	}
	again, err := nextFew(tx.DueCalls, &d.again, now)
	if err != nil {
		return nil, err
	}
	held, err := nextFew(tx.HeldCalls, &d.held, now)
	return slices.Concat(due, again, held), err
}

// nextFew returns the next maxHeld entries of a list after the position `at`, and advances `at`. After the end it
// restarts.
func nextFew(
	list func(after journal.Due, now time.Time, max int) ([]journal.Due, error), at *journal.Due, now time.Time,
) ([]journal.Due, error) {
	some, err := list(*at, now, maxHeld)
	*at = journal.Due{}
	if len(some) == maxHeld {
		*at = some[maxHeld-1]
	}
	return some, err
}
