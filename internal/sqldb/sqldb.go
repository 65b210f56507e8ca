// Package sqldb opens, migrates and transacts on the SQL stores of the house: SQLite files (or ":memory:") and PostgreSQL databases.
// Texts of queries are dialect-neutral ($1 placeholders, ON CONFLICT, RETURNING); the few that are not are in here. It knows nothing of
// what is stored. Writes of many callers share commits: see DB.Write.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"writ"
	"writ/internal/failpoint"
)

// groupWindow is how long a commit waits for company when the group before it had more than one change; a lone writer never
// waits. At 50 runs in flight 0.2 ms was the best of 0, 0.05, 0.1, 0.2, 0.5, 1 and 2 ms: with less there are more commits, with more the
// processors wait.
const groupWindow = 200 * time.Microsecond

// idleConnections are kept for readers: opening one costs more than most queries.
const idleConnections = 8

// maxGroup bounds the changes of one commit.
const maxGroup = 512

// Tx is one transaction. All changes of a group share Now.
type Tx struct {
	Now    time.Time
	Batch  *Batch // nil when reading
	on     statements
	server *postgres // nil on SQLite
	done   []func()  // of its batches
}

// statements carries out queries in one transaction.
type statements interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Batch is what changes that are done and undone together have in common: a place for what is needed once for all of them.
type Batch struct {
	Common any                // of whoever uses the store, nil for the first change
	End    func(tx *Tx) error // runs after the last of the changes, if it is not nil; its error undoes all of them
	Done   func()             // runs when all of it is on disk, if it is not nil, and before the next batch begins; it must be quick
}

// DB is an open store with one writer. Close it.
type DB struct {
	// Clock is what Tx.Now is read from; time.Now if nil. Set it before anything is written.
	Clock func() time.Time

	sql      *sql.DB
	server   *postgres // nil on SQLite
	writer   *writer   // nil but for a file
	prepared *prepared // of sql, for readers
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

// Before is asked before the schema of a database that other processes may use is changed. With its error nothing is.
type Before func(ctx context.Context, store *sql.DB) error

// Open opens the store at path and brings its schema up to date with the *.sql files of migrations. path is a file for SQLite, or
// ":memory:" for a store that ends with the process, or the postgres:// URL of a database that several processes may share. A schema
// that is newer than the program is refused. Those of before are asked if a database has an older one.
func Open(ctx context.Context, path string, migrations fs.FS, before ...Before) (*DB, error) {
	db := &DB{changes: make(chan *change, maxGroup), stop: make(chan struct{}), stopped: make(chan struct{})}
	open := db.openSQLite
	if strings.HasPrefix(path, "postgres://") || strings.HasPrefix(path, "postgresql://") {
		open = db.openPostgres
	}
	if err := open(ctx, path, migrations, before); err != nil {
		return nil, err
	}
	go db.writeLoop() // the one goroutine that a constructor starts: Close waits for it, and no store is of use without it
	return db, nil
}

// upgrade applies the migrations that the store lacks, and returns the number of the newest.
func upgrade(ctx context.Context, dialect goose.Dialect, pool *sql.DB, migrations fs.FS, before []Before) (int64, error) {
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
	return writ.Errorf(writ.CodeConflict, "the store has schema %d, this program knows %d", have, known).
		WithHint("use a newer writ for this store")
}

// Close waits for the write in progress and closes the store. Writes that still waited changed nothing and are answered with
// STORE_UNAVAILABLE.
func (db *DB) Close() error {
	db.closing.Do(func() { close(db.stop) })
	<-db.stopped
	switch {
	case db.server != nil:
		return errors.Join(db.server.close(), db.sql.Close())
	case db.writer != nil:
		return errors.Join(db.writer.close(), db.sql.Close())
	default:
		return db.sql.Close()
	}
}

// Query runs a reading statement; the caller closes the rows.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := db.prepared.get(ctx, query); s != nil {
		rows, err := s.QueryContext(ctx, args...)
		return rows, db.readError(err)
	}
	rows, err := db.sql.QueryContext(ctx, query, args...)
	return rows, db.readError(err)
}

