package sqlstore

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// Conditions of the indexes of open and of ended runs. An index is used only if a query repeats its condition literally.
const (
	isOpen  = "ended = 0"
	isEnded = "ended > 0"
)

// openStates lists the states of isOpen.
var openStates = []ledger.State{ledger.StateWaiting, ledger.State(writ.RunAccepted), ledger.State(writ.RunRunning)}

// maxParts limits the parts of one query, because each part takes time to plan.
const maxParts = 32

// place is a place in a list of runs.
type place struct {
	created int64
	id      string
}

// list builds the query for a page of runs and one more row. If end is set, the page ends there.
func (d division) list(db *sqldb.DB, p ledger.Page, end *place) (*query, error) {
	q := selectFrom("")
	err := d.addParts(db, q, runColumns, p.Cursor, limit(p)+1, func() {
		if end != nil {
			q.and("(created, id) "+comparison(!d.listed.Oldest)+"= (?, ?)", end.created, end.id)
		}
		d.andRest(q)
	})
	q.add("\nLIMIT ?", limit(p)+1)
	return q, err
}

// addParts adds a query for columns of the listed runs after a cursor, in the order of the list. The caller adds a LIMIT
// of at most `most`. The columns must have created and id. more adds conditions. No index has the runs of several states
// or projects in the order of their creation. The query therefore has one part for each state and project. The database
// merges the parts and reads no more rows than the reader of the result.
func (d division) addParts(
	db *sqldb.DB, q *query, columns, cursor string, most int, more func(),
) error {
	var created int64
	var id string
	if cursor != "" {
		if err := parseCursor(cursor, &created, &id); err != nil {
			return err
		}
	}
	parts := partsOf(d.listed)
	sorts := len(parts) > 1 && sqldb.SortsParts(db)
	for i, part := range parts {
		if i > 0 {
			q.add("\nUNION ALL\n")
		}
		if sorts {
			q.add("SELECT * FROM (")
		}
		q.add(columns)
		if index := indexOf(part); index != "" {
			q.add(db.Using(index))
		}
		q.where = false
		selectRuns(q, part)
		if cursor != "" {
			q.and("(created, id) "+comparison(d.listed.Oldest)+" (?, ?)", created, id)
		}
		more()
		if sorts {
			q.add(sequenceOf(d.listed.Oldest)+"\nLIMIT ?) AS part", most)
			q.add(strconv.Itoa(i))
		}
	}
	q.add(sequenceOf(d.listed.Oldest))
	return nil
}

// indexOf returns the index of a part, or "" for the primary key.
func indexOf(part ledger.RunFilter) string {
	states := "by"
	switch {
	case part.Prefix != "":
		return ""
	case onlyOpen(part):
		return "runs_open_by_state"
	case len(part.States) > 0:
		states = "ended_by"
	case part.Deployment != "" && part.Datacenter != "":
		return "runs_of_deployment"
	}
	for _, of := range []struct {
		is   bool
		name string
	}{
		{part.Deployment != "", "deployment"}, {part.Script != "", "script"}, {len(part.Projects) > 0, "project"},
		{part.Signer != "", "signer"}, {part.Datacenter != "", "datacenter"}, {len(part.States) > 0, "state"},
	} {
		if of.is {
			return "runs_" + states + "_" + of.name
		}
	}
	return "runs_newest"
}

// sequenceOf returns the ORDER BY clause of a list.
func sequenceOf(oldest bool) string {
	if oldest {
		return "\nORDER BY created ASC, id ASC"
	}
	return "\nORDER BY created DESC, id DESC"
}

// comparison returns the operator for later places in a list from the oldest or from the newest run.
func comparison(oldest bool) string {
	if oldest {
		return ">"
	}
	return "<"
}

// partsOf splits a filter into filters of one state and one project. It does not split open runs by project, because all
// projects together have fewer open runs than one project has runs. A filter of silent runs is split by the open states,
// because the index of open runs begins with the state.
func partsOf(filter ledger.RunFilter) (parts []ledger.RunFilter) {
	if !filter.Silent.IsZero() && len(filter.States) == 0 {
		filter.States = openStates
	}
	if filter.Prefix != "" || len(filter.States) == 0 && len(filter.Projects) == 0 {
		return []ledger.RunFilter{filter}
	}
	states := [][]ledger.State{nil}
	if len(filter.States) > 0 {
		states = slices.Collect(slices.Chunk(distinct(filter.States), 1))
	}
	for _, state := range states {
		part := filter
		part.States = state
		if len(filter.Projects) == 0 || onlyOpen(part) {
			parts = append(parts, part)
			continue
		}
		for _, project := range distinct(filter.Projects) {
			part.Projects = []writ.ProjectID{project}
			parts = append(parts, part)
		}
	}
	return parts
}

