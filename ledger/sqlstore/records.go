package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// addRun stores a run and returns true, or returns false if it exists. parameters is the searchable text of its
// parameters, "" if unknown.
func addRun(ctx context.Context, tx *sqldb.Tx, run ledger.Run, journal, parameters string) (bool, error) {
	return affected(tx.ExecContext(ctx, `
		INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body, journal, script, deployment, failure, words, parameters)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		ON CONFLICT (id) DO NOTHING`,
		string(run.ID), string(run.Datacenter), string(run.Project), run.ProjectName, run.Signer, string(run.State),
		micros(run.Created), micros(run.Accepted), micros(run.Ended), encode(run.Run), journal,
		selectable(run.Script), selectable(run.Deployment), failureCode(run.Run), wordsOf(run.Run), parameters))
}

// failureCode returns the code of a run's failure, "" if it did not fail.
func failureCode(run writ.Run) string {
	if run.Failure == nil {
		return ""
	}
	return selectable(string(run.Failure.Code))
}

// storeFailedOperation stores the operation that ended a run, if the ledger has a copy of the call.
func storeFailedOperation(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, run writ.Run) error {
	if run.Failure == nil || run.Failure.Seq == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT run, seq, body FROM calls WHERE run = $1 AND seq = $2`, string(run.ID),
		run.Failure.Seq)
	calls, err := collect(rows, err, callScanner(new(damage))) // unreadable until an event replaces it
	if err != nil || len(calls) == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE runs
		SET failed_operation = $1
		WHERE id = $2 AND datacenter = $3 AND failure <> ''`, selectable(calls[0].Operation), string(run.ID),
		string(datacenter))
	return err
}

// selectable returns a name for an indexed column. It returns "" for a name that no payload can contain: an index
// accepts only short texts, and PostgreSQL rejects zero bytes. The body keeps the name as the datacenter sent it.
func selectable(name string) string {
	if len(name) > 255 || strings.ContainsRune(name, 0) {
		return ""
	}
	return name
}

// reportSource determines the precedence of a datacenter's report about a run.
type reportSource bool

const (
	fromAnswer reportSource = false // the answer to the submission: used only if no event has reported the run
	fromEvent  reportSource = true  // an event: replaces the stored copy
)

// storeRun stores a datacenter's report of one of its runs. It comes from an event of a journal, or from an answer if
// journal is empty. The signer, the project and the creation time of the submission stay unchanged, as do runs of other
// datacenters.
func storeRun(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string, run writ.Run, source reportSource,
) error {
	run.Datacenter, run.Output = datacenter, nil
	copied := ledger.Run{Run: run, State: ledger.State(run.State), Created: run.Accepted}
	added, err := addRun(ctx, tx, copied, journal, "")
	if err != nil || added {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE runs
		SET state = $1, accepted = $2, ended = $3, body = $4, journal = $5, script = $6, deployment = $7, failure = $8, failed_operation = '', words = $9
		WHERE id = $10 AND datacenter = $11 AND (accepted = 0 OR $12)`,
		string(run.State), micros(run.Accepted), micros(run.Ended), encode(run), journal, selectable(run.Script),
		selectable(run.Deployment), failureCode(run), wordsOf(run), string(run.ID), string(datacenter), bool(source))
	return err
}

// Unreported lists open runs that the journal has not reported.
func (s *Store) Unreported(
	ctx context.Context, datacenter writ.DatacenterID, journal string, after writ.RunID, max int,
) ([]ledger.Run, error) {
	for {
		read := 0
		rows, err := s.db.Query(ctx, runColumns+`
			WHERE datacenter = $1 AND journal <> $2 AND id > $3 AND ended = 0 AND accepted <> 0
			ORDER BY id
			LIMIT $4`, string(datacenter), journal, string(after), max)
		runs, full, err := collectWithin(maxPageBytes, rows, err, func(row scanner) (ledger.Run, error) {
			read++
			run, err := s.scanRun(row)
			after = run.ID
			return run, err
		})
		if err != nil || len(runs) > 0 || read == 0 || !full && read < max { // again only if all runs of a page are unreadable
			return runs, err
		}
	}
}

// Restate stores a datacenter's answer about a run.
func (s *Store) Restate(ctx context.Context, datacenter writ.DatacenterID, journal string, run writ.Run) error {
	err := s.db.Write(failpoint.At(ctx, failpoint.RunRestated), func(tx *sqldb.Tx) error {
		var told string
		var project writ.ProjectID
		err := tx.QueryRowContext(ctx, `SELECT journal, project FROM runs WHERE id = $1`, string(run.ID)).Scan(&told,
			&project)
		// The journal's events are newer than the answer.
		if told, err = found(told, err)("run", run.ID); err != nil || told == journal {
			return err
		}
		if err := storeRun(ctx, tx, datacenter, journal, run, fromEvent); err != nil {
			return err
		}
		if run.State.Ended() {
			if err := endCalls(ctx, tx, run); err != nil {
				return err
			}
		}
		if err := storeFailedOperation(ctx, tx, datacenter, run); err != nil {
			return err
		}
		id, err := nextEventIDs(ctx, tx, 1)
		if err != nil {
			return err
		}
		e := withoutValues(writ.Event{Time: tx.Now, Run: &run}, datacenter)
		return addEvent(ctx, tx,
			ledger.Event{ID: id, Datacenter: datacenter, Event: e, About: run.ID, Project: project})
	})
	if err != nil {
		return fmt.Errorf("restate run: %w", err)
	}
	return nil
}

// replaceable reads a call that is about to be replaced. An unreadable call becomes one with its number only.
func replaceable(row scanner) (writ.Call, error) {
	call, err := callScanner(new(damage))(row)
	if skip(err) {
		err = nil
	}
	return call, err
}

// endCalls ends the open calls of a run that has ended without events for these calls. It reads them in parts of
// bounded size.
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
			if err := storeCall(ctx, tx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func storeCall(ctx context.Context, tx *sqldb.Tx, call writ.Call) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO calls (run, seq, state, body, name, line, planned)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (run, seq) DO UPDATE SET state = excluded.state, body = excluded.body, name = excluded.name, line = excluded.line,
			planned = excluded.planned`,
		string(call.Run), call.Seq, string(call.State), encode(call), selectable(call.Name), lineOf(call),
		micros(call.Planned))
	return err
}

