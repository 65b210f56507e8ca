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
	runs      lastOf[writ.RunID, writ.Run]
	calls     lastOf[callKey, writ.Call]
	nodes     lastOf[writ.NodeID, writ.Node]
	resources lastOf[writ.ResourceID, writ.Resource]
	usage     []writ.Usage
}

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

func (c *changes) record(e writ.Event) {
	switch {
	case e.Run != nil:
		c.runs.set(e.Run.ID, *e.Run)
	case e.Call != nil:
		c.calls.set(callKey{e.Call.Run, e.Call.Seq}, *e.Call)
	case e.Node != nil:
		c.nodes.set(e.Node.ID, *e.Node)
	case e.Resource != nil:
		c.resources.set(e.Resource.ResourceID, *e.Resource)
	case e.Usage != nil:
		c.usage = append(c.usage, *e.Usage)
	}
}

// projectOf returns the project that owns an event of a datacenter. The ledger's record of the run takes precedence
// over the event.
func (c *changes) projectOf(e ledger.Event, known map[writ.RunID]runOwner) writ.ProjectID {
	if of, ok := known[e.RunID()]; ok && of.datacenter != e.Datacenter {
		return ""
	}
	if e.Resource != nil {
		return e.Resource.Project
	}
	if of, ok := known[e.About]; ok {
		return of.project
	}
	if i, ok := c.runs.at[e.About]; ok {
		return c.runs.values[i].Project
	}
	return ""
}

func (c *changes) apply(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string) error {
	for _, run := range c.runs.values {
		if err := storeRun(ctx, tx, datacenter, journal, run, fromEvent); err != nil {
			return err
		}
	}
	if err := deliverSubmissions(ctx, tx, datacenter, c.runs.values); err != nil {
		return err
	}
	for _, call := range c.calls.values {
		if err := storeCall(ctx, tx, call); err != nil {
			return err
		}
	}
	for _, run := range c.runs.values { // after the calls are stored
		if err := storeFailedOperation(ctx, tx, datacenter, run); err != nil {
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

// runOwner holds the datacenter and the project of a run.
type runOwner struct {
	datacenter writ.DatacenterID
	project    writ.ProjectID
}

// runsOf returns the stored owners of the runs in events. Unknown runs are omitted.
func runsOf(ctx context.Context, tx *sqldb.Tx, events []writ.Event) (map[writ.RunID]runOwner, error) {
	var ids []writ.RunID
	seen := map[writ.RunID]bool{"": true}
	for _, e := range events {
		if id := e.RunID(); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	q := selectFrom(`SELECT id, datacenter, project FROM runs`)
	andIn(q, "id", filled(ids))
	rows, err := tx.QueryContext(ctx, q.String(), q.args...)
	known := make(map[writ.RunID]runOwner, len(ids))
	err = each(rows, err, func(row scanner) error {
		var run writ.RunID
		var o runOwner
		err := row.Scan(&run, &o.datacenter, &o.project)
		known[run] = o
		return err
	})
	return known, err
}

// deliverSubmissions marks the submissions of runs as delivered once the datacenter has the runs. The answers to the
// submissions may have been lost.
func deliverSubmissions(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, runs []writ.Run) error {
	if len(runs) == 0 {
		return nil
	}
	ids := make([]writ.RunID, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	q := selectFrom(`SELECT ` + submissionColumns + ` FROM submissions`)
	andIn(q, "run", filled(ids))
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
	if err != nil || len(waiting) == 0 {
		return err
	}
	first, err := nextEventIDs(ctx, tx, len(waiting))
	if err != nil {
		return err
	}
	for i, s := range waiting {
		if err := tx.Queue(ctx, moveSubmissionText, string(writ.SubmissionDelivered), "", s.Payload.String()); err != nil {
			return err
		}
		s.State = writ.SubmissionDelivered
		if err := addEvent(ctx, tx, submissionEvent(tx, first+int64(i), s)); err != nil {
			return err
		}
	}
	return nil
}