// distinct returns the values in order, each once.
func distinct[T cmp.Ordered](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// countOpen builds the query for the numbers of open runs by project and state. It reads only the index of open runs. It
// returns nil if the filter selects no open run.
func countOpen(filter ledger.RunFilter) *query {
	if filter.States, _ = split(statesOf(filter)); len(filter.States) == 0 {
		return nil
	}
	q := selectFrom("SELECT project, state, COUNT(*) FROM runs")
	selectRuns(q, filter)
	q.add("\nGROUP BY project, state")
	return q
}

// statesOf returns the states that a filter selects.
func statesOf(filter ledger.RunFilter) []ledger.State {
	switch {
	case len(filter.States) > 0:
		return filter.States
	case !filter.Silent.IsZero():
		return openStates
	}
	return ledger.States
}

// split divides states into open and ended states.
func split(states []ledger.State) (open, ended []ledger.State) {
	for _, state := range states {
		if slices.Contains(openStates, state) {
			open = append(open, state)
		} else {
			ended = append(ended, state)
		}
	}
	return open, ended
}

// onlyOpen reports whether a filter selects only open runs.
func onlyOpen(filter ledger.RunFilter) bool {
	open, ended := split(filter.States)
	return len(open) > 0 && len(ended) == 0 || !filter.Silent.IsZero()
}

// selectRuns adds the conditions of a filter. A query uses one index. An expression that appends an empty text to a
// column keeps the database from using an index of the column.
func selectRuns(q *query, filter ledger.RunFilter) {
	open, ended := split(filter.States)
	column := func(name string) string { return name }
	switch {
	case filter.Prefix != "": // the primary key has the fewest runs
		column = unindexed
		andIn(q, unindexed("state"), filter.States)
	case onlyOpen(filter): // all projects together have fewer open runs than one project has runs
		column = unindexed
		andIn(q, "state", filter.States)
		q.and(isOpen)
	default:
		andIn(q, "state", filter.States)
		if len(ended) > 0 && len(open) == 0 {
			q.and(isEnded)
		}
	}
	andNames(q, filter, column)
	if filter.Prefix != "" {
		q.and("id >= ? AND id < ?", filter.Prefix, filter.Prefix+"~") // "~" sorts after all characters of an id
	}
	if filter.Text != "" {
		andText(q, filter.Text)
	}
	if !filter.Since.IsZero() {
		q.and("created >= ?", micros(filter.Since))
	}
	andFailure(q, filter, column)
	if filter.WithoutLogs {
		q.and("logs_only = FALSE")
	}
	if !filter.Silent.IsZero() {
		silentSince(q, filter.Silent)
	}
}

// unindexed returns an expression for a column with texts. No index has this expression.
func unindexed(column string) string { return column + " || ''" }

// andNames adds the conditions on names and ids. column returns the expression for a column.
func andNames(q *query, filter ledger.RunFilter, column func(name string) string) {
	andIs(q, column("datacenter"), filter.Datacenter)
	andIn(q, column("project"), filter.Projects)
	andIs(q, column("signer"), filter.Signer)
	andIs(q, column("script"), filter.Script)
	if filter.Deployment != "" {
		q.and(column("deployment")+" = ? AND deployment <> ''", filter.Deployment) // the condition of its indexes
	}
}

// andFailure adds the conditions on how the runs failed. column returns the expression for a column.
func andFailure(q *query, filter ledger.RunFilter, column func(name string) string) {
	andIs(q, column("failure"), filter.Failure)
	switch filter.Operation {
	case "":
	case ledger.NoOperation:
		q.and(column("failure") + " <> '' AND failed_operation = ''")
	default:
		q.and(column("failure")+" <> '' AND failed_operation = ?", filter.Operation)
	}
}

// silentSince adds the conditions for open runs that were created before the time `since` and make no progress: they
// have no later event except log lines, or they repeat one call. A run whose events were pruned counts as a run without
// events.
func silentSince(q *query, since time.Time) {
	q.and("created < ?", micros(since))
	q.and("("+lastStored+" < ? OR "+repeats+")", micros(since))
}
