package journal

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Call is a call with its arguments, its result and its dispatch state.
type Call struct {
	writ.Call
	Hash    writ.Digest      `json:"hash"`
	Project writ.ProjectID   `json:"project"`
	UID     writ.UID         `json:"uid,omitempty"`
	Args    map[string]any   `json:"args,omitempty"`
	Options writ.CallOptions `json:"options"`
	// Need is the capacity it reserves on its node in addition to that of its resource.
	Need writ.Capacity `json:"need"`
	// Orders lists earlier calls on the same resource, which must have ended before this one is sent.
	Orders  []int          `json:"orders,omitempty"`
	Values  map[string]any `json:"values,omitempty"`
	Aside   bool           `json:"aside,omitempty"`   // it blocks no other call: see catalog.Operation
	Claimed bool           `json:"claimed,omitempty"` // no other run blocks its resource; UID and Need are set
	Ready   bool           `json:"ready,omitempty"`   // placed, and all calls that it needs have succeeded
	RetryAt time.Time      `json:"retry_at,omitzero"`
	StartBy time.Time      `json:"start_by,omitzero"`
	// Before is the number of attempts before the last resume; later ones are counted from zero.
	Before        int `json:"before,omitempty"`
	KnownFailures int `json:"told,omitempty"` // the failures of attempts up to this one are known
	// Spared counts attempts since the last resume that the node refused because it could not write its journal, or
	// because a driver that ignores its deadline blocked it. They do not count as attempts.
	Spared int `json:"spared,omitempty"`
	// Read is the position at which the script last read a result before it requested the call, "" if it had read none.
	Read string `json:"read,omitempty"`
	// Moved is the newest attempt up to which nothing of the call is on any node: it was revoked before a node received
	// it, or its node is permanently lost.
	Moved int `json:"moved,omitempty"`
	// Withdrawn is the newest delivery of the attempt up to which all were revoked before a node received them.
	Withdrawn int `json:"withdrawn,omitempty"`
	// KeptBack is set if the newest delivery was lost while the call was on hold. The next delivery waits for the
	// release.
	KeptBack bool `json:"kept_back,omitempty"`
	// Late is the success of the last attempt if it arrived after the call had been given up. A resume then need not
	// repeat the call.
	Late *writ.Result `json:"late,omitempty"`
	// Sent is the newest delivery, nil if there was none. Earlier ones have their own rows.
	Sent *Delivery `json:"sent,omitempty"`
	// Answered is the result that ended the newest attempt, nil if none did. All others have their own rows.
	Answered *Answer `json:"answered,omitempty"`

	place  int64 // place of its row, 0 if unknown
	stored kept  // as in the journal
}

// MaxCalls limits the calls of a run: the keys of its rows have room for that many. The limit for submissions is lower.
const MaxCalls = 4095

// In assigns a new call to a run.
func (c *Call) In(r *Run) { c.Run, c.Project, c.place = r.ID, r.Project, place(r.number, c.Seq) }

// place returns the key of a call's row. Runs are numbered as they are accepted, so rows that are active at the same
// time are adjacent and a commit changes few pages.
func place(run int64, seq int) int64 { return run*(MaxCalls+1) + int64(seq) }

// Delivery is a job that was sent to a node.
type Delivery struct {
	Attempt  int         `json:"try"`
	Delivery int         `json:"delivery"`
	Node     writ.NodeID `json:"node"`
	Job      writ.Digest `json:"job"`
	Epoch    int64       `json:"epoch"`
	At       time.Time   `json:"at"`
}

// Answer is a received result.
type Answer struct {
	Attempt int         `json:"try"`
	Frame   writ.Digest `json:"frame"` // the frame that contained it
}

// Frame is a signed message of a node with results.
type Frame struct {
	Digest writ.Digest
	Signed []byte
	Runs   []writ.RunID // runs of its results
}

// WasOpen reports whether the call was open when it was read.
func (c *Call) WasOpen() bool { return c.stored.state != "" && !c.stored.state.Ended() }

// WasOut reports whether the call was sent to a node, and not ended, when it was read.
func (c *Call) WasOut() bool { return c.stored.state.Sent() }

// StoodInTheWay reports whether the call held its resource when it was read, so that no other run could claim it.
func (c *Call) StoodInTheWay() bool { return c.WasOpen() && c.stored.claimed && !c.Aside }

