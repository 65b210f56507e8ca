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

// Call is a call with its arguments, its result and what dispatching it needs.
type Call struct {
	writ.Call
	Hash          writ.Digest      `json:"hash"`
	Project       writ.ProjectID   `json:"project"`
	UID           writ.UID         `json:"uid,omitempty"`
	Args          map[string]any   `json:"args,omitempty"`
	Options       writ.CallOptions `json:"options"`
	Need          writ.Capacity    `json:"need"`             // what it reserves on its node beyond what its resource has
	Orders        []int            `json:"orders,omitempty"` // earlier calls on the same resource: they must have ended
	Values        map[string]any   `json:"values,omitempty"`
	Aside         bool             `json:"aside,omitempty"`   // it stands in nobody's way: see catalog.Operation
	Claimed       bool             `json:"claimed,omitempty"` // no other run stands between the call and its resource; UID and Need are known
	Ready         bool             `json:"ready,omitempty"`   // placed, and all that it needs has succeeded
	RetryAt       time.Time        `json:"retry_at,omitzero"`
	StartBy       time.Time        `json:"start_by,omitzero"`
	Before        int              `json:"before,omitempty"` // attempts before the last resume; those after it are counted anew
	KnownFailures int              `json:"told,omitempty"`   // up to this attempt it is known how each failed
	// Spared is how many attempts since the last resume their node refused because it could not write its own journal, or because a driver that
	// ignores its end was in the way. They do not count.
	Spared int `json:"spared,omitempty"`
	// Read is where the script read a result last before it asked for the call, "" if it had read none.
	Read string `json:"read,omitempty"`
	// Moved is up to which attempt nothing of the call is anywhere: it was taken back before a node had it, or its node is gone for good.
	Moved int `json:"moved,omitempty"`
	// Withdrawn is up to which delivery of the attempt each was taken back before a node had it.
	Withdrawn int `json:"withdrawn,omitempty"`
	// KeptBack says that the newest delivery got lost while what the call is part of was on hold. The next one waits for the release.
	KeptBack bool `json:"kept_back,omitempty"`
	// Late is the success of the last attempt if it came when the call had been given up already: a resume need not do it again.
	Late *writ.Result `json:"late,omitempty"`
	// Sent is the newest delivery, nil if there was none. The ones before it have rows of their own.
	Sent *Delivery `json:"sent,omitempty"`
	// Answered is the result that ended the newest attempt, nil if none did. All others have rows of their own.
	Answered *Answer `json:"answered,omitempty"`

	place  int64 // of its row, 0 if it is not known yet
	stored kept  // as the journal has it
}

// MaxCalls bounds the calls of a run: its rows have that many places. Submissions are held to less.
const MaxCalls = 4095

// In makes a new call one of a run.
func (c *Call) In(r *Run) { c.Run, c.Project, c.place = r.ID, r.Project, place(r.number, c.Seq) }

// place is where the row of a call lies. Runs are numbered as they are accepted, so that what is worked on at the same time lies together, and
// a commit changes few pages.
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

// Answer is a result that came.
type Answer struct {
	Attempt int         `json:"try"`
	Frame   writ.Digest `json:"frame"` // in which it came
}

// Frame is a signed message of a node with results.
type Frame struct {
	Digest writ.Digest
	Signed []byte
	Runs   []writ.RunID // that the results in it are of
}

// WasOpen reports whether the call was open when it was read.
func (c *Call) WasOpen() bool { return c.stored.state != "" && !c.stored.state.Ended() }

// WasOut reports whether the call was out at a node when it was read.
func (c *Call) WasOut() bool { return c.stored.state.Sent() }

// StoodInTheWay reports whether the call had its resource when it was read, so that no other run could claim it.
func (c *Call) StoodInTheWay() bool { return c.WasOpen() && c.stored.claimed && !c.Aside }

// Key is the call's current permission to act.
func (c *Call) Key() writ.JobKey { return writ.JobKey{Run: c.Run, Seq: c.Seq, Attempt: c.Attempt} }

