package sqlstore

import (
	"context"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// changes holds the last state of each run, call, node and resource in a batch of events. Earlier states need not be
// written.
type changes struct {
	known     map[writ.RunID]storedRun // runs that the ledger had before
	runs      lastOf[writ.RunID, encoded[writ.Run]]
	calls     lastOf[callKey, encoded[writ.Call]]
	nodes     lastOf[writ.NodeID, encoded[writ.Node]]
	resources lastOf[writ.ResourceID, encoded[writ.Resource]]
	usage     []writ.Usage
}

// encoded is a value with its JSON. An event and the copy that it changes share the JSON.
type encoded[V any] struct {
	value V
	json  string
}

func encodedOf[V any](value V) encoded[V] { return encoded[V]{value, encode(value)} }

type callKey struct {
	run writ.RunID
	seq int
}

// lastOf holds the last value of each key, in the order of the keys' first appearance.
type lastOf[K comparable, V any] struct {
	at     map[K]int
	values []V
}

func (l *lastOf[K, V]) set(k K, v V) {
	if i, ok := l.at[k]; ok {
		l.values[i] = v
		return
	}
	if l.at == nil {
		l.at = map[K]int{}
	}
	l.at[k] = len(l.values)
	l.values = append(l.values, v)
}

// record records the change of an event, whose subject has the given JSON.
func (c *changes) record(e writ.Event, subject string) {
	switch {
	case e.Run != nil:
		c.runs.set(e.Run.ID, encoded[writ.Run]{*e.Run, subject})
	case e.Call != nil:
		c.calls.set(callKey{e.Call.Run, e.Call.Seq}, encoded[writ.Call]{*e.Call, subject})
	case e.Node != nil:
		c.nodes.set(e.Node.ID, encoded[writ.Node]{*e.Node, subject})
	case e.Resource != nil:
		c.resources.set(e.Resource.ResourceID, encoded[writ.Resource]{*e.Resource, subject})
	case e.Usage != nil:
		c.usage = append(c.usage, *e.Usage)
	}
}

// projectOf returns the project that owns an event of a datacenter. The ledger's record of the run takes precedence
// over the event.
func (c *changes) projectOf(e ledger.Event) writ.ProjectID {
	if of, ok := c.known[e.RunID()]; ok && of.datacenter != e.Datacenter {
		return ""
	}
	if e.Resource != nil {
		return e.Resource.Project
	}
	if of, ok := c.known[e.About]; ok {
		return of.project
	}
	if i, ok := c.runs.at[e.About]; ok {
		return c.runs.values[i].value.Project
	}
	return ""
}

// mayWait returns the runs whose submissions may wait. A run that has left the state waiting has no waiting submission.
func (c *changes) mayWait() (ids []writ.RunID) {
	for _, run := range c.runs.values {
		if of, ok := c.known[run.value.ID]; !ok || of.state == ledger.StateWaiting {
			ids = append(ids, run.value.ID)
		}
	}
	return ids
}

func (c *changes) apply(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string) error {
	if err := c.storeRuns(ctx, tx, datacenter, journal); err != nil {
		return err
	}
	if err := deliverSubmissions(ctx, tx, datacenter, c.mayWait()); err != nil {
		return err
	}
	if err := storeCalls(ctx, tx, c.calls.values...); err != nil {
		return err
	}
	for _, run := range c.runs.values { // after the calls are stored
		if err := storeFailedOperation(ctx, tx, datacenter, run.value); err != nil {
			return err
		}
	}
	for _, node := range c.nodes.values {
		if err := storeNode(ctx, tx, datacenter, node); err != nil {
			return err
		}
	}
	for _, resource := range c.resources.values {
		if err := storeResource(ctx, tx, datacenter, resource); err != nil {
			return err
		}
	}
	for _, u := range c.usage {
		if err := storeUsage(ctx, tx, datacenter, u); err != nil {
			return err
		}
	}
	return nil
}

// storeRuns stores the runs and updates the numbers of ended runs.
func (c *changes) storeRuns(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string) error {
	var before, after []writ.RunID // ended runs
	for _, run := range c.runs.values {
		id := run.value.ID
		if c.known[id].ended > 0 {
			before = append(before, id)
		}
		if c.known[id].ended > 0 || run.value.State.Ended() {
			after = append(after, id)
		}
	}
	if err := addEnded(ctx, tx, "-COUNT(*)", before); err != nil {
		return err
	}
	for _, run := range c.runs.values {
		if err := storeReported(ctx, tx, datacenter, journal, run, c.known, fromEvent); err != nil {
			return err
		}
	}
	return addEnded(ctx, tx, "COUNT(*)", after)
}

// withoutValues returns the event as the ledger stores it: under the datacenter that sent it and without the values of
// operations.
func withoutValues(e writ.Event, datacenter writ.DatacenterID) writ.Event {
	switch {
	case e.Run != nil:
		run := *e.Run
		run.Datacenter, run.Output = datacenter, nil
		e.Run = &run
	case e.Node != nil:
		node := *e.Node
		node.Datacenter = datacenter
		e.Node = &node
	case e.Resource != nil:
		resource := *e.Resource
		resource.Datacenter, resource.Values = datacenter, nil
		e.Resource = &resource
	}
	return e
}

// storedRun holds columns of a run in the ledger.
type storedRun struct {
	datacenter writ.DatacenterID
	project    writ.ProjectID
	state      ledger.State
	number     int64
	accepted   int64
	ended      int64
	// The columns of the indexes that an update need not change.
	script, deployment, failure string
}

// eventRuns returns the runs of events, each once.
func eventRuns(events []writ.Event) (ids []writ.RunID) {
	seen := map[writ.RunID]bool{"": true}
	for _, e := range events {
		if id := e.RunID(); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// runsOf returns stored runs. Unknown runs are omitted.
func runsOf(ctx context.Context, tx *sqldb.Tx, ids []writ.RunID) (map[writ.RunID]storedRun, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	q := selectFrom(`
		SELECT id, datacenter, project, state, number, accepted, ended, script, deployment, failure FROM runs`)
	andIn(q, "id", filled(ids))
	rows, err := tx.QueryContext(ctx, q.String(), q.args...)
	known := make(map[writ.RunID]storedRun, len(ids))
	err = each(rows, err, func(row scanner) error {
		var run writ.RunID
		var s storedRun
		err := row.Scan(&run, &s.datacenter, &s.project, &s.state, &s.number, &s.accepted, &s.ended, &s.script, &s.deployment,
			&s.failure)
		known[run] = s
		return err
	})
	return known, err
}

// deliverSubmissions marks the submissions of runs as delivered once the datacenter has the runs. The answers to the
// submissions may have been lost.
func deliverSubmissions(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, runs []writ.RunID,
) error {
	if len(runs) == 0 {
		return nil
	}
	q := selectFrom(`SELECT ` + submissionColumns + ` FROM submissions`)
	andIn(q, "run", filled(runs))
	q.and("datacenter = ?", string(datacenter))
	q.and("state = 'waiting'")
	q.add("\nORDER BY received, payload")
	rows, err := tx.QueryContext(ctx, q.String(), q.args...)
	waiting, err := collect(rows, err, func(row scanner) (writ.Submission, error) {
		s, err := new(damage).scanSubmission(row)
		if isShown(s, err) {
			s.Error, err = nil, nil
		}
		return s, err // the event counts even if the submission is unreadable
	})
	if err != nil {
		return err
	}
	for _, s := range waiting {
		if err := tx.Queue(ctx, moveSubmissionText, string(writ.SubmissionDelivered), "", s.Payload.String()); err != nil {
			return err
		}
		s.State = writ.SubmissionDelivered
		if err := addSubmissionEvent(ctx, tx, s); err != nil {
			return err
		}
	}
	return nil
}
