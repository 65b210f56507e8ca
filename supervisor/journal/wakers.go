package journal

import (
	"database/sql"
	"fmt"
	"slices"

	"writ/internal/sqldb"

	"writ"
)

// Every open run has a cause that will wake the run (give it its next step). The cause survives a crash of the
// supervisor:
//
//   - a pass of its script is due: each supervisor begins with such runs. Such a run may wait for an earlier open run
//     of its deployment, or, on hold, for a person. After each hold decision, package watch gives all open runs a step;
//   - the run is being ended, and StopBy is set;
//   - one of its calls was sent to a node that is still a member: the node reports the result, or EndBy passes;
//   - one of its calls could be sent to such a node: package room wakes the run when the node has room. A lost node is
//     still a member: a call that never started and is bound to it waits until the node returns or a person removes it;
//   - one of its calls has a time at which package watch checks it. Calls on hold have such a time, too.
//
// The deadline does not count as a cause: a run that only its deadline ends is stuck. A call that waits for other calls
// of its run is checked when those calls end.

// Sleeper is an open run or call without a wake-up before the deadline of the run.
type Sleeper struct {
	Run writ.RunID
	Seq int    // sequence number of the call, 0 for the run as a whole
	Why string // a clause: "it is out at node n1, which was removed"
}

func (s Sleeper) String() string {
	if s.Seq == 0 {
		return fmt.Sprintf("run %s: %s", s.Run, s.Why)
	}
	return fmt.Sprintf("call %d of run %s: %s", s.Seq, s.Run, s.Why)
}

// Looked is a position in the list of open runs, ordered by due time and ID.
type Looked struct {
	due int64
	run writ.RunID
}

// Sleepers checks the open runs after a position and returns the runs without a wake-up. It also returns the next
// position, zero at the end. It stops after about max open calls, but checks at least one run. isMember reports whether
// jobs may be sent to a node.
func (tx *Tx) Sleepers(
	isMember func(writ.NodeID) bool, after Looked, max int,
) (found []Sleeper, next Looked, err error) {
	runs, err := tx.lookedRuns(idleRuns, after, max)
	if err != nil || len(runs) == 0 {
		return nil, Looked{}, err
	}
	looked := 0
	for _, at := range runs {
		if looked >= max {
			return found, next, nil
		}
		some, n, err := tx.sleepersOf(at.run, isMember)
		if err != nil && !isForged(err) {
			return nil, Looked{}, err
		}
		found = append(found, some...)
		looked += n + 1
		next = at
	}
	if len(runs) < max {
		next = Looked{}
	}
	return found, next, nil
}

// AllSleepers returns the sleepers of all open runs.
func (tx *Tx) AllSleepers() (all []Sleeper, err error) {
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	members := make(map[writ.NodeID]bool, len(nodes))
	for _, n := range nodes {
		members[n.ID] = n.Admission == writ.AdmissionApproved
	}
	var at Looked
	for {
		found, next, err := tx.Sleepers(func(id writ.NodeID) bool { return members[id] }, at, 1000)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if next == (Looked{}) {
			return all, nil
		}
		at = next
	}
}