// QueryRow runs a reading statement for one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) Row {
	if s := db.prepared.get(ctx, query); s != nil {
		return Row{db, s.QueryRowContext(ctx, args...)}
	}
	return Row{db, db.sql.QueryRowContext(ctx, query, args...)}
}

// Row is the answer to QueryRow.
type Row struct {
	db  *DB
	row *sql.Row
}

// Scan is that of sql.Row.
func (r Row) Scan(into ...any) error { return r.db.readError(r.row.Scan(into...)) }

// Read runs do in a transaction that sees one moment of the store and changes nothing.
func (db *DB) Read(ctx context.Context, do func(tx *Tx) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if db.server != nil {
		options.Isolation = sql.LevelRepeatableRead // SQLite has no other
	}
	tx, err := db.sql.BeginTx(ctx, options)
	if err != nil {
		return db.readError(err)
	}
	defer tx.Rollback()
	return db.readError(do(&Tx{Now: db.now(), on: onTx{tx, db.prepared}, server: db.server}))
}

// readError is what a reader is told: of a store that is being closed, that it is not there now.
func (db *DB) readError(err error) error {
	select {
	case <-db.stop:
		if _, ok := errors.AsType[*writ.Error](err); err != nil && !ok && !errors.Is(err, sql.ErrNoRows) && !errors.Is(err, context.Canceled) {
			return errClosed
		}
	default:
	}
	return storeError(err)
}

// Write runs do in a transaction and returns when it is on disk. Changes that wait at the same time share one commit and one
// fsync. An error of do undoes its own change only. do may run several times: when a change of its group fails all are done again, each
// behind a savepoint, and when a commit fails each is tried again alone. When ctx ends before do was called, it never is, and Write
// returns ctx's error; after that Write waits for the outcome. So no outcome is ever unknown, and do never runs any more when Write has
// returned.
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
		for before := 0; before < len(group); { // as long as some come
			before = len(group)
			runtime.Gosched() // lets those who are about to write join this group: +19 % when measured
			group = db.drain(group)
		}
		last = len(group)
		db.commit(group)
	}
}

