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
type runTable struct {
	tables
	ended endedCounts
}

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
) (ledger.List[ledger.Run], error) {
	if !isSearch(filter) {
		q, err := listRuns(filter, p)
		if err != nil {
			return ledger.List[ledger.Run]{}, err
		}
		return s.readRuns(ctx, q, p)
	}
	found, end, err := search(ctx, s.db, filter, p, most)
	if err != nil {
		return ledger.List[ledger.Run]{}, err
	}
	list := ledger.List[ledger.Run]{Items: []ledger.Run{}}
	if len(found) > 0 {
		if list, err = s.readRuns(ctx, foundRuns(found, filter.Oldest), p); err != nil {
			return list, err
		}
	}
	if len(found) > limit(p) { // also if the run that follows the page was just deleted
		end = &found[limit(p)-1]
	}
	if list.Next == "" && end != nil {
		list.Next = cursor(end.created, end.id)
	}
	return list, nil
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

// CountRuns counts the selected runs. With a text, it counts those among the newest ledger.MaxExamined. In a large ledger,
// the numbers of ended runs may be some seconds old, see endedCounts.
func (s *runTable) CountRuns(ctx context.Context, filter ledger.RunFilter) (ledger.RunCounts, error) {
	if filter.Text != "" {
		return countFound(ctx, s.db, filter, maxExamined)
	}
	counts := ledger.RunCounts{}
	open, ended := countRuns(filter)
	if open != nil {
		if err := addCounts(ctx, s.db, counts, open); err != nil {
			return nil, err
		}
	}
	if ended != nil {
		if err := s.ended.add(ctx, s.db, counts, ended); err != nil {
			return nil, err
		}
	}
	return counts, nil
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

// Failures groups the selected runs by code and operation, among the newest ledger.MaxExamined failed runs.
func (s *runTable) Failures(ctx context.Context, filter ledger.RunFilter, max int) ([]ledger.Failures, error) {
	q := groupFailures(filter, maxExamined)
	q.add("\nGROUP BY failure, failed_operation\nORDER BY COUNT(*) DESC, failure, failed_operation\nLIMIT ?", max)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return collect(rows, err, func(rows scanner) (f ledger.Failures, err error) {
		var newest int64
		err = rows.Scan(&f.Code, &f.Operation, &f.Runs, &newest)
		f.Newest = sqldb.Time(newest)
		return f, err
	})
}

// groupFailures builds the query of Failures without its groups. It reads the newest `most` failed runs. A project has
// many runs for each failed one, so the query uses the index of failed runs.
func groupFailures(filter ledger.RunFilter, most int) *query {
	q := selectFrom(`SELECT failure, failed_operation, COUNT(*), MAX(created) FROM (` + examined)
	listed := listedBy(filter)
	listed.Projects = nil
	selectRuns(q, listed, byCreation)
	q.and("failure <> ''")
	andIn(q, "project || ''", filter.Projects)
	q.add("\nORDER BY created DESC\nLIMIT ?) AS examined", most)
	q.where = false
	andFound(q, filter)
	return q
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
