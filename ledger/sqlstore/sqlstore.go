// Package sqlstore is a ledger in an SQL store: PostgreSQL, a SQLite file, or ":memory:" for tests and single-process
// setups. It must not depend on its callers.
package sqlstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a ledger in an SQL store. Its parts share one database.
type Store struct {
	tables
	rosterTables
	registrationTable
	submissionTable
	runTable
	callTable
	nodeTable
	resourceTable
	usageTables
	eventTables
	webhookTable
}

// tables is the database of a Store, with the reporter of its unreadable rows and its newest events.
type tables struct {
	db     *sqldb.DB
	damage *damage
	recent *recentEvents
}

// write is sqldb.DB.Write for changes that store or delete events.
//
//failpoint:none the caller names the write
func (t tables) write(ctx context.Context, do func(tx *sqldb.Tx) error) error {
	return t.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := t.recent.join(ctx, tx); err != nil {
			return err
		}
		return do(tx)
	})
}

var _ interface {
	ledger.Ledger
	ledger.UnreadableReporter
} = (*Store)(nil)

// Open opens or creates the ledger at path. ":memory:" is a ledger that ends with the process. Open rejects a ledger of
// a newer version of writ.
func Open(ctx context.Context, path string) (*Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db, err := sqldb.Open(ctx, path, files)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	sqldb.SetLead(db, newestID) // see recentEvents.join
	return newStore(tables{db, new(damage), newRecentEvents(db.Shared())}), nil
}

func newStore(in tables) *Store {
	return &Store{
		in, rosterTables{in}, registrationTable{in}, submissionTable{in}, runTable{tables: in}, callTable{in}, nodeTable{in},
		resourceTable{in}, usageTables{in}, eventTables{in}, webhookTable{in},
	}
}

// Close waits for the write in progress and closes the store.
func (s *Store) Close() error { return s.db.Close() }

// Shared reports whether several coordinators can use the ledger at the same time.
func (s *Store) Shared() bool { return s.db.Shared() }

// probeSize is the size in bytes of the row that Check writes. It equals a large submission with its events, so the
// next submission fits too.
const probeSize = 64 << 10

// Check reports whether the ledger can be used. It examines the file and overwrites one row.
func (s *Store) Check(ctx context.Context) error {
	if err := s.db.Check(ctx); err != nil {
		return err
	}
	return s.db.Write(failpoint.At(ctx, failpoint.LedgerProbed), func(tx *sqldb.Tx) error {
		err := tx.Queue(ctx, `
			INSERT INTO probes (name, body)
			VALUES ('room', $1)
			ON CONFLICT (name) DO UPDATE SET body = excluded.body`, make([]byte, probeSize))
		return err
	})
}

// conflict returns a CONFLICT error for a change that the current state does not allow.
func conflict(format string, args ...any) error {
	return writ.Errorf(writ.CodeConflict, format, args...)
}

// Copy writes a snapshot of the ledger in a file into a new file, even while a coordinator uses it.
func Copy(ctx context.Context, from, to string) error { return sqldb.Copy(ctx, from, to) }
