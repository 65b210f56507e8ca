package supervisor

import (
	"writ"
	"writ/supervisor/journal"
)

// protect has the journal authenticate its rows, under a key that only this supervisor has.
func (s *Supervisor) protect() error {
	return s.Journal.Protect(journal.Protection{
		Key: s.Key.Seed(),
		Refused: func(err *writ.Error) {
			s.warnings.Refused("", "record of the journal changed by another program; it is not used", err, "hint", err.Hint)
		},
	})
}
