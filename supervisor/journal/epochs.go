package journal

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"writ/internal/sqldb"
)

// maxEpochs is the number of epochs that a journal remembers. Each start of a supervisor begins an epoch, and earlier
// processes may then neither write nor send jobs.
const maxEpochs = 500

// reign holds the epochs of a journal, and whether the journal came from a backup.
type reign struct {
	db             *sqldb.DB
	epoch          atomic.Int64            // set by BeginEpoch, 0 before
	epochs         atomic.Pointer[[]int64] // known epochs, sorted
	reconcileUntil atomic.Int64            // see ReconcilesUntil, unix microseconds
	// restored is set for a journal from a backup. It takes effect when the next epoch begins.
	restored atomic.Bool
}

// Gave reports whether the journal may have begun an epoch: the epoch is one of the remembered epochs, or older than
// all of them. A node that has seen any other epoch has obeyed a supervisor without a trace in this journal, so the
// journal came from a backup.
func (r *reign) Gave(epoch int64) bool {
	all := r.epochs.Load()
	if all == nil || len(*all) == 0 || epoch < (*all)[0] {
		return true
	}
	_, found := slices.BinarySearch(*all, epoch)
	return found
}

// giveEpoch adds a new epoch, which follows the epoch `last`, to the remembered epochs, and returns all of them.
func (tx *Tx) giveEpoch(last, epoch int64) ([]int64, error) {
	text, err := tx.meta(metaEpochs)
	if err != nil {
		return nil, err
	}
	var all []int64
	for word := range strings.FieldsSeq(text) {
		e, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if len(all) == 0 || all[len(all)-1] != last { // an earlier version of writ did not record `last`
		all = []int64{last}
	}
	all = append(all, epoch)
	all = all[max(0, len(all)-maxEpochs):]
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = strconv.FormatInt(e, 10)
	}
	return all, tx.setMeta(metaEpochs, strings.Join(words, " "))
}

// Head is the progress of a journal. It never decreases, unless the journal is restored from a backup.
type Head struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"` // of the last event
	// Holds is the revision of the newest hold decision.
	Holds int64 `json:"holds,omitempty"`
}

// Behind reports whether h is behind `seen`, an earlier observation of the journal's progress.
func (h Head) Behind(seen Head) bool { return h.Epoch < seen.Epoch || h.Seq < seen.Seq }

// Head returns the progress of the journal.
func (j *Journal) Head(ctx context.Context) (h Head, err error) {
	err = j.Read(ctx, func(tx *Tx) (err error) {
		if h.Epoch, err = tx.number(metaEpoch); err != nil {
			return err
		}
		if _, h.Holds, err = tx.Holds(); err != nil {
			return err
		}
		h.Seq, err = lastEvent(tx)
		return err
	})
	return h, err
}

// Shared reports whether other processes can reach the journal, so that its lease must be renewed.
func (r *reign) Shared() bool { return r.db.Shared() }

// LastEpoch returns the last epoch of the journal. It is later than the epoch of a supervisor that was replaced.
func LastEpoch(tx *Tx) (int64, error) { return tx.number(metaEpoch) }

// mustReign returns ErrFenced if the epoch of this process is over. Only one process writes at a time, so the epoch
// cannot end before the commit.
func (r *reign) mustReign(tx *Tx) error {
	mine := r.epoch.Load()
	if mine == 0 {
		return nil
	}
	last, err := LastEpoch(tx)
	if err == nil && last != mine {
		err = ErrFenced
	}
	return err
}

// A journal restored from a backup does not know which jobs were sent after the backup. So it stores the time of its
// restoration. Until that time, a supervisor with the lost journal may have been active. Runs that were accepted before
// that time are reconciled: each node reports its calls of the run before the supervisor places further calls.

// CameFromBackup marks the journal as restored from a backup, on evidence that the datacenter stored outside of the
// journal. The mark takes effect with the next epoch; any supervisor that was active after the backup has stopped by
// then.
func (r *reign) CameFromBackup() { r.restored.Store(true) }

// ReconcilesUntil returns the time until which another supervisor may have accepted runs, or sent calls, that this
// journal does not have. It is zero if the journal never came from a backup. Claims of coordinators do not count: a
// malicious coordinator could delay every run with them.
func (r *reign) ReconcilesUntil() time.Time { return sqldb.Time(r.reconcileUntil.Load()) }

const metaReconcile = "doubt" // the name in existing journals

// readReconcileUntil returns ReconcilesUntil in microseconds. If fromBackup is true, it stores and returns `now`.
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

// Reconciles reports whether nodes may have work of a run that the journal does not have. Such a run was accepted
// before the time `until`, or signed so early that it may have been submitted before `until`. skew is the permitted
// error of signers' clocks.
func (r *Run) Reconciles(until time.Time, skew time.Duration) bool {
	return !until.IsZero() && (r.Accepted.Before(until) || !r.Signed.After(until.Add(skew)))
}