func storeNode(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, node writ.Node) error {
	node.Datacenter = datacenter
	_, err := tx.ExecContext(ctx, `
		INSERT INTO nodes (datacenter, id, name, admission, body)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (datacenter, id) DO UPDATE SET name = excluded.name, admission = excluded.admission, body = excluded.body`,
		string(datacenter), string(node.ID), node.Name, string(node.Admission), encode(node))
	return err
}

func storeResource(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, r writ.Resource) error {
	if r.Deleted {
		_, err := tx.ExecContext(ctx, `
			DELETE FROM resources
			WHERE datacenter = $1 AND project = $2 AND kind = $3 AND name = $4`,
			string(datacenter), string(r.Project), string(r.Kind), r.Name)
		return err
	}
	r.Datacenter, r.Values = datacenter, nil
	_, err := tx.ExecContext(ctx, `
		INSERT INTO resources (datacenter, project, kind, name, node, deployment, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (datacenter, project, kind, name)
		DO UPDATE SET node = excluded.node, deployment = excluded.deployment, body = excluded.body`,
		string(datacenter), string(r.Project), string(r.Kind), r.Name, string(r.Node), r.Deployment, encode(r))
	return err
}

const runColumns = `SELECT id, datacenter, project, project_name, signer, state, created, body FROM runs`

// scanRun reads a run from runColumns. If its body is unreadable, the error is an unreadableRow and the run has the other
// columns.
func (s *Store) scanRun(row scanner) (run ledger.Run, err error) {
	var id, datacenter, project, projectName, signer, text string
	var created int64
	if err := row.Scan(&id, &datacenter, &project, &projectName, &signer, &run.State, &created, &text); err != nil {
		return run, err
	}
	if err = decode(text, &run.Run); err != nil {
		run.Run, err = writ.Run{}, s.damage.row(err, "run %s", id)
	}
	run.ID, run.Datacenter, run.Signer = writ.RunID(id), writ.DatacenterID(datacenter), signer
	run.Project, run.ProjectName = writ.ProjectID(project), projectName
	run.Created = sqldb.Time(created)
	return run, err
}

// shownRun is scanRun for readers: an unreadable run is shown with the error as its failure.
func (s *Store) shownRun(row scanner) (ledger.Run, error) {
	run, err := s.scanRun(row)
	if skip(err) {
		e, _ := errors.AsType[*unreadableRow](err)
		run.Failure, err = &writ.Failure{Error: *e.Unreadable.Error()}, nil
	}
	return run, err
}

