// Package sqlstore is the ledger in an SQL store: a SQLite file, or ":memory:" for tests and one-process set-ups. It knows tables and
// transactions, and must not know who asks.
package sqlstore

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a ledger in an SQL store.
type Store struct{ db *sqldb.DB }

var _ ledger.Ledger = (*Store)(nil)

// Open opens the ledger at path, or makes it; ":memory:" is one that ends with the process. A ledger of a newer writ is refused.
func Open(ctx context.Context, path string) (*Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db, err := sqldb.Open(ctx, path, files)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return &Store{db: db}, nil
}

// Close waits for the write in progress and closes the store.
func (s *Store) Close() error { return s.db.Close() }

// Shared reports whether other coordinators can work with the ledger at the same time.
func (s *Store) Shared() bool { return s.db.Shared() }

// probeSize is what Check writes: as much as a large submission and its events, so that there is room for the next one too.
const probeSize = 64 << 10

// Check reports whether the ledger can be used. It examines the file, and writes one row over and over.
func (s *Store) Check(ctx context.Context) error {
	if err := s.db.Check(ctx); err != nil {
		return err
	}
	return s.db.Write(failpoint.At(ctx, failpoint.LedgerProbed), func(tx *sqldb.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO probes (name, body)
			VALUES ('room', $1)
			ON CONFLICT (name) DO UPDATE SET body = excluded.body`, make([]byte, probeSize))
		return err
	})
}

// pruneStep is how many rows one transaction deletes, so that writers between two of them wait for milliseconds only.
const pruneStep = 500

// Prune forgets old events and runs, a few at a time.
func (s *Store) Prune(ctx context.Context, events, runs time.Time) error {
	for {
		n, err := s.pruneEvents(ctx, events)
		if err != nil {
			return fmt.Errorf("prune events: %w", err)
		}
		if n < pruneStep {
			break
		}
	}
	for {
		n, err := s.pruneRuns(ctx, runs)
		if err != nil {
			return fmt.Errorf("prune runs: %w", err)
		}
		if n < pruneStep {
			return nil
		}
	}
}

func (s *Store) pruneEvents(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.db.Write(failpoint.At(ctx, failpoint.EventsForgotten), func(tx *sqldb.Tx) error {
		done, err := tx.ExecContext(ctx, `
			DELETE FROM events
			WHERE id IN (SELECT id FROM events ORDER BY id LIMIT $1)
			AND stored < $2`, pruneStep, micros(before))
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); err != nil {
			return err
		}
		return pruneShares(ctx, tx, ofEvents, before)
	})
	return n, err
}

func (s *Store) pruneRuns(ctx context.Context, before time.Time) (n int, err error) {
	err = s.db.Write(failpoint.At(ctx, failpoint.RunsForgotten), func(tx *sqldb.Tx) error {
		old, err := column[string](tx.QueryContext(ctx, `
			SELECT id FROM runs
			WHERE ended > 0 AND ended < $1
			ORDER BY ended
			LIMIT $2`, micros(before), pruneStep))
		if err == nil {
			err = pruneShares(ctx, tx, ofRuns, before)
		}
		if n = len(old); err != nil || n == 0 {
			return err
		}
		in := "(" + sqldb.Placeholders(1, n) + ")"
		ids := anys(old)
		for _, query := range []string{
			`DELETE FROM calls WHERE run IN ` + in,
			`DELETE FROM submissions WHERE run IN ` + in,
			`DELETE FROM runs WHERE id IN ` + in,
		} {
			if _, err := tx.ExecContext(ctx, query, ids...); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// encode returns the JSON of a body. Values of the shared types can always be written.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}

func decode(body string, v any) error {
	if err := json.Unmarshal([]byte(body), v); err != nil {
		return fmt.Errorf("read stored %T: %w", v, err)
	}
	return nil
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// conflict says that a move was not possible from where something stands.
func conflict(format string, args ...any) error {
	return writ.Errorf(writ.CodeConflict, format, args...)
}

// Copy writes what the ledger in a file holds at this moment into a new file, also while a coordinator works with it.
func Copy(ctx context.Context, from, to string) error { return sqldb.Copy(ctx, from, to) }
