package journal

import (
	"fmt"
	"slices"

	"writ"
)

// Every run that has not ended has something that wakes it, which a death of the supervisor does not take away:
//
//   - a pass of its script is due: the next supervisor begins with it, and a run of a deployment waits for an earlier one, which is open. One that was
//     accepted and is on hold waits for a person: after each decision about holds, the watch gives all open runs a step;
//   - it is being ended, and by when is set;
//   - one of its calls is out at a node that is still a member: the node reports, or its time there is over;
//   - one of its calls could be sent to such a node: the node is offered what it has room for. One that is lost is a member, too: a call that
//     never began and must be there waits until the node is back, or until a person decides that it is none any more;
//   - one of its calls has a time at which the watch looks at it: those on hold have one, too.
//
// Its deadline is none of them: a run that only its deadline ends is stuck. A call that waits for others of its run is woken by these.

// Sleeper is an open run, or a call of one, that nothing would wake before the deadline of the run.
type Sleeper struct {
	Run writ.RunID
	Seq int    // of the call, 0 if it is the run as a whole
	Why string // as half a sentence: "it is out at node n1, which was removed"
}

func (s Sleeper) String() string {
	if s.Seq == 0 {
		return fmt.Sprintf("run %s: %s", s.Run, s.Why)
	}
	return fmt.Sprintf("call %d of run %s: %s", s.Seq, s.Run, s.Why)
}

// Looked is a place in the order of Sleepers.
type Looked struct {
	due int64
	run writ.RunID
}

// Sleepers looks at no more open runs after a place in their order than have max open calls together, but at one at least, and returns what
// nothing would wake, with the place to go on from: the zero value after the last one. isMember says to which nodes jobs may be sent.
func (tx *Tx) Sleepers(isMember func(writ.NodeID) bool, after Looked, max int) (found []Sleeper, next Looked, err error) {
	runs, err := tx.idleRuns(after, max)
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

// AllSleepers returns what nothing would wake of all open runs.
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

// StillAsleep returns what of some runs still nothing would wake.
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

// idleRuns returns at most max open runs for which no pass is due.
func (tx *Tx) idleRuns(after Looked, max int) ([]Looked, error) {
	return tx.lookedRuns(idleRuns, after, max)
}

func (tx *Tx) lookedRuns(query string, after Looked, max int) ([]Looked, error) {
	rows, err := tx.QueryContext(tx.ctx, query, after.due, string(after.run), max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var runs []Looked
	for rows.Next() {
		var at Looked
		if err := rows.Scan(&at.due, &at.run); err != nil {
			return nil, err
		}
		runs = append(runs, at)
	}
	return runs, rows.Err()
}

const idleRuns = `SELECT due, id FROM runs WHERE open AND NOT pending AND (due, id) > ($1, $2) ORDER BY due, id LIMIT $3`

// OpenRunsAfter returns at most max open runs after a place in their order, with the place to go on from: the zero value after the last one.
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

// openRow is what the searches for what is due read of an open call: not its body, but the columns beside it.
type openRow struct {
	seq            int
	place          int64
	state          writ.CallState
	node           writ.NodeID
	claimed, ready bool
	retryAt        int64
}

// sleepersOf returns what nothing would wake of a run for which no pass is due, and how many open calls it has.
func (tx *Tx) sleepersOf(id writ.RunID, isMember func(writ.NodeID) bool) (found []Sleeper, open int, err error) {
	run, err := tx.Run(id)
	if err != nil || run == nil || run.State.Ended() || !run.Idle || run.Stop != nil && !run.StopBy.Equal(run.Deadline) {
		return nil, 0, err
	}
	rows, err := tx.openRows(run.number)
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
		default: // it waits for what others of its run wait for
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
		why := "nothing of it is open, and it has not ended"
		if len(rows) > 0 {
			why = fmt.Sprintf("its %d open calls wait for each other", len(rows))
		}
		found = append(found, Sleeper{Run: id, Why: why})
	}
	return found, len(rows), nil
}

// openRows returns the open calls of the run with a number, in their order.
func (tx *Tx) openRows(run int64) ([]openRow, error) {
	rows, err := tx.QueryContext(tx.ctx, openRows, place(run, 0), place(run+1, 0))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var calls []openRow
	for rows.Next() {
		var r openRow
		if err := rows.Scan(&r.seq, &r.place, &r.state, &r.node, &r.claimed, &r.ready, &r.retryAt); err != nil {
			return nil, err
		}
		calls = append(calls, r)
	}
	return calls, rows.Err()
}

const openRows = `SELECT seq, place, state, node, claimed, ready, retry_at FROM calls WHERE place >= $1 AND place < $2 AND open ORDER BY place`

// leftOn says why nothing wakes a call that is bound to a node which is no member any more. One whose script said that it waits for a person's
// word that the node never comes back is woken by that, until it was given.
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
	return fmt.Sprintf("it is bound to %s, which is no member any more", c.NodeName), nil
}

// unsent says why nothing wakes a call that has its node and no time, if all that it waits for has ended.
func (tx *Tx) unsent(r openRow, rows []openRow) (why string, err error) {
	c, err := tx.callAt(r.place)
	if err != nil || c == nil {
		return "", err
	}
	isOpen := func(seq int) bool { return slices.ContainsFunc(rows, func(r openRow) bool { return r.seq == seq }) }
	if slices.ContainsFunc(c.After, isOpen) || slices.ContainsFunc(c.Orders, isOpen) {
		return "", nil
	}
	return "all that it waits for has ended, and it is not sent", nil
}

// callAt returns the call in a place, nil if there is none.
func (tx *Tx) callAt(place int64) (*Call, error) {
	calls, err := tx.calls(`SELECT place, body FROM calls WHERE place = $1`, place)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return calls[0], nil
}
