package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// runTable holds copies of runs.
type runTable struct{ tables }

const runColumns = `SELECT id, datacenter, project, project_name, signer, state, created, logs_only, body FROM runs`

// scanRun reads a run from runColumns. If its body is unreadable, the error is an unreadableRow and the run has the
// other columns.
func (s *runTable) scanRun(row scanner) (run ledger.Run, err error) {
	var id, datacenter, project, projectName, signer, text string
	var created int64
	var logsOnly bool
	err = row.Scan(&id, &datacenter, &project, &projectName, &signer, &run.State, &created, &logsOnly, &text)
	if err != nil {
		return run, err
	}
	if err = decode(text, &run.Run); err != nil {
		run.Run, err = writ.Run{}, s.damage.row(err, "run %s", id)
	}
	run.ID, run.Datacenter, run.Signer = writ.RunID(id), writ.DatacenterID(datacenter), signer
	run.Project, run.ProjectName = writ.ProjectID(project), projectName
	run.Created, run.LogsOnly = sqldb.Time(created), logsOnly
	return run, err
}

// shownRun is scanRun for readers: an unreadable run is shown with the error as its failure.
func (s *runTable) shownRun(row scanner) (ledger.Run, error) {
	run, err := s.scanRun(row)
	if skip(err) {
		e, _ := errors.AsType[*unreadableRow](err)
		run.Failure, err = &writ.Failure{Error: *e.Unreadable.Error()}, nil
	}
	return run, err
}

// Run returns a run.
func (s *runTable) Run(ctx context.Context, id writ.RunID) (ledger.Run, error) {
	return found(s.shownRun(s.db.QueryRow(ctx, runColumns+` WHERE id = $1`, string(id))))("run", id)
}

// Runs lists runs, newest first unless the filter sets Oldest.
func (s *runTable) Runs(ctx context.Context, filter ledger.RunFilter, p ledger.Page) (ledger.List[ledger.Run], error) {
	return s.runs(ctx, filter, p, maxExamined)
}

// runs is Runs with the number of runs that a search may read.
func (s *runTable) runs(
	ctx context.Context, filter ledger.RunFilter, p ledger.Page, most int,
) (list ledger.List[ledger.Run], err error) {
	d, err := divisionOf(ctx, s.db, filter)
	if err != nil {
		return list, err
	}
	var end *place
	if d.isSearch() {
		if end, err = d.pageEnd(ctx, s.db, p, most); err != nil {
			return list, err
		}
	}
	q, err := d.list(s.db, p, end)
	if err != nil {
		return list, err
	}
	if list, err = s.readRuns(ctx, q, p); err == nil && list.Next == "" && end != nil {
		list.Next = cursor(end.created, end.id)
	}
	return list, err
}

// readRuns reads a page of runs.
func (s *runTable) readRuns(ctx context.Context, q *query, p ledger.Page) (ledger.List[ledger.Run], error) {
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return page(rows, err, limit(p), func(rows scanner) (ledger.Run, []any, error) {
		run, err := s.shownRun(rows)
		return run, []any{micros(run.Created), run.ID}, err
	})
}

// LastHeard returns when the last event of each run was stored. Log lines do not count.
func (s *runTable) LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error) {
	heard := map[writ.RunID]time.Time{}
	if len(runs) == 0 {
		return heard, nil
	}
	q := selectFrom("SELECT id, " + lastStored + " FROM runs")
	andIn(q, "id", runs)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	err = each(rows, err, func(row scanner) error {
		var run writ.RunID
		var stored int64
		err := row.Scan(&run, &stored)
		if stored > 0 {
			heard[run] = sqldb.Time(stored)
		}
		return err
	})
	return heard, err
}

// lastStored is the time at which the last event of a run was stored, or 0. It ignores log lines, which are no sign of
// progress. A run has at most scripts.MaxLogLines log lines, which bounds the rows read. Each part uses its own index.
const lastStored = `COALESCE(
	(SELECT stored FROM events WHERE run_number = runs.number AND run_number > 0 AND topic <> 'log'
		ORDER BY events.id DESC LIMIT 1),
	(SELECT stored FROM events WHERE events.run = runs.id AND run_number = 0 AND events.run <> '' AND topic <> 'log'
		ORDER BY events.id DESC LIMIT 1), 0)`

// CountRuns counts the selected runs. It reads all open runs, and the stored numbers of ended runs or the newest
// ledger.MaxExamined of them. With a text, a failure or an operation, it reads the newest ledger.MaxExamined runs.
func (s *runTable) CountRuns(ctx context.Context, filter ledger.RunFilter) (ledger.RunCounts, error) {
	return s.countRuns(ctx, filter, maxExamined)
}

// countRuns is CountRuns with the number of runs that are read if they are not counted by the store.
func (s *runTable) countRuns(ctx context.Context, filter ledger.RunFilter, most int) (ledger.RunCounts, error) {
	counts := ledger.RunCounts{}
	if filter.Text+string(filter.Failure)+filter.Operation != "" {
		return counts, countNewest(ctx, s.db, counts, filter, most)
	}
	if open := countOpen(filter); open != nil {
		if err := addCounts(ctx, s.db, counts, open); err != nil {
			return nil, err
		}
	}
	_, ended := split(statesOf(filter))
	switch {
	case len(ended) == 0:
		return counts, nil
	case isCounted(filter):
		return counts, addCounts(ctx, s.db, counts, sumEnded(filter))
	}
	filter.States = ended
	return counts, countNewest(ctx, s.db, counts, filter, most)
}

// addCounts adds the numbers that a query returns.
func addCounts(ctx context.Context, db *sqldb.DB, to ledger.RunCounts, q *query) error {
	rows, err := db.Query(ctx, q.String(), q.args...)
	return each(rows, err, func(row scanner) error {
		var project writ.ProjectID
		var state ledger.State
		var n int
		err := row.Scan(&project, &state, &n)
		add(to, project, state, n)
		return err
	})
}

// add adds a number to counts.
func add(to ledger.RunCounts, project writ.ProjectID, state ledger.State, n int) {
	if to[project] == nil {
		to[project] = map[ledger.State]int{}
	}
	to[project][state] += n
}

// LatestEnd returns the latest end of an accepted run.
func (s *runTable) LatestEnd(ctx context.Context) (time.Time, error) {
	var ended int64
	err := s.db.QueryRow(ctx, `
		SELECT ended FROM runs
		WHERE ended > 0 AND accepted > 0
		ORDER BY ended DESC
		LIMIT 1`).Scan(&ended)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return sqldb.Time(ended), err
}
