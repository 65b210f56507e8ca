package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/internal/clip"
	"writ/internal/sqldb"
	"writ/ledger"
)

// maxWords limits the searchable text of a run, and the text of its parameters, in bytes. Longer texts are truncated.
const maxWords = 4096

// wordsOf returns the searchable text of a run: its names and its failure.
func wordsOf(run writ.Run) string {
	all := []string{run.Script, run.Deployment, run.ProjectName, run.Signer}
	if f := run.Failure; f != nil {
		all = append(all, string(f.Code), f.Message, f.Position)
	}
	return searchable(strings.Join(all, " "))
}

// parametersOf returns the searchable text of parameters: "image=web replicas=3".
func parametersOf(params map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		text, ok := params[name].(string)
		if !ok {
			text = valueText(params[name])
		}
		all = append(all, name+"="+text)
	}
	return searchable(strings.Join(all, " "))
}

func valueText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// searchable normalizes a text for storage and search: lower case, valid UTF-8, without the zero bytes that PostgreSQL
// rejects, and at most maxWords bytes.
func searchable(text string) string {
	text = strings.ToLower(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), ""))
	return clip.Prefix(text, maxWords)
}

// likePattern returns a LIKE pattern that matches text anywhere.
func likePattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text) + "%"
}

// andText adds the condition for runs that match a text. A match can start anywhere, so no index has the runs. There are
// many calls, so resource names are indexed and match only from their start.
func andText(q *query, text string) {
	if text = searchable(text); text == "" { // no run matches; an empty pattern would match every run
		q.and("1 = 0")
		return
	}
	pattern := likePattern(text)
	q.and(`(words LIKE ? ESCAPE '\' OR parameters LIKE ? ESCAPE '\' OR id IN (SELECT run FROM calls WHERE name <> '' AND name >= ? AND name < ?))`,
		pattern, pattern, text, text+"~") // sorts after all characters of a name
}

// maxExamined limits the runs that a page of a search reads. One run takes 1 to 3 µs in SQLite.
const maxExamined = ledger.MaxExamined

// division divides the conditions of a filter. Both parts together select the runs of the filter.
type division struct {
	listed ledger.RunFilter // conditions of one index, which has the runs in the order of the list
	rest   ledger.RunFilter // conditions that the index does not have
	failed bool             // a further condition: the run has a failure. The query is grouped by failures, not by projects
}

// isSearch reports whether a filter has conditions that the index of the list does not have. A list of such runs could
// read all runs.
func (d division) isSearch() bool {
	r := d.rest
	return len(r.Projects) > 0 ||
		strings.Join([]string{string(r.Datacenter), r.Signer, r.Script, r.Deployment, r.Text, string(r.Failure), r.Operation}, "") != ""
}

// name is a column that selects runs and begins an index.
type name string

const (
	byProject    name = "project"
	bySigner     name = "signer"
	byDatacenter name = "datacenter"
)

// names returns the columns that a list of the selected runs can begin with, if the filter has no script and no
// deployment.
func names(filter ledger.RunFilter) (all []name) {
	if n := len(filter.Projects); n > 0 && n*max(len(filter.States), 1) <= maxParts {
		all = append(all, byProject)
	}
	if filter.Signer != "" {
		all = append(all, bySigner)
	}
	if filter.Datacenter != "" {
		all = append(all, byDatacenter)
	}
	return all
}

// divisionOf divides a filter. Of several names, the index has the one with the fewest runs.
func divisionOf(ctx context.Context, db *sqldb.DB, filter ledger.RunFilter) (division, error) {
	choice := names(filter)
	switch {
	case len(choice) == 0:
		return divide(filter, ""), nil
	case len(choice) == 1 || filter.Script+filter.Deployment+filter.Prefix != "" || onlyOpen(filter):
		return divide(filter, choice[0]), nil
	}
	fewest, err := fewestEnded(ctx, db, filter, choice)
	return divide(filter, fewest), err
}

// divide divides a filter. A script or a deployment has fewer runs than the other names. first is the name for a filter
// without them.
func divide(filter ledger.RunFilter, first name) division {
	d := division{
		listed: filter,
		rest:   ledger.RunFilter{Text: filter.Text, Failure: filter.Failure, Operation: filter.Operation},
	}
	d.listed.Text, d.listed.Failure, d.listed.Operation = "", "", ""
	if filter.Prefix == "" && !onlyOpen(filter) {
		keep := ledger.RunFilter{}
		switch {
		case filter.Deployment != "" && filter.Datacenter != "" && len(filter.Projects) == 1 && len(filter.States) == 0:
			keep.Deployment, keep.Datacenter, keep.Projects = filter.Deployment, filter.Datacenter, filter.Projects
		case filter.Deployment != "":
			keep.Deployment = filter.Deployment
		case filter.Script != "":
			keep.Script = filter.Script
		case first == byProject:
			keep.Projects = filter.Projects
		case first == bySigner:
			keep.Signer = filter.Signer
		case first == byDatacenter:
			keep.Datacenter = filter.Datacenter
		}
		d.moveNames(keep)
	}
	if d.isSearch() {
		d.moveLogs()
	}
	return d
}