// Key returns the key of the call's current attempt.
func (c *Call) Key() writ.JobKey { return writ.JobKey{Run: c.Run, Seq: c.Seq, Attempt: c.Attempt} }

// Resource returns the call's resource, or the zero value if it has none.
func (c *Call) Resource() writ.ResourceID {
	if c.Kind == "" {
		return writ.ResourceID{}
	}
	return writ.ResourceID{Project: c.Project, Kind: c.Kind, Name: c.Name}
}

// Move changes the state of the call in memory; PutCall writes it. It returns an error if CallMoves does not allow the
// move.
func (c *Call) Move(to writ.CallState) error {
	if !writ.CanMove(writ.CallMoves, c.State, to) {
		return fmt.Errorf("call %s-%d: no move from %s to %s", c.Run, c.Seq, c.State, to)
	}
	c.State = to
	return nil
}

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
		query = `INSERT INTO calls (place, state, open, body, node, claimed, ready, retry_at, cpus, memory_mib, disk_gib, run, seq, project, kind, name, planned)
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
			cpus = $9, memory_mib = $10, disk_gib = $11 WHERE place = $1 AND state = $12`
		args = append(append(args, now.columns()...), string(was.state))
	}
	found, err := tx.changed(query, args...)
	if err != nil {
		return err
	}
	if !found {
		return writ.Errorf(writ.CodeConflict, "call %d of run %s is no longer %q", c.Seq, c.Run, c.stored.state)
	}
	tx.shift(c.stored.node, Load{}.minus(c.stored.load()))
	tx.shift(now.node, now.load())
	return nil
}

// Committed records that the journal has the call in its current form, so that it can be changed and stored again
// without a read.
func (c *Call) Committed() { c.stored = c.kept() }

// kept returns the searched columns of the call in its current form.
func (c *Call) kept() kept {
	return kept{c.State, placed{c.Node, c.Need, c.Claimed, c.Ready, sqldb.Micros(c.RetryAt)}}
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

// soundCalls is calls without forged rows.
func (tx *Tx) soundCalls(query string, args ...any) ([]*Call, error) {
	return tx.readCalls(isForged, query, args...)
}

// readCalls returns the calls that query selects. It skips those for whose error passOver returns true.
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

// Calls returns all calls of a run in order.
func (tx *Tx) Calls(run writ.RunID) ([]*Call, error) { return tx.CallsAfter(run, 0) }

// CallsAfter returns the calls of a run after seq, in order.
func (tx *Tx) CallsAfter(run writ.RunID, seq int) ([]*Call, error) {
	calls, err := tx.calls(callsOf, string(run), MaxCalls+1, seq)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.Run != run { // two runs got the same number
			return nil, tx.refuseCall(c)
		}
	}
	return calls, nil
}

// refuseCall returns the error for a call in the place of another one.
func (tx *Tx) refuseCall(c *Call) error {
	if tx.codes == nil {
		return fmt.Errorf("call %d of run %s is stored among the calls of another run", c.Seq, c.Run)
	}
	return tx.codes.refuse("calls", []any{c.place})
}

const callsOf = `SELECT place, body FROM calls WHERE place > (SELECT number FROM runs WHERE id = $1) * $2 + $3
	AND place < ((SELECT number FROM runs WHERE id = $1) + 1) * $2 ORDER BY place`

// LeftCalls returns the calls on a resource that were placed and did not succeed, newest first. Their partial effects
// may exist.
func (tx *Tx) LeftCalls(id writ.ResourceID) ([]*Call, error) {
	return tx.soundCalls(leftCalls, string(id.Project), string(id.Kind), id.Name)
}

const leftCalls = `SELECT place, body FROM calls WHERE NOT open AND state <> 'succeeded' AND node <> '' AND kind <> ''
	AND project = $1 AND kind = $2 AND name = $3 ORDER BY planned DESC`

// SentCalls returns all calls that are on nodes, ordered by node, the oldest of each node first.
func (tx *Tx) SentCalls() ([]*Call, error) {
	sent, err := tx.soundCalls(sentCalls)
	slices.SortFunc(sent, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Planned.Compare(b.Planned), cmp.Compare(a.place, b.place))
	})
	return sent, err
}

const sentCalls = `SELECT place, body FROM calls WHERE open AND state <> 'planned'`