// Run returns a run.
func (s *Store) Run(ctx context.Context, id writ.RunID) (ledger.Run, error) {
	return found(s.shownRun(s.db.QueryRow(ctx, runColumns+` WHERE id = $1`, string(id))))("run", id)
}

// Runs lists runs, newest first unless the filter sets Oldest.
func (s *Store) Runs(ctx context.Context, filter ledger.RunFilter, p ledger.Page) (ledger.List[ledger.Run], error) {
	q, err := listRuns(filter, p)
	if err != nil {
		return ledger.List[ledger.Run]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return page(rows, err, limit(p), func(rows scanner) (ledger.Run, []any, error) {
		run, err := s.shownRun(rows)
		return run, []any{micros(run.Created), run.ID}, err
	})
}

// listRuns builds the query for a page of runs and one more.
func listRuns(filter ledger.RunFilter, p ledger.Page) (*query, error) {
	q := selectFrom(runColumns)
	selectRuns(q, filter)
	before, order := "<", "DESC"
	if filter.Oldest {
		before, order = ">", "ASC"
	}
	if p.Cursor != "" {
		var created int64
		var id string
		if err := parseCursor(p.Cursor, &created, &id); err != nil {
			return nil, err
		}
		q.and("(created, id) "+before+" (?, ?)", created, id)
	}
	q.add("\nORDER BY created "+order+", id "+order+"\nLIMIT ?", limit(p)+1)
	return q, nil
}

// selectRuns adds the conditions of a filter.
func selectRuns(q *query, filter ledger.RunFilter) {
	state, datacenter, project, signer := "state", "datacenter", "project", "signer"
	// The indexes of scripts and deployments have fewer entries. The others would scan all runs of a project.
	if filter.Script != "" || filter.Deployment != "" {
		datacenter, project, signer = "datacenter || ''", "project || ''", "signer || ''"
		if filter.Silent.IsZero() { // few runs are open
			state = "state || ''"
		}
	}
	andIn(q, state, filter.States)
	if filter.Datacenter != "" {
		q.and(datacenter+" = ?", string(filter.Datacenter))
	}
	andIn(q, project, filter.Projects)
	if filter.Signer != "" {
		q.and(signer+" = ?", filter.Signer)
	}
	if filter.Prefix != "" {
		q.and("id >= ? AND id < ?", filter.Prefix, filter.Prefix+"~") // sorts after all characters of an id
	}
	if filter.Script != "" {
		q.and("script = ?", filter.Script)
	}
	if filter.Deployment != "" {
		q.and("deployment = ?", filter.Deployment)
	}
	if filter.Text != "" {
		andText(q, filter.Text)
	}
	if !filter.Since.IsZero() {
		q.and("created >= ?", micros(filter.Since))
	}
	if filter.Failure != "" {
		q.and("failure = ?", string(filter.Failure))
	}
	switch filter.Operation {
	case "":
	case ledger.NoOperation:
		q.and("failure <> '' AND failed_operation = ''")
	default:
		q.and("failure <> '' AND failed_operation = ?", filter.Operation)
	}
	if !filter.Silent.IsZero() {
		silentSince(q, filter.Silent)
	}
}

// silentSince adds the conditions for open runs created before since that make no progress: they have no later event
// except log lines, or they repeat one call. A run whose events were pruned has no event.
func silentSince(q *query, since time.Time) {
	andIn(q, "state", openStates)
	q.and("created < ?", micros(since))
	q.and("("+lastStored+" < ? OR "+repeats+")", micros(since))
}

// lastStored is the time at which the last event of a run was stored, or 0. It ignores log lines, which are no sign of
// progress. A run has at most scripts.MaxLogLines of them, which bounds the rows read.
const lastStored = "COALESCE((SELECT stored FROM events WHERE events.run = runs.id AND topic <> 'log' ORDER BY events.id DESC LIMIT 1), 0)"

// openStates lists the states of runs that have not ended.
var openStates = []string{string(ledger.StateWaiting), string(writ.RunAccepted), string(writ.RunRunning)}

// LastHeard returns when the last event of each run was stored. Log lines do not count.
func (s *Store) LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error) {
	heard := map[writ.RunID]time.Time{}
	if len(runs) == 0 {
		return heard, nil
	}
	q := selectFrom("SELECT id, " + lastStored + " FROM runs")
	andIn(q, "id", runs)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var run writ.RunID
		var stored int64
		if err := rows.Scan(&run, &stored); err != nil {
			return nil, err
		}
		if stored > 0 {
			heard[run] = sqldb.Time(stored)
		}
	}
	return heard, rows.Err()
}

