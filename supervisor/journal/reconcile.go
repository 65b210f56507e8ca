package journal

import (
	"strconv"
	"time"

	"writ/internal/sqldb"
)

// A journal restored from a backup does not know which jobs were sent after the backup. So it stores the time until
// which another supervisor may have been active. Runs from before that time are reconciled: the nodes are asked for
// their calls before anything is placed.

// CameFromBackup marks the journal as restored from a backup, on evidence that the datacenter stored outside of it. It
// takes effect with the next epoch; any supervisor that was active after the backup has stopped by then.
func (r *reign) CameFromBackup() { r.restored.Store(true) }

const metaReconcile = "doubt" // the stored name stays

// ReconcilesUntil returns the time until which another supervisor may have accepted runs, or sent calls, that this
// journal does not know; zero if the journal never came from a backup. Claims of coordinators do not count: they could
// delay every run.
func (r *reign) ReconcilesUntil() time.Time { return sqldb.Time(r.reconcileUntil.Load()) }

// readReconcileUntil returns ReconcilesUntil in microseconds. If the journal was just restored, that is now.
func (tx *Tx) readReconcileUntil(now time.Time, fromBackup bool) (int64, error) {
	if fromBackup {
		if err := tx.beginReconciliation(now); err != nil {
			return 0, err
		}
	}
	return tx.number(metaReconcile)
}

func (tx *Tx) beginReconciliation(now time.Time) error {
	return tx.setMeta(metaReconcile, strconv.FormatInt(sqldb.Micros(now), 10))
}

// Reconciles reports whether nodes may have work of a run that the journal does not know: the run was accepted before
// until, or it was signed before until plus skew, the permitted error of people's clocks, and may have been submitted
// here.
func (r *Run) Reconciles(until time.Time, skew time.Duration) bool {
	return !until.IsZero() && (r.Accepted.Before(until) || !r.Signed.After(until.Add(skew)))
}