// StillAsleep returns the sleepers of the given runs.
func (tx *Tx) StillAsleep(isMember func(writ.NodeID) bool, runs []writ.RunID) (found []Sleeper, err error) {
	for _, id := range runs {
		some, _, err := tx.sleepersOf(id, isMember)
		if err != nil && !isForged(err) {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

func (tx *Tx) lookedRuns(query string, after Looked, max int) ([]Looked, error) {
	rows, err := tx.QueryContext(tx.ctx, query, after.due, string(after.run), max)
	return sqldb.List(rows, err, func(row *sql.Rows) (at Looked, err error) {
		err = row.Scan(&at.due, &at.run)
		return at, err
	})
}

// idleRuns selects open runs without a due pass.
const idleRuns = `SELECT due, id FROM runs WHERE open AND NOT pending AND (due, id) > ($1, $2) ORDER BY due, id LIMIT $3`

// OpenRunsAfter returns at most max open runs after a position, with the next position, which is zero at the end.
func (tx *Tx) OpenRunsAfter(after Looked, max int) (runs []writ.RunID, next Looked, err error) {
	some, err := tx.lookedRuns(openRunsAfter, after, max)
	for _, at := range some {
		runs = append(runs, at.run)
	}
	if len(some) == max {
		next = some[max-1]
	}
	return runs, next, err
}

const openRunsAfter = `SELECT due, id FROM runs WHERE open AND (due, id) > ($1, $2) ORDER BY due, id LIMIT $3`

// openRow holds the columns of an open call that the search for sleepers reads. It does not read the body.
type openRow struct {
	seq            int
	place          int64
	state          writ.CallState
	node           writ.NodeID
	claimed, ready bool
	retryAt        int64
}

// sleepersOf returns the sleepers of a run without a due pass, and the number of its open calls.
func (tx *Tx) sleepersOf(id writ.RunID, isMember func(writ.NodeID) bool) (found []Sleeper, open int, err error) {
	run, err := tx.Run(id)
	if err != nil || run == nil || run.State.Ended() || !run.Idle || run.StopsCalls() {
		return nil, 0, err
	}
	rows, err := tx.openRows(run)
	if err != nil {
		return nil, 0, err
	}
	awake := false
	for _, r := range rows {
		why := ""
		switch {
		case r.state.Sent() || r.ready:
			if !isMember(r.node) {
				why, err = tx.leftOn(r)
			}
		case r.retryAt > 0:
		case r.claimed && r.node != "":
			why, err = tx.unsent(r, rows)
		default: // the call waits for other calls of its run
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if awake = awake || why == ""; why != "" {
			found = append(found, Sleeper{id, r.seq, why})
		}
	}
	if !awake && len(found) == 0 {
		why := "it has no open call and has not ended"
		if len(rows) > 0 {
			why = fmt.Sprintf("its %d open calls wait for each other", len(rows))
		}
		found = append(found, Sleeper{Run: id, Why: why})
	}
	return found, len(rows), nil
}

// openRows returns the open calls of a run, in order.
func (tx *Tx) openRows(run *Run) ([]openRow, error) {
	rows, err := tx.QueryContext(tx.ctx, openRows, place(run.number, run.FirstEnded),
		place(run.number+slotsOf(run.number), 0))
	return sqldb.List(rows, err, func(row *sql.Rows) (r openRow, err error) {
		err = row.Scan(&r.seq, &r.place, &r.state, &r.node, &r.claimed, &r.ready, &r.retryAt)
		return r, err
	})
}

const openRows = `SELECT seq, place, state, node, claimed, ready, retry_at FROM calls WHERE place >= $1 AND place < $2 AND open ORDER BY place`

// leftOn returns why a call that is bound to a removed node has no wake-up. A call with on_loss "replace" has a
// wake-up: the statement of a person who declares the node lost.
func (tx *Tx) leftOn(r openRow) (why string, err error) {
	c, err := tx.callAt(r.place)
	if err != nil || c == nil {
		return "", err
	}
	if c.Options.OnLoss == "replace" {
		if n, err := tx.Node(r.node); err != nil || n != nil && !n.Gone {
			return "", err
		}
	}
	return fmt.Sprintf("it is bound to %s, which was removed", c.NodeName), nil
}

// unsent returns why a placed call without a check time has no wake-up: all calls that it waits for have ended. It
// returns "" if one of them is open.
func (tx *Tx) unsent(r openRow, rows []openRow) (why string, err error) {
	c, err := tx.callAt(r.place)
	if err != nil || c == nil {
		return "", err
	}
	isOpen := func(seq int) bool { return slices.ContainsFunc(rows, func(r openRow) bool { return r.seq == seq }) }
	if slices.ContainsFunc(c.After, isOpen) || slices.ContainsFunc(c.Orders, isOpen) {
		return "", nil
	}
	return "all calls that it waits for have ended, but it is not sent", nil
}

// callAt returns the call whose row has the key `place`, or nil.
func (tx *Tx) callAt(place int64) (*Call, error) {
	calls, err := tx.calls(`SELECT place, body FROM calls WHERE place = $1`, place)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return calls[0], nil
}
