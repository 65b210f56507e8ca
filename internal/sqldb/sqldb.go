// Package sqldb opens, migrates and transacts on the SQL stores of the house: SQLite files (or ":memory:"). Texts of queries are
// dialect-neutral ($1 placeholders, ON CONFLICT, RETURNING), so that PostgreSQL can stand behind the same stores. It knows nothing of
// what is stored. Writes of many callers share commits: see DB.Write.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"writ"
)

// groupWindow is how long a commit waits for company when the group before it had more than one change; a lone writer never
// waits. Half a millisecond was the best of 0, 0.5 and 2 ms at 50 runs in flight.
const groupWindow = 500 * time.Microsecond

// idleConnections are kept for readers: opening one costs more than most queries.
const idleConnections = 8

// maxGroup bounds the changes of one commit.
const maxGroup = 512

// Tx is one transaction. All changes of a group share Now.
type Tx struct {
	*sql.Tx
	Now      time.Time
	prepared *prepared
}

// DB is an open store with one writer. Close it.
type DB struct {
	sql      *sql.DB
	prepared *prepared
	changes  chan *change
	stop     chan struct{} // closed to end the writer
	stopped  chan struct{} // closed when the writer has answered its last group
	closing  sync.Once
}

type change struct {
	ctx  context.Context
	do   func(tx *Tx) error
	done chan error
	fate atomic.Int32
}

// The fates of a change. Whoever sets one first decides: the writer, or the caller whose context ended.
const (
	waiting int32 = iota
	begun
	abandoned
)

// begin reports whether the writer may run the change. It may do so again when the group failed.
func (c *change) begin() bool { return c.fate.CompareAndSwap(waiting, begun) || c.fate.Load() == begun }

// Open opens the store at path (":memory:" for one that ends with the process) and brings its schema up to date with the *.sql
// files of migrations. A schema that is newer than the program is refused.
func Open(ctx context.Context, path string, migrations fs.FS) (*DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)"
	if path == ":memory:" {
		dsn = "file:" + writ.NewUUID() + "?mode=memory&cache=shared&_txlock=immediate&_pragma=foreign_keys(1)"
	} else if err := reserve(path); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, storeError(err))
	}
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if path == ":memory:" {
		pool.SetMaxOpenConns(1) // a shared cache locks whole tables; one connection never waits for itself
		pool.SetConnMaxLifetime(0)
		pool.SetMaxIdleConns(1)
	} else {
		pool.SetMaxIdleConns(idleConnections)
	}
	if err := migrate(ctx, pool, migrations); err != nil {
		pool.Close()
		return nil, fmt.Errorf("bring %s up to date: %w", path, storeError(err))
	}
	kept := &prepared{sql: pool, texts: make(map[string]*sql.Stmt)}
	if path == ":memory:" {
		kept = nil // preparing needs a second connection
	}
	db := &DB{sql: pool, prepared: kept, changes: make(chan *change, maxGroup), stop: make(chan struct{}), stopped: make(chan struct{})}
	go db.writeLoop() // the one goroutine that a constructor starts: Close waits for it, and no store is of use without it
	return db, nil
}

// reserve makes the file so that its owner alone reads it, before SQLite would make it readable to all. The files that SQLite puts
// beside it take its mode.
func reserve(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func migrate(ctx context.Context, pool *sql.DB, migrations fs.FS) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, migrations)
	if err != nil {
		return err
	}
	have, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > newest {
		return writ.Errorf(writ.CodeConflict, "the store has schema %d, this program knows %d", have, newest).
			WithHint("use a newer writ for this data directory")
	}
	_, err = provider.Up(ctx)
	return err
}

// Close waits for the write in progress and closes the store. Writes that still waited changed nothing and are answered with
// STORE_UNAVAILABLE.
func (db *DB) Close() error {
	db.closing.Do(func() { close(db.stop) })
	<-db.stopped
	return db.sql.Close()
}

// Query runs a reading statement; the caller closes the rows.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := db.sql.QueryContext(ctx, query, args...)
	return rows, storeError(err)
}

// QueryRow runs a reading statement for one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return db.sql.QueryRowContext(ctx, query, args...)
}

// Read runs do in a transaction that sees one moment of the store and changes nothing.
func (db *DB) Read(ctx context.Context, do func(tx *Tx) error) error {
	tx, err := db.sql.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return storeError(err)
	}
	defer tx.Rollback()
	return storeError(do(&Tx{Tx: tx, Now: now(), prepared: db.prepared}))
}

