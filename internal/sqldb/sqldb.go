// Package sqldb opens, migrates and transacts on the SQL stores of writ: SQLite files (or ":memory:") and PostgreSQL
// databases. Queries use a common dialect ($1 placeholders, ON CONFLICT, RETURNING); the few exceptions are in this
// package. It does not depend on the stored data. Concurrent writes share commits; see DB.Write.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"writ"
	"writ/internal/failpoint"
)

// idleConnections limits the idle connections for readers. Opening a connection costs more than most queries.
const idleConnections = maxReaders

// Tx is a transaction. All changes of a group share Now.
type Tx struct {
	Now    time.Time
	Batch  *Batch // nil for reads
	on     statements
	server *postgres // nil on SQLite
	pipe   *pipeline // the queue of Queue; nil on SQLite and for reads
	done   []func()  // the Done functions of its batches, nil for a batch without one
}

// statements runs queries in one transaction.
type statements interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Batch is shared by the changes that are committed or rolled back together. It holds work that runs once for all these
// changes.
type Batch struct {
	Common any                // set by the user of the store, nil for the first change
	End    func(tx *Tx) error // if set, runs after the last change; its error rolls back all changes
	Done   func()             // if set, runs after the commit and before the next batch; must be quick
}

// DB is an open store with one writer. The caller must close it.
type DB struct {
	// Clock is the source of Tx.Now; time.Now if nil. Set it before the first write.
	Clock func() time.Time

	*committer
	sql      *sql.DB
	server   *postgres // nil on SQLite
	prepared *prepared // prepared statements of sql, for reads
	local    localHosts
	health   health
	presence presence

	before     []precondition
	indexScans bool
}

// Option is a property of a store. It applies to stores on PostgreSQL only.
type Option func(db *DB)

type precondition = func(ctx context.Context, store *sql.DB) error

// Before calls a function before the migration of a database that other processes may use. An error cancels the
// migration.
func Before(check precondition) Option {
	return func(db *DB) { db.before = append(db.before, check) }
}

// IndexScans makes all queries find rows by an index, and by a plain scan of it, where this is possible. The server
// chooses other scans while its statistics are old, as for tables whose rows soon change or disappear. These scans visit
// each old version of a row until the next vacuum, but a plain scan marks old versions, so that later scans skip them.
// A full text search is slow with this option. Changes always use such scans.
func IndexScans(db *DB) { db.indexScans = true }

// Open opens the store at path and migrates its schema with the *.sql files of migrations. path is a file for SQLite,
// ":memory:" for a store that ends with the process, or the postgres:// URL of a database that several processes may
// share. Open rejects a schema newer than the program. A database on another machine needs TLS that verifies its name.
func Open(ctx context.Context, path string, migrations fs.FS, options ...Option) (*DB, error) {
	return openAs(ctx, onThisMachine, path, migrations, options)
}

// openAs is Open with a rule that determines which hosts are this machine.
func openAs(ctx context.Context, local localHosts, path string, migrations fs.FS, options []Option) (*DB, error) {
	db := newDB(local, options)
	open := db.openSQLite
	if strings.HasPrefix(path, "postgres://") || strings.HasPrefix(path, "postgresql://") {
		open = db.openPostgres
	}
	if err := open(ctx, path, migrations); err != nil {
		return nil, err
	}
	go db.loop() // Close waits for this goroutine; a store is useless without it
	return db, nil
}

// OpenToRead opens a store on PostgreSQL that other processes write to. The server rejects every write. The error is
// CONFLICT if the schema is not exactly the newest version of this program.
func OpenToRead(ctx context.Context, address string, migrations fs.FS, options ...Option) (*DB, error) {
	db := newDB(onThisMachine, options)
	if err := db.openPostgresToRead(ctx, address, migrations); err != nil {
		return nil, err
	}
	go db.loop() // Close waits for this goroutine
	return db, nil
}

func newDB(local localHosts, options []Option) *DB {
	db := &DB{local: local}
	for _, option := range options {
		option(db)
	}
	db.committer = newCommitter(db.now, db.storeError)
	return db
}

// upgrade applies the missing migrations, and returns the version of the newest migration. Before that, it calls the
// functions in before.
func upgrade(
	ctx context.Context, dialect goose.Dialect, pool *sql.DB, migrations fs.FS, before []precondition,
) (int64, error) {
	provider, err := goose.NewProvider(dialect, pool, migrations)
	if err != nil {
		return 0, err
	}
	have, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return 0, err
	}
	if have > newest {
		return 0, newerSchema(have, newest)
	}
	if 0 < have && have < newest {
		for _, ask := range before {
			if err := ask(ctx, pool); err != nil {
				return 0, err
			}
		}
	}
	failpoint.StoreUpgraded.Begin()
	_, err = provider.Up(ctx)
	failpoint.StoreUpgraded.End(err)
	return newest, err
}

func newerSchema(have, known int64) error {
	return writ.Errorf(writ.CodeConflict, "the store has schema version %d, this program knows version %d", have, known).
		WithHint("use a newer writ for this store")
}

// Close waits for the write in progress and closes the store. Waiting writes change nothing and return
// STORE_UNAVAILABLE.
func (db *DB) Close() error {
	db.presence.release()
	return errors.Join(db.committer.close(), db.sql.Close())
}

// Using returns the clause after the name of a table that makes SQLite use an index. Without statistics, SQLite often
// prefers another index. PostgreSQL has statistics and no such clause.
func (db *DB) Using(index string) string {
	if db.server != nil {
		return ""
	}
	return " INDEXED BY " + index
}

