package sqlstore

import (
	"context"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// callTable holds copies of calls.
type callTable struct{ tables }

// callScanner returns a function that reads a call from the columns run, seq and body. For an unreadable call, it
// returns an error and a call with only the run and the number.
func callScanner(d *damage) func(row scanner) (writ.Call, error) {
	return func(row scanner) (writ.Call, error) {
		var run writ.RunID
		var seq int
		var text string
		if err := row.Scan(&run, &seq, &text); err != nil {
			return writ.Call{}, err
		}
		var call writ.Call
		if err := decode(text, &call); err != nil {
			return writ.Call{Run: run, Seq: seq}, d.row(err, "call %d of run %s", seq, run)
		}
		return call, nil
	}
}

// Calls lists the calls of a run.
func (s *callTable) Calls(ctx context.Context, run writ.RunID, p ledger.Page) (ledger.List[writ.Call], error) {
	after := int64(0)
	if p.Cursor != "" {
		if err := parseCursor(p.Cursor, &after); err != nil {
			return ledger.List[writ.Call]{}, err
		}
	}
	n := limit(p)
	rows, err := s.db.Query(ctx, `
		SELECT run, seq, body FROM calls
		WHERE run = $1 AND seq > $2
		ORDER BY seq
		LIMIT $3`, string(run), after, n+1)
	return page(rows, err, n, func(rows scanner) (writ.Call, []any, error) {
		call, err := callScanner(s.damage)(rows)
		return call, []any{call.Seq}, err
	})
}

// CountCalls counts the calls of runs by state.
func (s *callTable) CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error) {
	counts := map[writ.RunID]map[writ.CallState]int{}
	if len(runs) == 0 {
		return counts, nil
	}
	q := selectFrom(`SELECT run, state, COUNT(*) FROM calls`)
	andIn(q, "run", runs)
	q.add("\nGROUP BY run, state")
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	err = each(rows, err, func(row scanner) error {
		var run writ.RunID
		var state writ.CallState
		var n int
		err := row.Scan(&run, &state, &n)
		if counts[run] == nil {
			counts[run] = map[writ.CallState]int{}
		}
		counts[run][state] = n
		return err
	})
	return counts, err
}

// openCalls are the states of calls that have not ended.
var openCalls = []string{string(writ.CallPlanned), string(writ.CallQueued), string(writ.CallRunning)}

// OpenCalls returns the first open calls of each run, at most `max` of each, and maxPageBytes in total.
func (s *callTable) OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error) {
	open := map[writ.RunID][]writ.Call{}
	if len(runs) == 0 {
		return open, nil
	}
	q := selectFrom(`SELECT run, seq, body FROM (
		SELECT run, seq, body, ROW_NUMBER() OVER (PARTITION BY run ORDER BY seq) AS place FROM calls`)
	andIn(q, "run", runs)
	andIn(q, "state", openCalls)
	q.add(") AS numbered\nWHERE place <= ?\nORDER BY run, seq", max)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	calls, _, err := collectWithin(maxPageBytes, rows, err, callScanner(s.damage))
	for _, c := range calls {
		open[c.Run] = append(open[c.Run], c)
	}
	return open, err
}

// storeCalls stores calls. Each occurs once.
func storeCalls(ctx context.Context, tx *sqldb.Tx, calls ...encoded[writ.Call]) error {
	rows := make([][]any, len(calls))
	for i, c := range calls {
		call := c.value
		rows[i] = []any{string(call.Run), call.Seq, string(call.State), c.json, selectable(call.Name), lineOf(call),
			micros(call.Planned)}
	}
	return sqldb.QueueRows(ctx, tx, insertCalls, rows)
}

var insertCalls = sqldb.Insert{
	Into: `INSERT INTO calls (run, seq, state, body, name, line, planned)`,
	Then: `ON CONFLICT (run, seq) DO UPDATE SET state = excluded.state, body = excluded.body, name = excluded.name,
		line = excluded.line, planned = excluded.planned`,
}

// replaceable reads a call that is about to be replaced. For an unreadable call, it returns a call with only the run
// and the number.
func replaceable(row scanner) (writ.Call, error) {
	call, err := callScanner(new(damage))(row)
	if skip(err) {
		err = nil
	}
	return call, err
}

// endCalls ends the open calls of a run that has ended. No events report the end of these calls. It reads the calls in
// parts of bounded size.
func endCalls(ctx context.Context, tx *sqldb.Tx, run writ.Run) error {
	for after, more := 0, true; more; {
		q := selectFrom(`SELECT run, seq, body FROM calls`)
		q.and("run = ?", string(run.ID))
		q.and("seq > ?", after)
		andIn(q, "state", openCalls)
		q.add("\nORDER BY seq")
		rows, err := tx.QueryContext(ctx, q.String(), q.args...)
		var calls []writ.Call
		if calls, more, err = collectWithin(maxPageBytes, rows, err, replaceable); err != nil {
			return err
		}
		for _, c := range calls {
			after = c.Seq
			c.State, c.Ended = writ.CallFailed, run.Ended
			if run.Failure != nil {
				c.Error = &run.Failure.Error
			}
			if err := storeCalls(ctx, tx, encodedOf(c)); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeFailedOperation stores the operation that ended a run, if the ledger has a copy of the call.
func storeFailedOperation(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, run writ.Run) error {
	if run.Failure == nil || run.Failure.Seq == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT run, seq, body FROM calls WHERE run = $1 AND seq = $2`, string(run.ID),
		run.Failure.Seq)
	calls, err := collect(rows, err, callScanner(new(damage))) // an unreadable call is skipped
	if err != nil || len(calls) == 0 {
		return err
	}
	err = tx.Queue(ctx, `
		UPDATE runs
		SET failed_operation = $1
		WHERE id = $2 AND datacenter = $3 AND failure <> ''`, selectable(calls[0].Operation), string(run.ID),
		string(datacenter))
	return err
}
