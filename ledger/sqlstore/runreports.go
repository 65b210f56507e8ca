package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// addRun stores the new run of a submission. number is the id of its first event. If events without a number precede
// it, the run has no number. parameters is the searchable text of its parameters.
func addRun(ctx context.Context, tx *sqldb.Tx, run ledger.Run, number int64, parameters string) error {
	return tx.Queue(ctx, insertRunInto+`,
			CASE WHEN EXISTS (SELECT 1 FROM events WHERE run = $1 AND run_number = 0 AND run <> '') THEN 0 ELSE CAST($18 AS BIGINT) END)`,
		append(runValues(run, "", parameters, tx.Now), number)...)
}

const insertRunInto = `
		INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body, journal, script, deployment, failure, words, parameters, logs_only, number)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17`

// runValues returns the values of insertRunInto.
func runValues(run ledger.Run, journal, parameters string, now time.Time) []any {
	return []any{
		string(run.ID), string(run.Datacenter), string(run.Project), run.ProjectName, run.Signer, string(run.State),
		micros(run.Created), micros(run.Accepted), endOf(run.State, run.Ended, now), encode(run.Run), journal,
		selectable(run.Script), selectable(run.Deployment), failureCode(run.Run), wordsOf(run.Run), parameters, run.LogsOnly,
	}
}

// endOf returns the time for the column ended: 0 for an open run, else the time that the datacenter reports. If it
// reports no end, the time is now.
func endOf(state ledger.State, reported, now time.Time) int64 {
	switch {
	case slices.Contains(openStates, state):
		return 0
	case micros(reported) <= 0:
		return micros(now)
	}
	return micros(reported)
}

// failureCode returns the code of a run's failure, "" if it did not fail.
func failureCode(run writ.Run) string {
	if run.Failure == nil {
		return ""
	}
	return selectable(string(run.Failure.Code))
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

// storeRun stores a datacenter's report of one of its runs. journal is empty if the report is the answer to a
// submission. The signer, the project, the creation time and LogsOnly of the submission stay unchanged, as do runs of
// other datacenters.
func storeRun(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string, run writ.Run, source reportSource,
) error {
	run.Datacenter, run.Output = datacenter, nil
	stored := ledger.Run{Run: run, State: ledger.State(run.State), Created: run.Accepted}
	return tx.Queue(ctx, storeRunText, append(runValues(stored, journal, "", tx.Now), bool(source))...)
}

// storeReported is storeRun for a run that withoutValues has put under its datacenter. An UPDATE writes all indexes with
// a column in its SET list, also if the value stays the same. It therefore omits the columns that the stored run already
// has: normally the names, and until the end of a run also the end and the failure.
func storeReported(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, journal string, reported encoded[writ.Run],
	known map[writ.RunID]storedRun, source reportSource,
) error {
	run := reported.value
	stored, ok := known[run.ID]
	if !ok || stored.script != selectable(run.Script) || stored.deployment != selectable(run.Deployment) {
		return storeRun(ctx, tx, datacenter, journal, run, source)
	}
	if stored.accepted != 0 && source == fromAnswer {
		return nil
	}
	set := `
		UPDATE runs
		SET state = $1, body = $2, journal = $3, words = $4`
	args := []any{string(run.State), reported.json, journal, wordsOf(run)}
	add := func(columns string, values ...any) {
		for column := range strings.FieldsSeq(columns) {
			set += fmt.Sprintf(", %s = $%d", column, len(args)+1)
			args, values = append(args, values[0]), values[1:]
		}
	}
	if accepted := micros(run.Accepted); accepted != stored.accepted {
		add("accepted", accepted)
	}
	ended := endOf(ledger.State(run.State), run.Ended, tx.Now)
	if failure := failureCode(run); ended != stored.ended || failure != "" || stored.failure != "" {
		add("ended failure failed_operation", ended, failure, "")
	}
	set += fmt.Sprintf(`
		WHERE id = $%d AND datacenter = $%d`, len(args)+1, len(args)+2)
	return tx.Queue(ctx, set, append(args, string(run.ID), string(datacenter))...)
}

const storeRunText = insertRunInto + `, 0)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, accepted = excluded.accepted, ended = excluded.ended,
			body = excluded.body, journal = excluded.journal, script = excluded.script, deployment = excluded.deployment,
			failure = excluded.failure, failed_operation = '', words = excluded.words
		WHERE runs.datacenter = excluded.datacenter AND (runs.accepted = 0 OR $18)`

// Unreported lists open runs that the journal has not reported.
func (s *runTable) Unreported(
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
		if err != nil || len(runs) > 0 || read == 0 || !full && read < max {
			// The next page is read only if all runs of this page are unreadable.
			return runs, err
		}
	}
}

// Restate stores a datacenter's answer about a run.
func (s *runTable) Restate(ctx context.Context, datacenter writ.DatacenterID, journal string, run writ.Run) error {
	err := s.write(failpoint.At(ctx, failpoint.RunRestated), func(tx *sqldb.Tx) error {
		var told string
		var project writ.ProjectID
		err := tx.QueryRowContext(ctx, `SELECT journal, project FROM runs WHERE id = $1`, string(run.ID)).Scan(&told,
			&project)
		// If an event of the journal has reported the run, that event is newer than the answer.
		if told, err = found(told, err)("run", run.ID); err != nil || told == journal {
			return err
		}
		err = changeEnded(ctx, tx, []writ.RunID{run.ID}, func() error {
			return storeRun(ctx, tx, datacenter, journal, run, fromEvent)
		})
		if err != nil {
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
		e := withoutValues(writ.Event{Time: tx.Now, Run: &run}, datacenter)
		return addEvent(ctx, tx,
			ledger.Event{ID: newEventsOf(tx).reserve(1), Datacenter: datacenter, Event: e, About: run.ID, Project: project})
	})
	if err != nil {
		return fmt.Errorf("restate run: %w", err)
	}
	return nil
}