// CountRuns counts the selected runs.
func (s *Store) CountRuns(ctx context.Context, filter ledger.RunFilter) (ledger.RunCounts, error) {
	q := selectFrom(`SELECT project, state, COUNT(*) FROM runs`)
	selectRuns(q, filter)
	q.add("\nGROUP BY project, state")
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := ledger.RunCounts{}
	for rows.Next() {
		var project writ.ProjectID
		var state ledger.State
		var n int
		if err := rows.Scan(&project, &state, &n); err != nil {
			return nil, err
		}
		if counts[project] == nil {
			counts[project] = map[ledger.State]int{}
		}
		counts[project][state] = n
	}
	return counts, rows.Err()
}

// Failures groups the selected runs by code and operation.
func (s *Store) Failures(ctx context.Context, filter ledger.RunFilter, max int) ([]ledger.Failures, error) {
	q := selectFrom(`SELECT failure, failed_operation, COUNT(*), MAX(created) FROM runs`)
	selectRuns(q, filter)
	q.and("failure <> ''")
	q.add("\nGROUP BY failure, failed_operation\nORDER BY COUNT(*) DESC, failure, failed_operation\nLIMIT ?", max)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return collect(rows, err, func(rows scanner) (f ledger.Failures, err error) {
		var newest int64
		err = rows.Scan(&f.Code, &f.Operation, &f.Runs, &newest)
		f.Newest = sqldb.Time(newest)
		return f, err
	})
}

// Calls lists the calls of a run.
func (s *Store) Calls(ctx context.Context, run writ.RunID, p ledger.Page) (ledger.List[writ.Call], error) {
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
func (s *Store) CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error) {
	counts := map[writ.RunID]map[writ.CallState]int{}
	if len(runs) == 0 {
		return counts, nil
	}
	q := selectFrom(`SELECT run, state, COUNT(*) FROM calls`)
	andIn(q, "run", runs)
	q.add("\nGROUP BY run, state")
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var run writ.RunID
		var state writ.CallState
		var n int
		if err := rows.Scan(&run, &state, &n); err != nil {
			return nil, err
		}
		if counts[run] == nil {
			counts[run] = map[writ.CallState]int{}
		}
		counts[run][state] = n
	}
	return counts, rows.Err()
}

// openCalls are the states of calls that have not ended.
var openCalls = []string{string(writ.CallPlanned), string(writ.CallQueued), string(writ.CallRunning)}

// OpenCalls returns the first open calls of each run, up to maxPageBytes in total.
func (s *Store) OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error) {
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

// Nodes lists nodes.
func (s *Store) Nodes(ctx context.Context, filter ledger.NodeFilter, p ledger.Page) (ledger.List[writ.Node], error) {
	q := selectFrom(`SELECT datacenter, name, id, body FROM nodes`)
	if filter.Datacenter != "" {
		q.and("datacenter = ?", string(filter.Datacenter))
	}
	andIn(q, "id", filter.Nodes)
	andIn(q, "name", filter.Names)
	if filter.Admission != "" {
		q.and("admission = ?", string(filter.Admission))
	} else {
		q.and("admission <> ?", string(writ.AdmissionRemoved))
	}
	if p.Cursor != "" {
		var datacenter, name, id string
		if err := parseCursor(p.Cursor, &datacenter, &name, &id); err != nil {
			return ledger.List[writ.Node]{}, err
		}
		q.and("(datacenter, name, id) > (?, ?, ?)", datacenter, name, id)
	}
	n := limit(p)
	q.add("\nORDER BY datacenter, name, id\nLIMIT ?", n+1)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return page(rows, err, n, func(rows scanner) (node writ.Node, key []any, err error) {
		var datacenter, name, id, text string
		if err = rows.Scan(&datacenter, &name, &id, &text); err != nil {
			return node, nil, err
		}
		if err = decode(text, &node); err != nil {
			err = s.damage.row(err, "node %s of datacenter %s", id, datacenter)
		}
		return node, []any{datacenter, name, id}, err
	})
}
