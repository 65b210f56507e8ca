package rosters

import (
	"errors"

	"writ"
	"writ/identity"
)

// attempts limits how often a decision is repeated because the journal got a newer roster in the meantime. A supervisor
// adopts a roster immediately after it has written the roster to the journal.
const attempts = 100

// ErrChanged reports that the journal has a newer roster than the roster used for verification.
var ErrChanged = errors.New("the roster has changed meanwhile")

// WithNewest calls decide with a verifier of the newest roster, and repeats the call while the error is ErrChanged. The
// error is RECORD_FORGED if the journal has a newer roster that this supervisor never adopts.
func WithNewest(verifier func() *identity.Verifier, decide func(*identity.Verifier) error) error {
	var newest *identity.Verifier
	for range attempts {
		newest = verifier()
		if err := decide(newest); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return writ.Errorf(writ.CodeRecordForged,
		"the journal has a newer version of the roster than %d, which this supervisor has not adopted",
		newest.Roster.Version).
		WithHint("find the program that changed the database of the journal, then restore the journal from a backup")
}
