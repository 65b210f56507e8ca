package journal

import (
	"fmt"

	"writ"
	"writ/internal/sqldb"
)

// PutCall stores a new or changed call. It returns CONFLICT if the stored state has changed since the call was read. It
// writes only changed columns: usually the state and the body.
func (tx *Tx) PutCall(c *Call) error {
	if c.place == 0 {
		number, err := tx.runNumber(c.Run)
		if err != nil {
			return err
		}
		c.place = place(number, c.Seq)
	}
	if !c.hasRoom() {
		return fmt.Errorf("run %s has no place for call %d", c.Run, c.Seq)
	}
	body, err := encodeCall(c)
	if err == nil {
		body, err = tx.withCode("calls", body, c.place)
	}
	if err != nil {
		return err
	}
	now := c.kept()
	var query string
	args := []any{c.place, string(c.State), !c.State.Ended(), body}
	switch was := c.stored; {
	case was.state == "":
		query = `INSERT INTO calls (place, state, open, body, node, claimed, ready, retry_at, cpu_hundredths, memory_mib, disk_gib, run, seq, project, kind, name, planned)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT (place) DO NOTHING`
		args = append(args, now.columns()...)
		kind := c.Kind
		if c.Aside { // not found by searches for calls on the resource
			kind = ""
		}
		args = append(args, string(c.Run), c.Seq, string(c.Project), string(kind), c.Name, sqldb.Micros(c.Planned))
	case was.placed == now.placed:
		query = `UPDATE calls SET state = $2, open = $3, body = $4 WHERE place = $1 AND state = $5`
		args = append(args, string(was.state))
	default:
		query = `UPDATE calls SET state = $2, open = $3, body = $4, node = $5, claimed = $6, ready = $7, retry_at = $8,
			cpu_hundredths = $9, memory_mib = $10, disk_gib = $11 WHERE place = $1 AND state = $12`
		args = append(append(args, now.columns()...), string(was.state))
	}
	was := c.stored.state
	err = tx.Require(tx.ctx, func() error {
		return writ.Errorf(writ.CodeConflict, "call %d of run %s has left the state %q", c.Seq, c.Run, was)
	}, query, args...)
	if err != nil {
		return err
	}
	tx.shift(c.stored.node, Load{}.Minus(c.stored.load()))
	tx.shift(now.node, now.load())
	return nil
}

// openCall returns the call of a row. The error is RECORD_FORGED if the journal did not write the row.
func (tx *Tx) openCall(place int64, stored []byte) (*Call, error) {
	body, err := tx.open("calls", stored, place)
	if err != nil {
		return nil, err
	}
	c, err := decodeCall(body)
	if err != nil {
		return nil, err
	}
	c.place = place
	return c, nil
}

// calls returns the calls whose places and bodies query selects. A forged row is an error.
func (tx *Tx) calls(query string, args ...any) ([]*Call, error) {
	return tx.readCalls(func(error) bool { return false }, query, args...)
}

// soundCalls returns the calls that query selects, without forged rows.
func (tx *Tx) soundCalls(query string, args ...any) ([]*Call, error) {
	return tx.readCalls(isForged, query, args...)
}

