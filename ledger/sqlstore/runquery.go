package sqlstore

import (
	"fmt"
	"slices"
	"time"

	"writ"
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

// listRuns builds the query for a page of runs and one more row. No index has the runs of several states or projects in
// the order of their creation. The query therefore has one part for each state and project, and merges the first rows
// of all parts.
func listRuns(filter ledger.RunFilter, p ledger.Page) (*query, error) {
	parts := partsOf(filter)
	q := selectFrom("")
	if len(parts) == 1 {
		return q, listPart(q, runColumns, parts[0], p, limit(p)+1)
	}
	for i, part := range parts {
		if i > 0 {
			q.add("\nUNION ALL\n")
		}
		q.add("SELECT * FROM (")
		if err := listPart(q, runColumns, part, p, limit(p)+1); err != nil {
			return nil, err
		}
		q.add(fmt.Sprintf(") AS part%d", i))
	}
	q.add(sequenceOf(filter.Oldest)+"\nLIMIT ?", limit(p)+1)
	return q, nil
}

// foundRuns builds the query for the runs at these places.
func foundRuns(places []place, oldest bool) *query {
	ids := make([]string, len(places))
	for i, one := range places {
		ids[i] = one.id
	}
	q := selectFrom(runColumns)
	andIn(q, "id", ids)
	q.add(sequenceOf(oldest))
	return q
}

// sequenceOf returns the ORDER BY clause of a list.
func sequenceOf(oldest bool) string {
	if oldest {
		return "\nORDER BY created ASC, id ASC"
	}
	return "\nORDER BY created DESC, id DESC"
}

// listPart adds the query for the first `most` runs of a page of one part.
func listPart(q *query, columns string, filter ledger.RunFilter, p ledger.Page, most int) error {
	before := "<"
	if filter.Oldest {
		before = ">"
	}
	q.add(columns)
	q.where = false
	selectRuns(q, filter, byCreation)
	if p.Cursor != "" {
		var created int64
		var id string
		if err := parseCursor(p.Cursor, &created, &id); err != nil {
			return err
		}
		q.and("(created, id) "+before+" (?, ?)", created, id)
	}
	q.add(sequenceOf(filter.Oldest)+"\nLIMIT ?", most)
	return nil
}

// partsOf splits a filter into filters of one state and one project. It does not split by project if that would exceed
// maxParts. A filter of silent runs is split by the open states, because the index of open runs begins with the state.
func partsOf(filter ledger.RunFilter) []ledger.RunFilter {
	if !filter.Silent.IsZero() && len(filter.States) == 0 {
		filter.States = openStates
	}
	parts := []ledger.RunFilter{filter}
	if states := len(filter.States); states > 1 {
		parts = nil
		for _, state := range slices.Compact(slices.Sorted(slices.Values(filter.States))) {
			part := filter
			part.States = []ledger.State{state}
			parts = append(parts, part)
		}
	}
	if filter.Script != "" || filter.Deployment != "" || len(parts)*len(filter.Projects) > maxParts {
		return parts
	}
	whole := parts
	parts = nil
	for _, part := range whole {
		for _, project := range slices.Compact(slices.Sorted(slices.Values(filter.Projects))) {
			part.Projects = []writ.ProjectID{project}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 { // of all projects
		return whole
	}
	return parts
}

// countRuns builds the queries for the numbers of runs by project and state. Open and ended runs are counted separately,
// each by their own index. So a count reads no runs. A query is nil if the filter selects none of its runs.
func countRuns(filter ledger.RunFilter) (open, ended *query) {
	count := func(states []ledger.State) *query {
		if len(states) == 0 && len(filter.States) > 0 {
			return nil
		}
		q := selectFrom("SELECT project, state, COUNT(*) FROM runs")
		part := filter
		if part.States = states; len(states) == 0 {
			q.and(isEnded)
		}
		selectRuns(q, part, unordered)
		q.add("\nGROUP BY project, state")
		return q
	}
	openOnes, endedOnes := openStates, []ledger.State(nil)
	if len(filter.States) > 0 {
		openOnes, endedOnes = split(filter.States)
	}
	open = count(openOnes)
	if filter.Silent.IsZero() { // a silent run is open
		ended = count(endedOnes)
	}
	return open, ended
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

// sequence is whether a query needs runs in the order of their creation.
type sequence bool

const (
	byCreation sequence = true
	unordered  sequence = false
)

// columns are expressions for columns of runs. A query uses one index. An expression that appends an empty text to a
// column keeps the database from using an index of the column.
type columns struct{ datacenter, project, signer, script, deployment string }

// columnsFor returns the columns for a filter, such that the database uses the index with the fewest runs.
func columnsFor(filter ledger.RunFilter, onlyOpen bool, in sequence) columns {
	c := columns{"datacenter", "project", "signer", "script", "deployment"}
	unused := func(columns ...*string) {
		for _, column := range columns {
			*column += " || ''"
		}
	}
	switch {
	case onlyOpen: // all projects together have fewer open runs than one project has runs
		unused(&c.datacenter, &c.project, &c.signer, &c.script, &c.deployment)
	case filter.Script != "" || filter.Deployment != "": // a script or deployment has fewer runs than a project
		unused(&c.datacenter, &c.project, &c.signer)
	case in == byCreation && len(filter.Projects) > 1: // no index has the runs of several projects in this order
		unused(&c.project)
	}
	return c
}

// selectRuns adds the conditions of a filter.
func selectRuns(q *query, filter ledger.RunFilter, in sequence) {
	open, ended := split(filter.States)
	onlyOpen := len(open) > 0 && len(ended) == 0 || !filter.Silent.IsZero()
	c := columnsFor(filter, onlyOpen, in)
	andIn(q, "state", filter.States)
	switch {
	case onlyOpen:
		q.and(isOpen)
	case len(ended) > 0 && len(open) == 0:
		q.and(isEnded)
	}
	andIs(q, c.datacenter, filter.Datacenter)
	andIn(q, c.project, filter.Projects)
	andIs(q, c.signer, filter.Signer)
	if filter.Prefix != "" {
		q.and("id >= ? AND id < ?", filter.Prefix, filter.Prefix+"~") // "~" sorts after all characters of an id
	}
	andIs(q, c.script, filter.Script)
	if filter.Deployment != "" {
		q.and(c.deployment+" = ? AND deployment <> ''", filter.Deployment) // the condition of its indexes
	}
	if filter.Text != "" {
		andText(q, filter.Text)
	}
	if !filter.Since.IsZero() {
		q.and("created >= ?", micros(filter.Since))
	}
	andFailure(q, filter)
	if filter.WithoutLogs {
		q.and("logs_only = FALSE")
	}
	if !filter.Silent.IsZero() {
		silentSince(q, filter.Silent)
	}
}

// andFailure adds the conditions on how the runs failed.
func andFailure(q *query, filter ledger.RunFilter) {
	andIs(q, "failure", filter.Failure)
	switch filter.Operation {
	case "":
	case ledger.NoOperation:
		q.and("failure <> '' AND failed_operation = ''")
	default:
		q.and("failure <> '' AND failed_operation = ?", filter.Operation)
	}
}

// silentSince adds the conditions for open runs that were created before the time `since` and make no progress: they
// have no later event except log lines, or they repeat one call. A run whose events were pruned counts as a run without
// events.
func silentSince(q *query, since time.Time) {
	q.and("created < ?", micros(since))
	q.and("("+lastStored+" < ? OR "+repeats+")", micros(since))
}
