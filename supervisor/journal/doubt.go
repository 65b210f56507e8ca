package journal

import (
	"context"
	"strconv"
	"time"

	"writ/internal/sqldb"
)

// A journal that came from a backup does not know what was sent to nodes since the backup was made. So it remembers until when another
// supervisor may have gone on where the backup ends: runs from before are in doubt, and nodes are asked for them before anything is placed.

// Restored marks the journal in a file as one that came from a backup. Its doubt begins when a supervisor begins its first epoch with it:
// whoever went on after the backup has ended by then.
func Restored(ctx context.Context, path string) error {
	j, err := open(ctx, path, func(tx *Tx) error { return tx.setMeta(restored, "yes") })
	if err != nil {
		return err
	}
	return j.Close()
}

// CameFromBackup has the next epoch begin as one of a journal that came from a backup: something that the datacenter itself kept says so.
func (j *Journal) CameFromBackup() { j.restored.Store(true) }

// The names in meta.
const (
	restored = "restored"
	doubt    = "doubt"
)

// Doubt returns until when another supervisor may have accepted runs, or sent calls of them, that this journal does not know of; zero if
// nothing says that it ever came from a backup. What coordinators say does not count: they could make every run wait.
func (j *Journal) Doubt() time.Time { return sqldb.Time(j.doubt.Load()) }

// readDoubt returns the doubt of the journal in microseconds; one that was restored has it from now on.
func (tx *Tx) readDoubt(now time.Time, fromBackup bool) (int64, error) {
	mark, err := tx.meta(restored)
	if err == nil && (mark != "" || fromBackup) {
		err = tx.beginDoubt(now)
	}
	if err != nil {
		return 0, err
	}
	return tx.number(doubt)
}

func (tx *Tx) beginDoubt(now time.Time) error {
	if err := tx.setMeta(doubt, strconv.FormatInt(sqldb.Micros(now), 10)); err != nil {
		return err
	}
	return tx.setMeta(restored, "")
}

// InDoubt reports whether nodes may have work of a run that the journal does not know of, given its doubt: the run was accepted before,
// or it was signed before and may have been here, if the clocks of people are off by as much as they may be.
func (r *Run) InDoubt(until time.Time, skew time.Duration) bool {
	return !until.IsZero() && (r.Accepted.Before(until) || !r.Signed.After(until.Add(skew)))
}
