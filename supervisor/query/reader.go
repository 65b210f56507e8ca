// Package query answers questions of coordinators about the records of a datacenter: runs with their log lines and
// results, resources, secrets and queues. It only reads the journal, and does not check rights: the coordinator does.
package query

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// maxLogLines limits the log lines of one answer.
const maxLogLines = 1000

// Reader reads records of the journal. All fields are required.
type Reader struct {
	Journal    *journal.Journal
	Datacenter writ.DatacenterID
	KeepRuns   time.Duration // retention time of ended runs, for hints
}

// Record loads a run from the journal. The error of an unknown run is NOT_FOUND.
func (r *Reader) Record(ctx context.Context, id writ.RunID) (*journal.Run, error) {
	run, err := journal.Query(ctx, r.Journal, func(tx *journal.Tx) (*journal.Run, error) { return tx.Run(id) })
	if err == nil && run == nil {
		err = unknownRun(id).WithHint("it forgets runs %s after their end", retention(r.KeepRuns))
	}
	return run, err
}

// retention formats a retention time: in days from two days on, otherwise as a duration.
func retention(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return catalog.ShortDuration(d)
	}
	return fmt.Sprintf("%d days", d/day)
}

func unknownRun(id writ.RunID) *writ.Error {
	return writ.Errorf(writ.CodeNotFound, "this datacenter has no run %s", id)
}

// Run loads a run from the journal for display, without its output.
func (r *Reader) Run(ctx context.Context, id writ.RunID) (writ.Run, error) {
	run, err := r.Record(ctx, id)
	if err != nil {
		return writ.Run{}, err
	}
	shown := run.Run
	shown.Output = nil
	return shown, nil
}

// ProjectOf returns the project of a run. A Verifier needs it for statements about runs.
func (r *Reader) ProjectOf(id writ.RunID) (writ.ProjectID, error) {
	run, err := r.Run(context.Background(), id)
	return run.Project, err
}

// Logs returns log lines of a run's script.
func (r *Reader) Logs(ctx context.Context, p link.Logs) ([]writ.LogLine, error) {
	if _, err := r.Record(ctx, p.Run); err != nil {
		return nil, err
	}
	limit := maxLogLines
	if p.Max > 0 {
		limit = min(p.Max, maxLogLines)
	}
	return journal.Query(ctx, r.Journal, func(tx *journal.Tx) ([]writ.LogLine, error) {
		return tx.Logs(p.Run, p.After, limit)
	})
}

// Values returns a run with its output, and the results of some of its calls.
func (r *Reader) Values(ctx context.Context, p link.Values) (link.RunValues, error) {
	var v link.RunValues
	err := r.Journal.Read(ctx, func(tx *journal.Tx) error {
		run, err := tx.Run(p.Run)
		if err != nil {
			return err
		}
		if run == nil {
			return unknownRun(p.Run)
		}
		v.Run = run.Run
		calls, err := journal.NextCalls(tx, run, p.After, p.Max)
		for _, c := range calls {
			v.Calls = append(v.Calls, link.CallValues{Call: c.Call, Args: c.Args, Values: c.Values})
		}
		return err
	})
	return v, err
}

// Resources returns the resources of a project, or of all projects.
func (r *Reader) Resources(ctx context.Context, p link.Resources) ([]writ.Resource, error) {
	found := []writ.Resource{}
	err := r.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, err := tx.Resources()
		for _, resource := range all {
			if p.Project == "" || resource.Project == p.Project {
				found = append(found, resource.Resource)
			}
		}
		return err
	})
	return found, err
}

// Secrets returns the secrets of a project, or of all projects, without their values.
func (r *Reader) Secrets(ctx context.Context, p link.Secrets) ([]writ.Secret, error) {
	all, err := journal.Query(ctx, r.Journal, func(tx *journal.Tx) ([]writ.Secret, error) { return tx.Secrets(p.Project) })
	for i := range all {
		all[i].Datacenter = r.Datacenter
	}
	return all, err
}