// moveNames moves the names that keep does not have to the rest.
func (d *division) moveNames(keep ledger.RunFilter) {
	move := func(listed, rest *string, kept string) {
		if kept == "" {
			*listed, *rest = "", *listed
		}
	}
	move(&d.listed.Signer, &d.rest.Signer, keep.Signer)
	move(&d.listed.Script, &d.rest.Script, keep.Script)
	move(&d.listed.Deployment, &d.rest.Deployment, keep.Deployment)
	if keep.Datacenter == "" {
		d.listed.Datacenter, d.rest.Datacenter = "", d.listed.Datacenter
	}
	if len(keep.Projects) == 0 {
		d.listed.Projects, d.rest.Projects = nil, d.listed.Projects
	}
}

// moveLogs moves the condition on runs that only read logs to the rest. Few indexes have its column.
func (d *division) moveLogs() { d.listed.WithoutLogs, d.rest.WithoutLogs = false, d.listed.WithoutLogs }

// andRest adds the conditions that the index does not have. The expressions keep the database from using another index,
// which would have all runs of the condition.
func (d division) andRest(q *query) {
	andNames(q, d.rest, unindexed)
	if d.rest.Text != "" {
		andText(q, d.rest.Text)
	}
	andFailure(q, d.rest, unindexed)
	if d.failed {
		q.and("failure <> ''")
	}
	if d.rest.WithoutLogs {
		q.and("logs_only = FALSE")
	}
}

// newest builds a query that groups the newest `most` listed runs, if they also match the rest.
func (d division) newest(db *sqldb.DB, columns, groups string, most int) (*query, error) {
	d.moveLogs()
	d.listed.Oldest = false
	q := selectFrom("SELECT " + columns + " FROM (")
	err := d.addParts(db, q, "SELECT "+d.examined("id, created, "+groups)+" FROM runs", "", most, func() {})
	d.endNewest(q, groups, most)
	return q, err
}

// endNewest adds the end of the query of newest, after the query for the listed runs.
func (d division) endNewest(q *query, groups string, most int) {
	q.add("\nLIMIT ?) AS examined", most)
	q.where = false
	d.andRest(q)
	q.add("\nGROUP BY " + groups)
}

// examined adds the columns of andRest to other columns. It omits columns without a condition, so that an index can have
// all columns.
func (d division) examined(columns string) string {
	rest := d.rest
	for _, of := range []struct {
		is      bool
		columns string
	}{
		{len(rest.Projects) > 0 && d.failed, "project"}, {rest.Datacenter != "", "datacenter"}, {rest.Signer != "", "signer"}, {rest.Script != "", "script"},
		{rest.Deployment != "", "deployment"}, {rest.Text != "", "words, parameters"},
		{(rest.Failure != "" || rest.Operation != "") && !d.failed, "failure, failed_operation"}, {rest.WithoutLogs, "logs_only"},
	} {
		if of.is {
			columns += ", " + of.columns
		}
	}
	return columns
}

// countNewest counts the runs that a filter selects among the newest `most` listed runs.
func countNewest(
	ctx context.Context, db *sqldb.DB, to ledger.RunCounts, filter ledger.RunFilter, most int,
) error {
	d, err := divisionOf(ctx, db, filter)
	if err != nil {
		return err
	}
	q, err := d.newest(db, "project, state, COUNT(*)", "project, state", most)
	if err != nil {
		return err
	}
	return addCounts(ctx, db, to, q)
}

// lastExamined builds the query for the place of the last run that a page of a search reads. It has no row if the page
// reads all runs that follow. It reads only entries of an index.
func (d division) lastExamined(db *sqldb.DB, p ledger.Page, most int) (*query, error) {
	q := selectFrom("")
	err := d.addParts(db, q, "SELECT created, id FROM runs", p.Cursor, most, func() {})
	q.add("\nLIMIT 1 OFFSET ?", most-1)
	return q, err
}

// pageEnd returns the place of the last run that a page of a search reads, or nil.
func (d division) pageEnd(ctx context.Context, db *sqldb.DB, p ledger.Page, most int) (*place, error) {
	q, err := d.lastExamined(db, p, most)
	if err != nil {
		return nil, err
	}
	var end place
	err = db.QueryRow(ctx, q.String(), q.args...).Scan(&end.created, &end.id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &end, err
}