// Resource is what the call names, the zero value if it names nothing.
func (c *Call) Resource() writ.ResourceID {
	if c.Kind == "" {
		return writ.ResourceID{}
	}
	return writ.ResourceID{Project: c.Project, Kind: c.Kind, Name: c.Name}
}

// Move changes the state of the call in memory; PutCall writes it. A move that the table does not allow is an error.
func (c *Call) Move(to writ.CallState) error {
	if !writ.CanMove(writ.CallMoves, c.State, to) {
		return fmt.Errorf("call %s-%d: no move from %s to %s", c.Run, c.Seq, c.State, to)
	}
	c.State = to
	return nil
}

// PutCall keeps a call that is new or has changed. If its state is not any more what it was when it was read, that is a CONFLICT. What does
// not change is not written: mostly that is all but the state and the record itself.
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
		if c.Aside { // whoever looks for calls on the resource does not find it
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
		return writ.Errorf(writ.CodeConflict, "call %d of run %s is not %q any more", c.Seq, c.Run, c.stored.state)
	}
	tx.shift(c.stored.node, Load{}.minus(c.stored.load()))
	tx.shift(now.node, now.load())
	return nil
}

// Committed says that the journal has the call as it is now, so that it can be changed and put again without being read.
func (c *Call) Committed() { c.stored = c.kept() }

// kept is what the journal has of the call once it is written.
func (c *Call) kept() kept {
	return kept{c.State, placed{c.Node, c.Need, c.Claimed, c.Ready, sqldb.Micros(c.RetryAt)}}
}

// openCall returns the call that a row is of; its error says that the row is not as it was written.
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

// calls returns the calls whose places and bodies query finds. One that is not as it was written is an error.
func (tx *Tx) calls(query string, args ...any) ([]*Call, error) {
	return tx.readCalls(func(error) bool { return false }, query, args...)
}

// soundCalls is calls without those that are not as they were written.
func (tx *Tx) soundCalls(query string, args ...any) ([]*Call, error) {
	return tx.readCalls(isForged, query, args...)
}

// readCalls returns the calls that query finds, but those whose error may be passed over.
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

// Calls returns all calls of a run in their order.
func (tx *Tx) Calls(run writ.RunID) ([]*Call, error) { return tx.CallsAfter(run, 0) }

// CallsAfter returns the calls of a run behind one of them, in their order.
func (tx *Tx) CallsAfter(run writ.RunID, seq int) ([]*Call, error) {
	calls, err := tx.calls(callsOf, string(run), MaxCalls+1, seq)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.Run != run { // two runs were given one number
			return nil, tx.refuseCall(c)
		}
	}
	return calls, nil
}

// refuseCall returns the error for a call that is in the place of another one.
func (tx *Tx) refuseCall(c *Call) error {
	if tx.codes == nil {
		return fmt.Errorf("call %d of run %s lies among those of another run", c.Seq, c.Run)
	}
	return tx.codes.refuse("calls", []any{c.place})
}

const callsOf = `SELECT place, body FROM calls WHERE place > (SELECT number FROM runs WHERE id = $1) * $2 + $3
	AND place < ((SELECT number FROM runs WHERE id = $1) + 1) * $2 ORDER BY place`

// LeftCalls returns the calls on a resource that were placed and did not succeed, newest first: what they did before they ended may be there.
func (tx *Tx) LeftCalls(id writ.ResourceID) ([]*Call, error) {
	return tx.soundCalls(leftCalls, string(id.Project), string(id.Kind), id.Name)
}

const leftCalls = `SELECT place, body FROM calls WHERE NOT open AND state <> 'succeeded' AND node <> '' AND kind <> ''
	AND project = $1 AND kind = $2 AND name = $3 ORDER BY planned DESC`

// SentCalls returns every call that is out at a node, the oldest of each node first.
func (tx *Tx) SentCalls() ([]*Call, error) {
	sent, err := tx.soundCalls(sentCalls)
	slices.SortFunc(sent, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Planned.Compare(b.Planned), cmp.Compare(a.place, b.place))
	})
	return sent, err
}