// SortsParts reports whether each part of a UNION ALL needs its own ORDER BY and LIMIT, so that the database merges the
// parts instead of sorting all their rows. SQLite merges parts without them, and would sort parts with them.
func SortsParts(db *DB) bool { return db.server != nil }

// Query runs a read-only query. The caller closes the rows.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := db.prepared.get(ctx, query); s != nil {
		rows, err := s.QueryContext(ctx, args...)
		return rows, db.readError(err)
	}
	rows, err := db.sql.QueryContext(ctx, query, args...)
	return rows, db.readError(err)
}

// QueryRow runs a read-only query for one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) Row {
	if s := db.prepared.get(ctx, query); s != nil {
		return Row{db, s.QueryRowContext(ctx, args...)}
	}
	return Row{db, db.sql.QueryRowContext(ctx, query, args...)}
}

// Row is the result of QueryRow.
type Row struct {
	db  *DB
	row *sql.Row
}

// Scan is sql.Row.Scan with the errors of the store.
func (r Row) Scan(into ...any) error { return r.db.readError(r.row.Scan(into...)) }

// Read runs `do` in a read-only transaction with a consistent snapshot.
func (db *DB) Read(ctx context.Context, do func(tx *Tx) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if db.server != nil {
		options.Isolation = sql.LevelRepeatableRead // SQLite always reads from a snapshot
	}
	tx, err := db.sql.BeginTx(ctx, options)
	if err != nil {
		return db.readError(err)
	}
	defer tx.Rollback()
	return db.readError(do(&Tx{Now: db.now(), on: onTx{tx, db.prepared}, server: db.server}))
}

// readError converts the error of a read. While the store is being closed, it returns STORE_UNAVAILABLE.
func (db *DB) readError(err error) error {
	select {
	case <-db.stop:
		if _, ok := errors.AsType[*writ.Error](err); err != nil && !ok && !errors.Is(err, sql.ErrNoRows) &&
			!errors.Is(err, context.Canceled) {
			return errClosed
		}
	default:
	}
	return db.storeError(err)
}

// storeError converts err for this store. If err means that the file is damaged, db.health remembers it.
func (db *DB) storeError(err error) error {
	return db.health.note(storeError(err, db.health.path, resumes))
}

// now returns the time of a transaction. Stores keep microseconds.
func (db *DB) now() time.Time {
	if db.Clock == nil {
		return now()
	}
	return db.Clock().UTC().Truncate(time.Microsecond)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// nextStep is the last part of a hint: the step after an operator has removed the fault.
type nextStep string

const (
	// resumes is for open stores. Their process repeats failed writes.
	resumes nextStep = "writ continues by itself"
	// restart is for stores that cannot be opened or copied. The process then ends.
	restart nextStep = "then start writ again"
)

// storeError converts errors of an engine to errors for people: STORE_FULL, STORE_READ_ONLY, STORE_DAMAGED,
// STORE_UNAVAILABLE for other temporary errors, and BAD_REQUEST for a text that cannot be stored. Other errors stay
// unchanged. path is the file of the store, or "". next ends the hint of a fault that an operator removes.
func storeError(err error, path string, next nextStep) error {
	if _, ok := errors.AsType[*writ.Error](err); err == nil || ok {
		return err
	}
	if postgresUnkept(err) {
		return because(err, writ.CodeBadRequest, "a text has a character that PostgreSQL cannot keep, such as NUL")
	}
	if known := conditionOf(err, path, next); known != nil {
		return known
	}
	if !isUnavailable(err) {
		return err
	}
	if _, ok := errors.AsType[*sqlite.Error](err); ok || isFileError(err) {
		// The text of SQLite or of the operating system names the cause.
		return writ.Errorf(writ.CodeStoreUnavailable, "the store cannot be read or written: %w", err).
			WithHint("free disk space, or make it writable; %s", next)
	}
	if what, hint := distrust(decisive(err)); what != "" {
		return because(err, writ.CodeStoreUnavailable, "this PostgreSQL is not trusted: %s", what).WithHint("%s", hint)
	}
	return because(err, writ.CodeStoreUnavailable, "PostgreSQL does not answer, or cannot write%s",
		postgresCause(decisive(err))).
		WithHint("check that it runs and has free space; %s", next)
}

// because returns an error whose cause is not part of its message.
func because(cause error, code writ.Code, format string, args ...any) *writ.Error {
	e := writ.Errorf(code, format, args...)
	e.Err = cause
	return e
}

// conditionOf returns the error of a store that is damaged, full or read-only, or else nil.
func conditionOf(err error, path string, next nextStep) error {
	switch {
	case sqliteDamaged(err):
		return damaged(path, err)
	case errors.Is(err, syscall.ENOSPC), sqliteCode(err) == sqlite3.SQLITE_FULL:
		return full(path, err, next)
	case errors.Is(err, syscall.EDQUOT), sqliteCode(err) == sqlite3.SQLITE_IOERR:
		return overQuota(path, next)
	case errors.Is(err, fs.ErrPermission) && path != "", errors.Is(err, syscall.EROFS),
		sqliteCode(err) == sqlite3.SQLITE_READONLY:
		return readOnly(path, err, next)
	}
	return postgresCondition(err, next)
}

func isUnavailable(err error) bool {
	return isFileError(err) || sqliteUnavailable(err) || postgresUnavailable(err)
}

// IsDuplicate reports whether err is the violation of a unique key.
func IsDuplicate(err error) bool { return sqliteDuplicate(err) || postgresDuplicate(err) }

// Micros returns the stored form of a time: unix microseconds, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of Micros.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Placeholders returns n placeholders for an IN list: "$from, $from+1, …".
func Placeholders(from, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", from+i)
	}
	return b.String()
}
