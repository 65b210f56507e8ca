package sqlstore

import "context"

// WithoutRecentEvents makes a ledger read its events from the database, except for the question whether there are any.
func WithoutRecentEvents(s *Store) *Store {
	s.recent.limit = 0
	return s
}

// EndedCounts returns the stored numbers of ended runs, and the numbers of the runs themselves.
func EndedCounts(ctx context.Context, s *Store) (stored, want []string, err error) {
	const columns = `project || ' ' || state || ' ' || datacenter || ' ' || signer || ' ' || CASE WHEN logs_only THEN 'logs' ELSE 'all' END || ' '`
	stored, err = column[string](s.db.Query(ctx, `SELECT `+columns+` || CAST(runs AS TEXT) FROM ended_counts WHERE runs <> 0 ORDER BY 1`))
	if err != nil {
		return nil, nil, err
	}
	want, err = column[string](s.db.Query(ctx, `SELECT `+columns+` || CAST(COUNT(*) AS TEXT) FROM runs WHERE ended > 0 GROUP BY project, state, datacenter, signer, logs_only ORDER BY 1`))
	return stored, want, err
}
