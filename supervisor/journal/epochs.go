package journal

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"writ/internal/sqldb"
)

// maxEpochs is the number of epochs that a journal remembers. Each start of a supervisor begins one.
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

// Gave reports whether the journal may have begun an epoch: it is remembered, or older than all remembered ones. A node
// that has seen any other epoch obeyed a supervisor that this journal does not know of, so the journal came from a
// backup.
func (r *reign) Gave(epoch int64) bool {
	all := r.epochs.Load()
	if all == nil || len(*all) == 0 || epoch < (*all)[0] {
		return true
	}
	_, found := slices.BinarySearch(*all, epoch)
	return found
}

// giveEpoch records that epoch follows last.
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
	if len(all) == 0 || all[len(all)-1] != last { // written by an earlier version, which recorded none
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

// Head is the progress of a journal. It never goes back, unless the journal comes from a backup.
type Head struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"` // of the last event
	// Holds is the revision of the newest hold decision.
	Holds int64 `json:"holds,omitempty"`
}

// Behind reports whether h lacks something of the earlier observation seen.
func (h Head) Behind(seen Head) bool { return h.Epoch < seen.Epoch || h.Seq < seen.Seq }

// Head returns the progress of the journal.
func (j *Journal) Head(ctx context.Context) (h Head, err error) {
	err = j.Read(ctx, func(tx *Tx) error {
		if h.Epoch, err = tx.number(metaEpoch); err != nil {
			return err
		}
		if _, h.Holds, err = tx.Holds(); err != nil {
			return err
		}
		return tx.QueryRowContext(tx.ctx, `SELECT seq FROM event_counter`).Scan(&h.Seq)
	})
	return h, err
}