// readCalls returns the calls that query selects. It skips a call if passOver returns true for its error.
func (tx *Tx) readCalls(passOver func(err error) bool, query string, args ...any) ([]*Call, error) {
	rows, err := tx.QueryContext(tx.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var calls []*Call
	for rows.Next() {
		var place int64
		var body []byte
		if err := rows.Scan(&place, &body); err != nil {
			return nil, err
		}
		c, err := tx.openCall(place, body)
		if passOver(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.Committed()
		calls = append(calls, c)
	}
	return calls, rows.Err()
}

// Calls returns the stored calls of a run in order.
func (tx *Tx) Calls(run writ.RunID) ([]*Call, error) {
	calls, err := tx.calls(callsOf, string(run), 0)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.Run != run { // two runs got the same number
			return nil, tx.refuseCall(c.place, isForeign)
		}
	}
	return calls, nil
}

// CallsAfter returns the calls of a run after seq, in order. It returns RECORD_FORGED if one of them is missing, except
// for the last ones.
func (tx *Tx) CallsAfter(run writ.RunID, seq int) ([]*Call, error) {
	return withoutGaps(tx, run, seq, callsOf, string(run), min(seq, MaxCalls)) // a sum with a larger number may overflow
}

// NextCalls returns at most max calls of a run after seq, or all if max is 0, like CallsAfter.
func NextCalls(tx *Tx, run *Run, seq, max int) ([]*Call, error) {
	if last := int(slotsOf(run.number)*slotCalls) - 1; max <= 0 || max > last || seq > last-max {
		return tx.CallsAfter(run.ID, seq)
	}
	return withoutGaps(tx, run.ID, seq, callsBetween, place(run.number, seq), place(run.number, seq+max))
}

// withoutGaps returns the calls that query selects. It returns an error unless they are the next calls of the run after
// seq, without gaps.
func withoutGaps(tx *Tx, run writ.RunID, seq int, query string, args ...any) ([]*Call, error) {
	calls, err := tx.calls(query, args...)
	if err != nil {
		return nil, err
	}
	for i, c := range calls {
		if c.Run != run {
			return nil, tx.refuseCall(c.place, isForeign)
		}
		if c.Seq != seq+i+1 {
			return nil, tx.refuseCall(c.place-int64(c.Seq-seq-i-1), isMissing)
		}
	}
	return calls, nil
}

// CallsOf returns some of the first calls of a run. seqs ascends. It returns RECORD_FORGED if one of them, or a call
// between them, is missing or open.
func CallsOf(tx *Tx, run *Run, seqs []int) (calls []*Call, err error) {
	for len(seqs) > 0 {
		n := inOneQuery(seqs)
		some, err := endedCalls(tx, run, seqs[0]-1, seqs[n-1])
		if err != nil {
			return nil, err
		}
		for _, seq := range seqs[:n] {
			calls = append(calls, some[seq-seqs[0]])
		}
		seqs = seqs[n:]
	}
	return calls, nil
}

// inOneQuery returns the number of first calls of a list that one query reads. They are near each other.
func inOneQuery(seqs []int) int {
	n := 1
	for n < len(seqs) && seqs[n]-seqs[0] < callsAtOnce && seqs[n]-seqs[n-1] <= nearCalls {
		n++
	}
	return n
}

const (
	// callsAtOnce is the number of calls that one query reads.
	callsAtOnce = 500
	// nearCalls is a distance of calls. It takes less time to read the calls between two of them than to query twice.
	nearCalls = 8
)

// EachCall passes the first calls of a run up to the last one to do, in order. It returns RECORD_FORGED if one of them
// is missing or open.
func EachCall(tx *Tx, run *Run, last int, do func(c *Call) error) error {
	for after := 0; after < last; after += callsAtOnce {
		calls, err := endedCalls(tx, run, after, min(after+callsAtOnce, last))
		if err != nil {
			return err
		}
		for _, c := range calls {
			if err := do(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// endedCalls returns the calls of a run after seq up to the last one. All of them must exist and must have ended: the
// database may have restored a row from the time when its call was open.
func endedCalls(tx *Tx, run *Run, seq, last int) ([]*Call, error) {
	calls, err := withoutGaps(tx, run.ID, seq, callsBetween, place(run.number, seq), place(run.number, last))
	if err != nil {
		return nil, err
	}
	if len(calls) < last-seq {
		return nil, tx.refuseCall(place(run.number, seq+len(calls)+1), isMissing)
	}
	for _, c := range calls {
		if !c.State.Ended() {
			return nil, tx.refuseCall(c.place, "is open again")
		}
	}
	return calls, nil
}

const callsBetween = `SELECT place, body FROM calls WHERE place > $1 AND place <= $2 ORDER BY place`

const isMissing, isForeign = "is missing", "belongs to another run"

// refuseCall returns the error for a missing row of a call, or for an earlier content of the row.
func (tx *Tx) refuseCall(place int64, why string) error {
	if tx.codes == nil {
		return fmt.Errorf("the call at the place %d %s", place, why)
	}
	return tx.codes.refuse("calls", []any{place})
}

const callsOf = `SELECT place, body FROM calls WHERE place > (SELECT number * 4096 + $2 FROM runs WHERE id = $1)
	AND place < (SELECT ` + endOfPlaces + ` FROM runs WHERE id = $1) ORDER BY place`

// endOfPlaces is the place after the last place of a run, as SQL: place(number+slotsOf(number), 0).
const endOfPlaces = `(number + CASE WHEN number < 4294967296 THEN 1 ELSE 32 END) * 4096`

// LeftCalls returns the calls on a resource that were placed and did not succeed, newest first. They may have left
// partial effects on their nodes.
func (tx *Tx) LeftCalls(id writ.ResourceID) ([]*Call, error) {
	return tx.soundCalls(leftCalls, string(id.Project), string(id.Kind), id.Name)
}

const leftCalls = `SELECT place, body FROM calls WHERE NOT open AND state <> 'succeeded' AND node <> '' AND kind <> ''
	AND project = $1 AND kind = $2 AND name = $3 ORDER BY planned DESC`

// OpenCalls returns the number of open calls by project.
func (tx *Tx) OpenCalls() (map[writ.ProjectID]int, error) {
	return tx.byProject(`SELECT project, COUNT(*) FROM calls WHERE open GROUP BY project`)
}
