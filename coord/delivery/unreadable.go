package delivery

import (
	"context"
	"sync"

	"writ"
	"writ/ledger"
)

// maxUnreadable limits the unreadable submissions whose errors are shown at their runs.
const maxUnreadable = 1000

// unreadable records the waiting submissions that the ledger cannot decode. They are not delivered.
type unreadable struct {
	mu     sync.Mutex
	errors map[writ.RunID]*writ.Error
}

// note records the error of a run's submission.
func (u *unreadable) note(run writ.RunID, err *writ.Error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.errors == nil || len(u.errors) >= maxUnreadable {
		u.errors = map[writ.RunID]*writ.Error{}
	}
	u.errors[run] = err
}

// Unreadable returns the error of a run whose submission is unreadable, otherwise nil.
func (s *Service) Unreadable(run writ.RunID) *writ.Error {
	s.unreadable.mu.Lock()
	defer s.unreadable.mu.Unlock()
	return s.unreadable.errors[run]
}

// NoteUnreadable logs an unreadable row of the ledger. If the row is a submission, it is not delivered, and its run
// shows the error.
func (s *Service) NoteUnreadable(row ledger.Unreadable) {
	err := row.Error()
	s.Log.ErrorContext(context.Background(), "row of the ledger is unreadable; it is skipped", "row", row.Row, "err", err,
		"hint", err.Hint)
	if row.Run != "" {
		s.unreadable.note(row.Run, err)
		s.News.Wake()
	}
}