// Write runs do in a transaction and returns when it is on disk. Changes that wait at the same time share one commit and one
// fsync. An error of do undoes its own change only. do may run twice: when a commit fails, each change of its group is tried again
// alone. When ctx ends before do was called, it never is, and Write returns ctx's error; after that Write waits for the outcome. So no
// outcome is ever unknown, and do never runs any more when Write has returned.
func (db *DB) Write(ctx context.Context, do func(tx *Tx) error) error {
	c := &change{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case db.changes <- c:
	case <-db.stop:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.fate.CompareAndSwap(waiting, abandoned) {
			return ctx.Err()
		}
		return db.outcome(c)
	case <-db.stopped:
		return db.outcome(c)
	}
}

// outcome waits for the answer to a change, or for the writer's end without one.
func (db *DB) outcome(c *change) error {
	select {
	case err := <-c.done:
		return err
	case <-db.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return errClosed
		}
	}
}

var errClosed = writ.Errorf(writ.CodeStoreUnavailable, "the store is being closed")

func (db *DB) writeLoop() {
	defer close(db.stopped)
	last := 0
	for {
		var group []*change
		select {
		case <-db.stop:
			return
		case c := <-db.changes:
			group = append(group, c)
		}
		if last > 1 {
			time.Sleep(groupWindow)
		}
		runtime.Gosched() // lets those who are about to write join this group: +19 % when measured
		for more := true; more && len(group) < maxGroup; {
			select {
			case c := <-db.changes:
				group = append(group, c)
			default:
				more = false
			}
		}
		last = len(group)
		db.commit(group)
	}
}

// commit writes a group, and each of its changes alone if the group fails as a whole. A transaction that cannot even begin says
// nothing about the changes, so none of them is tried again.
func (db *DB) commit(group []*change) {
	tx, err := db.sql.BeginTx(context.Background(), nil)
	var errs []error
	if err == nil {
		errs, err = transact(&Tx{Tx: tx, Now: now(), prepared: db.prepared}, group)
		tx.Rollback()
	}
	if err != nil && tx != nil && len(group) > 1 {
		for _, c := range group {
			db.commit([]*change{c})
		}
		return
	}
	for i, c := range group {
		if err != nil {
			c.done <- storeError(err)
		} else {
			c.done <- errs[i]
		}
	}
}

// transact runs the changes of a group in one transaction, each behind a savepoint of its own. It returns the error of each change,
// or the error that made the whole transaction fail. The caller rolls back.
func transact(tx *Tx, group []*change) ([]error, error) {
	errs := make([]error, len(group))
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		if _, err := tx.Exec("SAVEPOINT change"); err != nil {
			return nil, err
		}
		errs[i] = run(c, tx)
		end := "RELEASE change"
		if errs[i] != nil {
			if isUnavailable(errs[i]) {
				return nil, errs[i]
			}
			end = "ROLLBACK TO change; RELEASE change"
		}
		// An interrupted or out-of-space statement makes SQLite roll the whole transaction back by itself; then this fails too.
		if _, err := tx.Exec(end); err != nil {
			if len(group) == 1 && errs[i] != nil {
				return nil, errs[i] // the reason, rather than that its savepoint is gone
			}
			return nil, err
		}
	}
	return errs, tx.Commit()
}

func run(c *change, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a change to the store panicked: %v", p)
		}
	}()
	return c.do(tx)
}

// now is the time of a transaction: stores keep microseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// storeError turns errors that mean "not now" into STORE_UNAVAILABLE and leaves others as they are.
func storeError(err error) error {
	if _, ok := errors.AsType[*writ.Error](err); !ok && isUnavailable(err) {
		return &writ.Error{Code: writ.CodeStoreUnavailable, Message: "the store cannot be read or written", Hint: "free disk space, or make it writable; writ goes on by itself", Err: err}
	}
	return err
}

func isUnavailable(err error) bool {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		return true // from reserve
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return true
	}
	return false
}

// IsDuplicate reports whether err says that a unique key exists already.
func IsDuplicate(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// Micros is how stores keep a time: unix microseconds, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the reverse of Micros.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Placeholders returns "$from, $from+1, …", n of them, for an IN list.
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