// SentByProject returns the number of calls on a node by project.
func (tx *Tx) SentByProject(node writ.NodeID) (map[writ.ProjectID]int, error) {
	rows, err := tx.QueryContext(tx.ctx, sentByProject, string(node))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sent := make(map[writ.ProjectID]int)
	for rows.Next() {
		var project writ.ProjectID
		var n int
		if err := rows.Scan(&project, &n); err != nil {
			return nil, err
		}
		sent[project] = n
	}
	return sent, rows.Err()
}

const sentByProject = `SELECT project, COUNT(*) FROM calls WHERE open AND state <> 'planned' AND node = $1 GROUP BY project`

// NextSendable returns the first project after the given one that has calls ready for a node, or "".
func (tx *Tx) NextSendable(node writ.NodeID, after writ.ProjectID, now time.Time) (project writ.ProjectID, err error) {
	err = tx.QueryRowContext(tx.ctx, nextSendable, string(node), string(after), sqldb.Micros(now)).Scan(&project)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return project, err
}

// Sendable returns the runs of at most max calls of a project that are ready for a node: one entry per call, oldest
// first.
func (tx *Tx) Sendable(node writ.NodeID, project writ.ProjectID, now time.Time, max int) ([]writ.RunID, error) {
	return tx.runIDs(sendable, string(node), string(project), sqldb.Micros(now), max)
}

const (
	nextSendable = `SELECT project FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project > $2 AND retry_at <= $3
	ORDER BY project LIMIT 1`
	sendable = `SELECT run FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project = $2 AND retry_at <= $3
	ORDER BY planned, run, seq LIMIT $4`
)

// RunsStampedAfter returns the runs with a call whose next check is after the given time.
func (tx *Tx) RunsStampedAfter(at time.Time) ([]writ.RunID, error) {
	return tx.runIDs(`SELECT DISTINCT run FROM calls WHERE open AND state = 'planned' AND retry_at > $1`, sqldb.Micros(at))
}

// Due is a position in the order of DueCalls and HeldCalls.
type Due struct {
	At  time.Time
	Run writ.RunID
	Seq int
}

// DueCalls returns at most max calls after a position that have claimed their resource, wait for a time or a node, and
// are due for a check now, longest wait first.
func (tx *Tx) DueCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(dueCalls, after, now, max)
}

// dueCalls is called with two limits in turn. SQLite uses a bare LIMIT $5 in its plan and prepares the statement again
// when it changes; the cast prevents that.
const dueCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT CAST($5 AS BIGINT)`

// HeldCalls returns at most max calls after a position that wait for another call on their resource, longest wait
// first.
func (tx *Tx) HeldCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(heldCalls, after, now, max)
}

const heldCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT $5`