// drain adds the changes that wait to a group.
func (db *DB) drain(group []*change) []*change {
	for len(group) < maxGroup {
		select {
		case c := <-db.changes:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// maxConflicts is how often a change is tried again that PostgreSQL undid in favour of another transaction.
const maxConflicts = 5

// commit writes a group, and each of its changes alone if the group fails as a whole. A transaction that cannot even begin says
// nothing about the changes, so none of them is tried again.
func (db *DB) commit(group []*change) {
	errs, begun, err := db.attempt(group, false)
	if errors.Is(err, errOneFailed) {
		errs, begun, err = db.attempt(group, true)
	}
	if err != nil && begun && len(group) > 1 {
		for _, c := range group {
			db.commit([]*change{c})
		}
		return
	}
	for again := 0; again < maxConflicts && isConflict(err); again++ {
		errs, _, err = db.attempt(group, false)
	}
	for i, c := range group {
		if err != nil {
			c.done <- storeError(err)
		} else {
			failpoint.End(c.ctx, errs[i])
			c.done <- errs[i]
		}
	}
}

// attempt writes a group in one transaction, each change behind a savepoint if apart. It returns the error of each change, or the one
// that undid all of them and whether the transaction had begun.
func (db *DB) attempt(group []*change, apart bool) (errs []error, begun bool, err error) {
	tx := &Tx{Now: db.now()}
	switch {
	case db.server != nil:
		errs, begun, err = db.server.attempt(tx, group, apart, db.stop)
	case db.writer != nil:
		errs, begun, err = db.writer.attempt(tx, group, apart)
	default:
		errs, begun, err = db.attemptInMemory(tx, group, apart)
	}
	if err == nil {
		for _, done := range tx.done {
			done()
		}
	}
	return errs, begun, err
}

// attemptInMemory is attempt for a store that has one connection for all.
func (db *DB) attemptInMemory(tx *Tx, group []*change, apart bool) (errs []error, begun bool, err error) {
	on, err := db.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, false, err
	}
	defer on.Rollback()
	tx.on = on
	if errs, err = transact(tx, group, apart); err != nil {
		return nil, true, err
	}
	return errs, true, on.Commit()
}

// errOneFailed says that a change of a group failed, whose others must be done again without it.
var errOneFailed = errors.New("a change of the group failed")

// transact runs the changes of a group in one transaction. It returns the error of each change, or the error that made the whole
// transaction fail. The caller commits or rolls back.
//
// Failures are rare, and savepoints are dear: SQLite copies every page before it changes it. So a group is done without them first.
func transact(tx *Tx, group []*change, apart bool) (errs []error, err error) {
	if apart {
		return transactApart(tx, group)
	}
	errs = make([]error, len(group))
	tx.Batch = new(Batch)
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		switch err := run(c, tx); {
		case err == nil:
		case len(group) == 1 || isUnavailable(err):
			return nil, err
		default:
			return nil, errOneFailed
		}
	}
	return errs, tx.end()
}

// transactApart is transact with each change behind a savepoint of its own.
func transactApart(tx *Tx, group []*change) ([]error, error) {
	errs := make([]error, len(group))
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		if _, err := tx.Exec("SAVEPOINT change"); err != nil {
			return nil, err
		}
		tx.Batch = new(Batch)
		if errs[i] = run(c, tx); errs[i] == nil {
			errs[i] = tx.end()
		}
		end := []string{"RELEASE change"}
		if errs[i] != nil {
			if isUnavailable(errs[i]) {
				return nil, errs[i]
			}
			end = []string{"ROLLBACK TO change", "RELEASE change"}
		}
		// An interrupted or out-of-space statement makes SQLite roll the whole transaction back by itself; then this fails too.
		for _, text := range end {
			if _, err := tx.Exec(text); err != nil {
				return nil, err
			}
		}
	}
	return errs, nil
}

// end does what was left for the end of the changes.
func (tx *Tx) end() error {
	if tx.Batch.End != nil {
		if err := tx.Batch.End(tx); err != nil {
			return err
		}
	}
	if tx.Batch.Done != nil {
		tx.done = append(tx.done, tx.Batch.Done)
	}
	return nil
}

func run(c *change, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a change to the store panicked: %v", p)
		}
	}()
	failpoint.Begin(c.ctx)
	if err := c.do(tx); err != nil {
		return err
	}
	return failpoint.Amid(c.ctx)
}

// now is the time of a transaction: stores keep microseconds.
func (db *DB) now() time.Time {
	if db.Clock == nil {
		return now()
	}
	return db.Clock().UTC().Truncate(time.Microsecond)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// storeError turns errors that mean "not now" into STORE_UNAVAILABLE and leaves others as they are.
func storeError(err error) error {
	if _, ok := errors.AsType[*writ.Error](err); err == nil || ok || !isUnavailable(err) {
		return err
	}
	e := &writ.Error{Code: writ.CodeStoreUnavailable, Message: "the store cannot be read or written", Err: err}
	if _, ok := errors.AsType[*sqlite.Error](err); ok || isFileError(err) {
		e.Message += ": " + err.Error() // an engine's or the system's words, which say which of the two it is
		return e.WithHint("free disk space, or make it writable; writ goes on by itself")
	}
	e.Message = "PostgreSQL does not answer, or cannot write" + postgresCause(err)
	return e.WithHint("see that it runs and has room; writ goes on by itself")
}

func isUnavailable(err error) bool {
	return isFileError(err) || sqliteUnavailable(err) || postgresUnavailable(err)
}

// IsDuplicate reports whether err says that a unique key exists already.
func IsDuplicate(err error) bool { return sqliteDuplicate(err) || postgresDuplicate(err) }

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
