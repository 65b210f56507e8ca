package sqlstore

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// Table ended_counts has the numbers of ended runs by project, state, datacenter, signer and logs_only. Each transaction
// that ends, changes or deletes ended runs updates the numbers.

// changeEnded calls change, which may change or delete ended runs or end open ones, and updates their numbers.
func changeEnded(ctx context.Context, tx *sqldb.Tx, ids []writ.RunID, change func() error) error {
	if err := addEnded(ctx, tx, "-COUNT(*)", ids); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return addEnded(ctx, tx, "COUNT(*)", ids)
}

// addEnded adds the runs that have ended to their numbers, or subtracts them. Each id occurs once.
func addEnded[ID ~string](ctx context.Context, tx *sqldb.Tx, count string, ids []ID) error {
	if len(ids) == 0 {
		return nil
	}
	q := selectFrom(`
		INSERT INTO ended_counts (project, state, datacenter, signer, logs_only, runs)
		SELECT project, state, datacenter, signer, logs_only, ` + count + ` FROM runs`)
	andIn(q, "id", filled(ids))
	q.and(isEnded)
	q.add(`
		GROUP BY project, state, datacenter, signer, logs_only
		ON CONFLICT (project, state, datacenter, signer, logs_only) DO UPDATE SET runs = ended_counts.runs + excluded.runs`)
	return tx.Queue(ctx, q.String(), q.args...)
}

// isCounted reports whether ended_counts has the numbers of the ended runs that a filter selects.
func isCounted(filter ledger.RunFilter) bool {
	texts := []string{filter.Prefix, filter.Script, filter.Deployment, filter.Text, string(filter.Failure), filter.Operation}
	return filter.Since.IsZero() && filter.Silent.IsZero() && strings.Join(texts, "") == ""
}

// sumEnded builds the query for the numbers of ended runs by project and state. The filter isCounted.
func sumEnded(filter ledger.RunFilter) *query {
	q := selectFrom("SELECT project, state, CAST(SUM(runs) AS BIGINT) FROM ended_counts")
	andIn(q, "state", filter.States)
	andIn(q, "project", filter.Projects)
	andIs(q, "datacenter", filter.Datacenter)
	andIs(q, "signer", filter.Signer)
	if filter.WithoutLogs {
		q.and("logs_only = FALSE")
	}
	q.add("\nGROUP BY project, state\nHAVING SUM(runs) > 0")
	return q
}

// fewestEnded returns the name of a filter that has the fewest ended runs.
func fewestEnded(ctx context.Context, db *sqldb.DB, filter ledger.RunFilter, of []name) (name, error) {
	conditions := map[name]func(q *query){
		byProject:    func(q *query) { andIn(q, "project", filter.Projects) },
		bySigner:     func(q *query) { andIs(q, "signer", filter.Signer) },
		byDatacenter: func(q *query) { andIs(q, "datacenter", filter.Datacenter) },
	}
	runs := make([]int64, len(of))
	into := make([]any, len(of))
	q := selectFrom("SELECT ")
	for i, n := range of {
		if into[i] = &runs[i]; i > 0 {
			q.add(", ")
		}
		q.add("(SELECT CAST(COALESCE(SUM(runs), 0) AS BIGINT) FROM ended_counts")
		q.where = false
		conditions[n](q)
		q.add(")")
	}
	if err := db.QueryRow(ctx, q.String(), q.args...).Scan(into...); err != nil {
		return "", err
	}
	return of[slices.Index(runs, slices.Min(runs))], nil
}