func (tx *Tx) dueAfter(query string, after Due, now time.Time, max int) ([]Due, error) {
	rows, err := tx.QueryContext(tx.ctx, query, sqldb.Micros(now), sqldb.Micros(after.At), string(after.Run), after.Seq, max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var due []Due
	for rows.Next() {
		var d Due
		var us int64
		if err := rows.Scan(&us, &d.Run, &d.Seq); err != nil {
			return nil, err
		}
		d.At = sqldb.Time(us)
		due = append(due, d)
	}
	return due, rows.Err()
}

// AddDelivery records that the job with this digest is sent to a node as the call's current delivery. PutCall writes
// it. Only a superseded delivery, which is rare, costs a row.
func (tx *Tx) AddDelivery(c *Call, digest writ.Digest, epoch int64) error {
	before := c.Sent
	c.Sent = &Delivery{c.Attempt, c.Delivery, c.Node, digest, epoch, tx.Now}
	if before == nil {
		return nil
	}
	row := []any{string(c.Run), c.Seq, before.Attempt, before.Delivery, string(before.Node), before.Job.String(), before.Epoch, sqldb.Micros(before.At)}
	mac, err := tx.code("deliveries", row...)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO deliveries (run, seq, try, delivery, node, digest, epoch, sent, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		append(row, mac)...)
}

// WasSent reports whether a job with this digest was sent to the node in this attempt.
func (tx *Tx) WasSent(c *Call, attempt int, node writ.NodeID, digest writ.Digest) (bool, error) {
	if c.LastSent(attempt, node, digest) {
		return true, nil
	}
	rows, err := tx.someRows(4, `SELECT delivery, epoch, sent, mac FROM deliveries
		WHERE run = $1 AND seq = $2 AND try = $3 AND node = $4 AND digest = $5`,
		string(c.Run), c.Seq, attempt, string(node), digest.String())
	for _, row := range rows {
		mac, _ := row[3].([]byte)
		err := tx.check("deliveries", mac, string(c.Run), c.Seq, attempt, row[0], string(node), digest.String(), row[1], row[2])
		if !isForged(err) {
			return err == nil, err
		}
	}
	return false, err
}

// LastSent reports whether the newest delivery was a job with this digest, sent to the node in this attempt.
func (c *Call) LastSent(attempt int, node writ.NodeID, digest writ.Digest) bool {
	return c.Sent != nil && c.Sent.Attempt == attempt && c.Sent.Node == node && c.Sent.Job == digest
}

// AddResult stores the frame of a result and records it as the answer to an attempt. It returns false if the attempt
// already has a result. PutCall writes the answer; only a result of an earlier attempt, or of an ended call, costs a
// row. A frame with several results is stored once.
func (tx *Tx) AddResult(c *Call, attempt int, frame *Frame) (bool, error) {
	switch {
	case c.Answered != nil && c.Answered.Attempt == attempt:
		return false, nil
	case attempt != c.Attempt || !c.WasOpen():
		added, err := tx.insertResult(c, attempt, frame.Digest)
		if err != nil || !added {
			return false, err
		}
	default:
		if before := c.Answered; before != nil {
			if _, err := tx.insertResult(c, before.Attempt, before.Frame); err != nil {
				return false, err
			}
		}
		c.Answered = &Answer{attempt, frame.Digest}
	}
	return true, tx.addFrame(frame)
}

// insertResult adds the row of a result. It returns false if the row exists.
func (tx *Tx) insertResult(c *Call, attempt int, frame writ.Digest) (bool, error) {
	mac, err := tx.code("results", string(c.Run), c.Seq, attempt, frame.String())
	if err != nil {
		return false, err
	}
	return tx.changed(`INSERT INTO results (run, seq, try, digest, mac) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run, seq, try) DO NOTHING`,
		string(c.Run), c.Seq, attempt, frame.String(), mac)
}

// addFrame stores a frame unless it exists.
func (tx *Tx) addFrame(frame *Frame) error {
	if slices.Contains(tx.frames, frame.Digest) || tx.known.has(frame.Digest) {
		return nil
	}
	tx.frames = append(tx.frames, frame.Digest)
	var runs strings.Builder
	for i, run := range frame.Runs {
		if i > 0 {
			runs.WriteByte(' ')
		}
		runs.WriteString(string(run))
	}
	return tx.exec(`INSERT INTO frames (digest, sealed, runs) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO UPDATE SET runs = excluded.runs WHERE frames.runs = ''`, frame.Digest.String(), frame.Signed, runs.String())
}

// ResultsDigest returns SHA-256 over the digests of the frames of a run's results, ordered by seq and attempt. calls
// must be all calls of the run.
func (tx *Tx) ResultsDigest(run writ.RunID, calls []*Call) (writ.Digest, error) {
	type result struct {
		seq, attempt int
		frame        string
	}
	var all []result
	for _, c := range calls {
		if c.Answered != nil {
			all = append(all, result{c.Seq, c.Answered.Attempt, c.Answered.Frame.String()})
		}
	}
	rows, err := tx.QueryContext(tx.ctx, `SELECT seq, try, digest, mac FROM results WHERE run = $1`, string(run))
	if err != nil {
		return writ.Digest{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var r result
		var mac []byte
		if err := rows.Scan(&r.seq, &r.attempt, &r.frame, &mac); err != nil {
			return writ.Digest{}, err
		}
		if err := tx.check("results", mac, string(run), r.seq, r.attempt, r.frame); err != nil {
			return writ.Digest{}, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b result) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.attempt, b.attempt)) })
	var text []byte
	for _, r := range all {
		text = append(text, r.frame...)
	}
	return writ.DigestOf(text), rows.Err()
}

// OpenCalls returns the number of open calls by project.
func (tx *Tx) OpenCalls() (map[writ.ProjectID]int, error) {
	return tx.byProject(`SELECT project, COUNT(*) FROM calls WHERE open GROUP BY project`)
}
