package sqldb

import (
	"database/sql"
	"errors"
)

// List returns the value that `scan` reads from each row of a query. rows and err are the results of the query.
func List[T any](rows *sql.Rows, err error, scan func(row *sql.Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// Map is like List, but returns a map. `scan` also returns the key of the row.
func Map[K comparable, V any](
	rows *sql.Rows, err error, scan func(row *sql.Rows) (K, V, error),
) (map[K]V, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[K]V)
	for rows.Next() {
		k, v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all[k] = v
	}
	return all, rows.Err()
}

// Column is List for a query of one column.
func Column[T any](rows *sql.Rows, err error) ([]T, error) {
	return List(rows, err, func(row *sql.Rows) (v T, err error) {
		err = row.Scan(&v)
		return v, err
	})
}

// First returns the only column of a row, or the zero value if the query has no rows.
func First[T any](row interface{ Scan(into ...any) error }) (v T, err error) {
	if err = row.Scan(&v); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}
