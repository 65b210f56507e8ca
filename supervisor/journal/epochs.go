package journal

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// maxEpochs is how many of its epochs a journal knows. It gets one whenever a supervisor begins.
const maxEpochs = 500

// Gave reports whether the journal gave an epoch, or may have, because it does not know as early ones any more. A node that has obeyed any
// other obeyed a supervisor of which this journal does not know: it came from a backup.
func (j *Journal) Gave(epoch int64) bool {
	all := j.epochs.Load()
	if all == nil || len(*all) == 0 || epoch < (*all)[0] {
		return true
	}
	_, found := slices.BinarySearch(*all, epoch)
	return found
}

// giveEpoch notes that an epoch follows the last one.
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
	if len(all) == 0 || all[len(all)-1] != last { // of an earlier version, which noted none
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

// Head is how far a journal has come. It never goes back, unless the journal comes from a backup.
type Head struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"` // of the last event
	// Holds is the revision of the newest decision about what may not start work.
	Holds int64 `json:"holds,omitempty"`
}

// Behind reports whether something that was seen of a journal is not in one.
func (h Head) Behind(seen Head) bool { return h.Epoch < seen.Epoch || h.Seq < seen.Seq }

// Head returns how far the journal has come.
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
