package journal

import (
	"strconv"
	"time"

	"writ/internal/sqldb"
)

// A journal that came from a backup does not know what was sent to nodes since the backup was made. So it remembers until when another
// supervisor may have gone on where the backup ends: runs from before are reconciled: nodes are asked for them before anything is placed.

// CameFromBackup has the next epoch begin as one of a journal that came from a backup: something that the datacenter itself kept says so. The
// reconciliation begins with that epoch: whoever went on after the backup has ended by then.
func (j *Journal) CameFromBackup() { j.restored.Store(true) }

// The names in meta.
const (
	restored      = "restored" // `writ restore` of an earlier version set it
	metaReconcile = "doubt"    // as it was stored first
)

// ReconcilesUntil returns until when another supervisor may have accepted runs, or sent calls of them, that this journal does not know of; zero if
// nothing says that it ever came from a backup. What coordinators say does not count: they could make every run wait.
func (j *Journal) ReconcilesUntil() time.Time { return sqldb.Time(j.reconcileUntil.Load()) }

// readReconcileUntil returns ReconcilesUntil in microseconds; for a journal that was restored that is now.
func (tx *Tx) readReconcileUntil(now time.Time, fromBackup bool) (int64, error) {
	mark, err := tx.meta(restored)
	if err == nil && (mark != "" || fromBackup) {
		err = tx.beginReconciliation(now)
	}
	if err != nil {
		return 0, err
	}
	return tx.number(metaReconcile)
}

func (tx *Tx) beginReconciliation(now time.Time) error {
	if err := tx.setMeta(metaReconcile, strconv.FormatInt(sqldb.Micros(now), 10)); err != nil {
		return err
	}
	return tx.setMeta(restored, "")
}

// Reconciles reports whether nodes may have work of a run that the journal does not know of: the run was accepted before,
// or it was signed before and may have been here, if the clocks of people are off by as much as they may be.
func (r *Run) Reconciles(until time.Time, skew time.Duration) bool {
	return !until.IsZero() && (r.Accepted.Before(until) || !r.Signed.After(until.Add(skew)))
}
