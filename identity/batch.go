package identity

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"writ/identity/header"
)

const (
	// BatchValidity is the default validity of a batch.
	BatchValidity = 2 * time.Hour
	// MaxBatchValidity limits the validity of a batch.
	MaxBatchValidity = 24 * time.Hour
	// MaxBatchSerials limits the serial numbers of a batch.
	MaxBatchSerials = 500
	// BatchWarning is the risk that the signer of a batch accepts. The statement contains it word for word, so that
	// every reader of the statement sees it.
	BatchWarning = "A serial number is no secret and can be copied. The first machine that reports a number of this list is admitted, also if it is a stranger's."
)

// Batch is the content of a "create" statement about a batch. The batch admits nodes without a token if their machines
// report a listed serial number.
type Batch struct {
	ID      string
	Serials []string // sorted and unique; each admits one node
	Most    int      // limit of admitted nodes, at most the number of serial numbers
	Until   time.Time
}

// Statement sets the subject, decision and parameters of a statement that creates the batch.
func (b Batch) Statement(s *Statement) {
	serials := make([]any, len(b.Serials))
	for i, serial := range b.Serials {
		serials[i] = serial
	}
	s.Subject, s.Decision = "batch/"+b.ID, "create"
	s.Params = map[string]any{
		"max": int64(b.Most), "serials": serials, "until": header.FormatTime(b.Until), "warning": BatchWarning,
	}
}

// ParseBatch parses the batch in a statement that creates it.
func ParseBatch(s *Statement) (Batch, error) {
	b := Batch{ID: s.ID()}
	most, ok1 := s.Params["max"].(int64)
	serials, ok2 := stringsIn(s.Params["serials"])
	until, ok3 := s.Params["until"].(string)
	if !ok1 || !ok2 || !ok3 || len(s.Params) != 4 {
		return Batch{}, header.Malformed("a batch needs exactly the parameters max, serials, until and warning")
	}
	if s.Params["warning"] != BatchWarning {
		return Batch{}, header.Malformed("the parameter warning of a batch must be: %s", BatchWarning)
	}
	if len(serials) < 1 || len(serials) > MaxBatchSerials || most < 1 || most > int64(len(serials)) {
		return Batch{}, header.Malformed("a batch lists 1 to %d serial numbers, and admits at most one node for each",
			MaxBatchSerials)
	}
	for i, serial := range serials {
		switch {
		case !ValidSerial(serial):
			return Batch{}, header.Malformed("%q is not a serial number", header.Clip(serial))
		case i > 0 && serials[i-1] >= serial:
			return Batch{}, header.Malformed("the serial number %q is listed twice, or not in order",
				header.Clip(serial))
		}
	}
	var err error
	if b.Until, err = time.Parse(header.TimeFormat, until); err != nil {
		return Batch{}, header.Malformed("%q is not a time", header.Clip(until))
	}
	switch life := b.Until.Sub(s.Created); {
	case life <= 0:
		return Batch{}, header.Malformed("the batch ends before its statement was made")
	case life > MaxBatchValidity:
		return Batch{}, header.Malformed("a batch admits nodes for at most %s after the statement was made",
			MaxBatchValidity)
	}
	b.Most, b.Serials = int(most), serials
	return b, nil
}

// NewBatchID returns the id of a new batch.
func NewBatchID() string { return newID() }

// Lists reports whether the batch contains a serial number.
func (b *Batch) Lists(serial string) bool {
	_, found := slices.BinarySearch(b.Serials, serial)
	return found
}

const (
	// MinSerial is the minimum length of a serial number, in bytes. Shorter serial numbers can be guessed.
	MinSerial = 4
	// MaxSerial is the maximum length of a serial number, in bytes.
	MaxSerial = 64
)

// ValidSerial reports whether serial can identify one machine: one line of printable characters that is not a
// placeholder.
func ValidSerial(serial string) bool {
	return len(serial) >= MinSerial && len(serial) <= MaxSerial && utf8.ValidString(serial) &&
		serial == strings.TrimSpace(serial) &&
		!strings.ContainsFunc(serial, func(r rune) bool { return !unicode.IsPrint(r) }) && !Placeholder(serial)
}

// Placeholder reports whether a firmware text is a placeholder that the manufacturer did not replace.
func Placeholder(text string) bool {
	switch strings.ToLower(strings.Trim(text, " .")) {
	case "to be filled by o.e.m", "default string", "not specified", "not applicable", "system manufacturer",
		"system product name", "system serial number",
		"none", "0", "0123456789", "123456789", "00000000":
		return true
	}
	return false
}
