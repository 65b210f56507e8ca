package sqlstore

import (
	"errors"
	"fmt"
	"sync"

	"writ"
	"writ/ledger"
)

// maxReported limits damage.reported. When it is reached, the map is cleared, so rows may be reported again.
const maxReported = 1000

// damage reports unreadable rows.
type damage struct {
	mu       sync.Mutex
	report   func(ledger.Unreadable) // may be nil
	reported map[string]bool         // by row
}

// unreadableRow is the error of a row that cannot be decoded. Lists skip the row.
type unreadableRow struct {
	ledger.Unreadable
	damage *damage
}

func (e *unreadableRow) Error() string { return fmt.Sprintf("read the row for %s: %v", e.Row, e.Err) }
func (e *unreadableRow) Unwrap() error { return e.Err }

// row returns the error of an unreadable row. The format describes the row.
func (d *damage) row(err error, format string, args ...any) error {
	return &unreadableRow{ledger.Unreadable{Row: fmt.Sprintf(format, args...), Err: err}, d}
}

// submission returns the error of an unreadable submission.
func (d *damage) submission(err error, run writ.RunID) *unreadableRow {
	return &unreadableRow{ledger.Unreadable{Row: fmt.Sprintf("the submission of run %s", run), Run: run, Err: err}, d}
}

// skip reports whether err is about one unreadable row only. Such a row is reported once.
func skip(err error) bool {
	e, ok := errors.AsType[*unreadableRow](err)
	if !ok {
		return false
	}
	d := e.damage
	d.mu.Lock()
	report := d.report
	if report == nil || d.reported[e.Row] {
		report = nil
	} else {
		if d.reported == nil || len(d.reported) >= maxReported {
			d.reported = map[string]bool{}
		}
		d.reported[e.Row] = true
	}
	d.mu.Unlock()
	if report != nil {
		report(e.Unreadable)
	}
	return true
}

// OnUnreadable sets the function that is called for each unreadable row.
func (s *Store) OnUnreadable(report func(ledger.Unreadable)) {
	s.damage.mu.Lock()
	defer s.damage.mu.Unlock()
	s.damage.report = report
}
