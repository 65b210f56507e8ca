package sqlstore

// WithoutRecentEvents makes a ledger read its events from the database, except for the question whether there are any.
func WithoutRecentEvents(s *Store) *Store {
	s.recent.limit = 0
	return s
}
