package sqlstore

import (
	"context"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// failing lists the states of runs that can have a failure.
var failing = []ledger.State{
	ledger.StateRefused, ledger.State(writ.RunFailed), ledger.State(writ.RunCancelled), ledger.State(writ.RunExpired),
}

// Failures groups the selected runs by code and operation, among the newest ledger.MaxExamined failed runs.
func (s *runTable) Failures(ctx context.Context, filter ledger.RunFilter, max int) ([]ledger.Failures, error) {
	q, err := groupFailures(ctx, s.db, filter, maxExamined)
	if err != nil {
		return nil, err
	}
	q.add("\nORDER BY COUNT(*) DESC, failure, failed_operation\nLIMIT ?", max)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return collect(rows, err, func(rows scanner) (f ledger.Failures, err error) {
		var newest int64
		err = rows.Scan(&f.Code, &f.Operation, &f.Runs, &newest)
		f.Newest = sqldb.Time(newest)
		return f, err
	})
}

// groupFailures builds the query of Failures without its order. It reads the newest `most` failed runs. The index of all
// failed runs has no names, so a filter with a name uses the index of the name and of the states of failed runs.
func groupFailures(ctx context.Context, db *sqldb.DB, filter ledger.RunFilter, most int) (*query, error) {
	const columns, groups = "failure, failed_operation, COUNT(*), MAX(created)", "failure, failed_operation"
	named := len(names(filter)) > 0 || len(filter.Projects) > 0 || filter.Script+filter.Deployment+filter.Prefix != ""
	if named && len(filter.States) == 0 {
		filter.States = failing
	}
	d, err := divisionOf(ctx, db, filter)
	if err != nil {
		return nil, err
	}
	d.failed = true
	if named || len(filter.States) > 0 {
		return d.newest(db, columns, groups, most)
	}
	d.moveLogs()
	read := "created, " + groups
	if filter.Text != "" { // a text also selects by calls
		read += ", id"
	}
	q := selectFrom("SELECT " + columns + " FROM (SELECT " + d.examined(read) + " FROM runs" + db.Using("runs_by_failure"))
	selectRuns(q, d.listed)
	q.and("failure <> ''")
	q.add("\nORDER BY created DESC")
	d.endNewest(q, groups, most)
	return q, nil
}