const sentCalls = `SELECT place, body FROM calls WHERE open AND state <> 'planned'`

// SentByProject returns how many calls of each project are out at a node.
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

// NextSendable returns the first project after one that has calls which could be sent to a node now, "" if none has.
func (tx *Tx) NextSendable(node writ.NodeID, after writ.ProjectID, now time.Time) (project writ.ProjectID, err error) {
	err = tx.QueryRowContext(tx.ctx, nextSendable, string(node), string(after), sqldb.Micros(now)).Scan(&project)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return project, err
}

// Sendable returns the runs of at most max calls of a project that could be sent to a node now, one for each call and the oldest first.
func (tx *Tx) Sendable(node writ.NodeID, project writ.ProjectID, now time.Time, max int) ([]writ.RunID, error) {
	return tx.runIDs(sendable, string(node), string(project), sqldb.Micros(now), max)
}

const (
	nextSendable = `SELECT project FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project > $2 AND retry_at <= $3
	ORDER BY project LIMIT 1`
	sendable = `SELECT run FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project = $2 AND retry_at <= $3
	ORDER BY planned, run, seq LIMIT $4`
)

// RunsStampedAfter returns the runs of which a call is to be looked at only after a time.
func (tx *Tx) RunsStampedAfter(at time.Time) ([]writ.RunID, error) {
	return tx.runIDs(`SELECT DISTINCT run FROM calls WHERE open AND state = 'planned' AND retry_at > $1`, sqldb.Micros(at))
}

// Due is a place in the order of DueCalls, and in that of HeldCalls.
type Due struct {
	At  time.Time
	Run writ.RunID
	Seq int
}

// DueCalls returns at most max of the calls after a place in their order that have their resource, wait for a time or for a node, and should
// be looked at by now, the longest first.
func (tx *Tx) DueCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(dueCalls, after, now, max)
}

// dueCalls is asked with two limits in turn. SQLite looks at a bare LIMIT $5 when it plans, and plans anew when that changes; it does not look into
// a cast.
const dueCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT CAST($5 AS BIGINT)`

// HeldCalls returns at most max of the calls after a place in their order that wait for another call on their resource, the longest first.
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

// AddDelivery records that a job with this digest is sent to a node, as the delivery that the call names. PutCall writes it: only a delivery
// that another one follows, which is rare, costs a row.
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

// WasSent reports whether a job with this digest was sent to the node as a delivery of this attempt.
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

// LastSent reports whether the newest delivery was a job with this digest to the node, in this attempt.
func (c *Call) LastSent(attempt int, node writ.NodeID, digest writ.Digest) bool {
	return c.Sent != nil && c.Sent.Attempt == attempt && c.Sent.Node == node && c.Sent.Job == digest
}

// AddResult keeps the frame of a result of an attempt of a call, and says in which one it came. The first result of an attempt stays; of another it
// reports false. PutCall writes what it says: only a result of an earlier attempt, or one that came when the call had ended, costs a row. A frame
// is kept once for all results in it.
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

// insertResult adds the row of a result, and reports false if there is one.
func (tx *Tx) insertResult(c *Call, attempt int, frame writ.Digest) (bool, error) {
	mac, err := tx.code("results", string(c.Run), c.Seq, attempt, frame.String())
	if err != nil {
		return false, err
	}
	return tx.changed(`INSERT INTO results (run, seq, try, digest, mac) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run, seq, try) DO NOTHING`,
		string(c.Run), c.Seq, attempt, frame.String(), mac)
}

// addFrame keeps a frame that is not there.
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

// ResultsDigest returns SHA-256 over the digests of the frames of a run's results in order of seq and attempt. calls are all that it has.
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

// OpenCalls returns how many calls of each project are open.
func (tx *Tx) OpenCalls() (map[writ.ProjectID]int, error) {
	return tx.byProject(`SELECT project, COUNT(*) FROM calls WHERE open GROUP BY project`)
}
