package identity

import (
	"slices"
	"time"
)

const (
	// BatchValidity is how long a batch admits nodes unless its maker says otherwise.
	BatchValidity = 2 * time.Hour
	// MaxBatchValidity is how long a batch admits nodes at most.
	MaxBatchValidity = 24 * time.Hour
	// MaxBatchSerials is how many serial numbers a batch lists at most.
	MaxBatchSerials = 500
	// BatchWarning is what the signer of a batch must know. The statement has it word for word, so that every reader of it has read it, too.
	BatchWarning = "A serial number is no secret and can be copied. The first machine that reports a number of this list is admitted, also if it is a stranger's."
)

// Batch is what the statement "create" about a batch says: nodes without a token are admitted, instead of waiting, if their machines report serial
// numbers of a list.
type Batch struct {
	ID      string
	Serials []string // in order, each once; each admits one node
	Most    int      // nodes that it admits, at most as many as there are serial numbers
	Until   time.Time
}

// Statement fills subject, decision and parameters of a statement that makes the batch.
func (b Batch) Statement(s *Statement) {
	serials := make([]any, len(b.Serials))
	for i, serial := range b.Serials {
		serials[i] = serial
	}
	s.Subject, s.Decision = "batch/"+b.ID, "create"
	s.Params = map[string]any{"max": int64(b.Most), "serials": serials, "until": formatTime(b.Until), "warning": BatchWarning}
}

// ParseBatch reads the batch from a statement that makes it.
func ParseBatch(s *Statement) (Batch, error) {
	b := Batch{ID: s.ID()}
	most, ok1 := s.Params["max"].(int64)
	serials, ok2 := stringsIn(s.Params["serials"])
	until, ok3 := s.Params["until"].(string)
	if !ok1 || !ok2 || !ok3 || len(s.Params) != 4 {
		return Batch{}, malformed("a batch takes the parameters max, serials, until and warning, and no others")
	}
	if s.Params["warning"] != BatchWarning {
		return Batch{}, malformed("a batch says word for word: %s", BatchWarning)
	}
	if len(serials) < 1 || len(serials) > MaxBatchSerials || most < 1 || most > int64(len(serials)) {
		return Batch{}, malformed("a batch lists 1 to %d serial numbers, and admits at most one node for each", MaxBatchSerials)
	}
	for i, serial := range serials {
		switch {
		case !ValidSerial(serial):
			return Batch{}, malformed("%q is no serial number", clip(serial))
		case i > 0 && serials[i-1] >= serial:
			return Batch{}, malformed("the serial number %q is listed twice, or not in order", clip(serial))
		}
	}
	var err error
	if b.Until, err = time.Parse(timeFormat, until); err != nil {
		return Batch{}, malformed("%q is not a time", clip(until))
	}
	if life := b.Until.Sub(s.Created); life <= 0 || life > MaxBatchValidity {
		return Batch{}, malformed("a batch admits nodes for at most %s after the statement was made", MaxBatchValidity)
	}
	b.Most, b.Serials = int(most), serials
	return b, nil
}

// NewBatchID returns the id of a new batch.
func NewBatchID() string { return newID() }

// Lists reports whether the batch has a serial number.
func (b *Batch) Lists(serial string) bool {
	_, found := slices.BinarySearch(b.Serials, serial)
	return found
}

func checkBatch(s *Statement) error {
	_, err := ParseBatch(s)
	return err
}
