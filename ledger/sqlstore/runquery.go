package sqlstore

import (
	"time"

	"writ"
	"writ/ledger"
)

// listRuns builds the query for a page of runs and one more row.
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
	// An expression such as project || '' keeps the database from using the index of the column. That index would
	// select all runs of a project; the indexes of scripts and deployments select fewer runs.
	if filter.Script != "" || filter.Deployment != "" {
		datacenter, project, signer = "datacenter || ''", "project || ''", "signer || ''"
		if filter.Silent.IsZero() { // otherwise the index by state selects the open runs, which are few
			state = "state || ''"
		}
	}
	andIn(q, state, filter.States)
	andIs(q, datacenter, filter.Datacenter)
	andIn(q, project, filter.Projects)
	andIs(q, signer, filter.Signer)
	if filter.Prefix != "" {
		q.and("id >= ? AND id < ?", filter.Prefix, filter.Prefix+"~") // sorts after all characters of an id
	}
	andIs(q, "script", filter.Script)
	andIs(q, "deployment", filter.Deployment)
	if filter.Text != "" {
		andText(q, filter.Text)
	}
	if !filter.Since.IsZero() {
		q.and("created >= ?", micros(filter.Since))
	}
	andIs(q, "failure", filter.Failure)
	switch filter.Operation {
	case "":
	case ledger.NoOperation:
		q.and("failure <> '' AND failed_operation = ''")
	default:
		q.and("failure <> '' AND failed_operation = ?", filter.Operation)
	}
	if filter.WithoutLogs {
		q.and("logs_only = FALSE")
	}
	if !filter.Silent.IsZero() {
		silentSince(q, filter.Silent)
	}
}

// silentSince adds the conditions for open runs that were created before the time `since` and make no progress: they
// have no later event except log lines, or they repeat one call. A run whose events were pruned counts as one without
// events.
func silentSince(q *query, since time.Time) {
	andIn(q, "state", openStates)
	q.and("created < ?", micros(since))
	q.and("("+lastStored+" < ? OR "+repeats+")", micros(since))
}

// openStates lists the states of runs that have not ended.
var openStates = []string{string(ledger.StateWaiting), string(writ.RunAccepted), string(writ.RunRunning)}
