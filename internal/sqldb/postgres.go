package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"writ"
	"writ/internal/serveraddr"
)

// Limits for the connections to a server. A writer that stops within a transaction, because its process or machine
// stopped, must not block other writers for longer than a lease.
const (
	maxReaders       = 16 // connections; the writer has its own
	idleReaders      = 5 * time.Minute
	connectTimeout   = 5 * time.Second
	statementTimeout = "30s"
	lockTimeout      = "10s"
	idleInWrite      = "5s"
	idleInRead       = "60s"
	// leftAfter is the interval at which a server checks whether the client of a running statement has closed its
	// connection; it then ends the statement. A cancel request alone is not enough: it uses another connection and is
	// lost if it arrives before the statement.
	leftAfter = "1s"
)

// ownTables are the tables of this package: the kind of the store, and the last commit of each writing process.
const ownTables = `
CREATE TABLE IF NOT EXISTS writ_store (
	kind TEXT NOT NULL PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS writ_commits (
	writer TEXT NOT NULL PRIMARY KEY,
	number BIGINT NOT NULL,
	at BIGINT NOT NULL
)`

// commitsKept is how long the last commit of an ended process is stored.
const commitsKept = 7 * 24 * time.Hour

// postgres is the writing part of a store on PostgreSQL.
//
// Several processes may write. Each transaction starts with a lock, so that only one process writes at a time, as on
// SQLite. Data that a change has read stays valid until the commit, and conflicts never roll a transaction back. Each
// transaction also stores its number. If the connection breaks during the commit, the number shows whether the commit
// happened.
type postgres struct {
	schema int64   // newest version that this program supports
	pool   *sql.DB // with one connection
	writer string
	number int64 // of the last transaction; used only by the writer
	lead   atomic.Pointer[lead]
}

func (db *DB) openPostgres(ctx context.Context, address string, migrations fs.FS) error {
	config, err := db.configOf(address)
	if err != nil {
		return err
	}
	if err := requireWritable(config, address); err != nil {
		return err
	}
	if err := checkDirect(ctx, config); err != nil {
		return fmt.Errorf("open %s: %w", nameOf(address), connectError(err))
	}
	schema, err := prepareDatabase(ctx, config, migrations, db.before)
	if err != nil {
		return fmt.Errorf("bring %s up to date: %w", nameOf(address), connectError(err))
	}
	db.connect(config, schema)
	return nil
}

// openPostgresToRead opens a store with an up-to-date schema, in sessions in which the server rejects writes.
func (db *DB) openPostgresToRead(ctx context.Context, address string, migrations fs.FS) error {
	config, err := db.configOf(address)
	if err != nil {
		return err
	}
	permitReadOnly(config, address)
	if err := checkDirect(ctx, config); err != nil {
		return fmt.Errorf("open %s: %w", nameOf(address), connectError(err))
	}
	config.RuntimeParams["default_transaction_read_only"] = "on"
	pool := stdlib.OpenDB(*session(config, statementTimeout, idleInRead))
	defer pool.Close()
	have, newest, err := versions(ctx, pool, migrations)
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", nameOf(address), connectError(err))
	case have > newest:
		return newerSchema(have, newest)
	case have < newest:
		return writ.Errorf(writ.CodeConflict, "the store has schema version %d, this program reads version %d", have, newest).
			WithHint("use the version of writ that the store's process has")
	}
	db.connect(config, newest)
	return nil
}

// configOf parses an address. It rejects an address on another machine without TLS.
func (db *DB) configOf(address string) (*pgx.ConnConfig, error) {
	if _, err := serveraddr.Parse(address); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the address of the store cannot be used: %v", err).
			WithHint("%s", serveraddr.Hint)
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the address of the store is not a PostgreSQL address: %v", err).
			WithHint("postgres://user@host/database?sslmode=verify-full; the password comes from ~/.pgpass or PGPASSFILE")
	}
	if config.RuntimeParams["replication"] != "" {
		return nil, writ.Errorf(writ.CodeUsage, "the address of the store has replication=%s, which is for standbys",
			config.RuntimeParams["replication"]).
			WithHint("remove replication from the address")
	}
	if err := checkTransport(config, db.local); err != nil {
		return nil, err
	}
	config.ConnectTimeout = min(config.ConnectTimeout, connectTimeout)
	config.DialFunc = (&net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         giveUpOnSilence,
	}).DialContext
	return config, nil
}

// connect creates the pools of the readers and the writer. They connect on first use.
func (db *DB) connect(config *pgx.ConnConfig, schema int64) {
	reading := session(config, statementTimeout, idleInRead)
	if db.indexScans {
		useIndexScans(reading)
	}
	writing := session(config, statementTimeout, idleInWrite)
	useIndexScans(writing)
	db.sql = stdlib.OpenDB(*reading)
	db.sql.SetMaxOpenConns(maxReaders)
	db.sql.SetMaxIdleConns(idleConnections)
	db.sql.SetConnMaxIdleTime(idleReaders)
	db.server = &postgres{
		pool:   sql.OpenDB(pipelines{stdlib.GetConnector(*writing)}),
		writer: writ.NewUUID(), schema: schema,
	}
	db.engine = db.server
	db.server.pool.SetMaxOpenConns(1)
	db.server.pool.SetMaxIdleConns(1)
}

// nameOf returns an address without its password and options.
func nameOf(address string) string {
	u, err := serveraddr.Parse(address)
	if err != nil {
		return "PostgreSQL"
	}
	u.User, u.RawQuery = url.User(u.User.Username()), ""
	return u.String()
}

// session returns config with the session settings. Commits are synchronous, regardless of the server's default.
func session(config *pgx.ConnConfig, statement, idle string) *pgx.ConnConfig {
	c := config.Copy()
	c.RuntimeParams["application_name"] = "writ"
	c.RuntimeParams["synchronous_commit"] = "on"
	c.RuntimeParams["statement_timeout"] = statement
	c.RuntimeParams["lock_timeout"] = lockTimeout
	c.RuntimeParams["idle_in_transaction_session_timeout"] = idle
	c.RuntimeParams["client_connection_check_interval"] = leftAfter
	c.RuntimeParams["jit"] = "off" // to compile a query takes longer than to run it
	return c
}

// useIndexScans sets the option IndexScans for a session.
func useIndexScans(session *pgx.ConnConfig) {
	session.RuntimeParams["enable_seqscan"] = "off"
	session.RuntimeParams["enable_bitmapscan"] = "off"
}

// prepareDatabase checks the database, claims it for one kind of store, migrates it, and returns its schema version. It
// uses separate connections, because migrations invalidate the cached plans of open connections.
func prepareDatabase(
	ctx context.Context, config *pgx.ConnConfig, migrations fs.FS, before []precondition,
) (int64, error) {
	pool := stdlib.OpenDB(*session(config, "0", "0"))
	defer pool.Close()
	if newest, is, err := upToDate(ctx, pool, migrations); is || err != nil {
		return newest, err
	}
	alone, err := pool.Conn(ctx) // holds the lock while goose uses other connections
	if err != nil {
		return 0, err
	}
	defer alone.Close()
	if _, err := alone.ExecContext(ctx,
		`SELECT pg_advisory_lock(hashtextextended('writ migrates ' || current_schema(), 0))`); err != nil {
		return 0, err
	}
	if err := checkOrder(ctx, alone); err != nil {
		return 0, err
	}
	if _, err := alone.ExecContext(ctx, ownTables); err != nil {
		return 0, err
	}
	if err := claim(ctx, alone, migrations); err != nil {
		return 0, err
	}
	return upgrade(ctx, goose.DialectPostgres, pool, migrations, before)
}

// upToDate reports whether the database needs no preparation, and returns its schema version. It takes no lock, because
// a process that is suspended while it holds the lock would prevent all other processes from starting. If the database
// needs no preparation, it also deletes old rows of writ_commits.
func upToDate(ctx context.Context, pool *sql.DB, migrations fs.FS) (newest int64, is bool, err error) {
	have, newest, err := versions(ctx, pool, migrations)
	if err != nil || have != newest {
		return 0, false, err
	}
	_, err = pool.ExecContext(ctx, `DELETE FROM writ_commits WHERE at < $1`, Micros(now().Add(-commitsKept)))
	return newest, err == nil, err
}

// versions returns the schema version of a database, 0 if the database is unclaimed, and the version of the newest
// migration. It changes nothing.
func versions(ctx context.Context, pool *sql.DB, migrations fs.FS) (have, newest int64, err error) {
	var claimed bool
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range provider.ListSources() {
		newest = max(newest, s.Version)
	}
	if err := pool.QueryRowContext(ctx,
		`SELECT to_regclass('writ_store') IS NOT NULL AND to_regclass('goose_db_version') IS NOT NULL`).Scan(&claimed); err !=
		nil || !claimed {
		return 0, newest, err
	}
	mine, err := kindOf(migrations)
	if err != nil {
		return 0, newest, err
	}
	err = checkKind(ctx, pool, mine)
	if errors.Is(err, sql.ErrNoRows) { // unclaimed
		return 0, newest, nil
	}
	if err != nil {
		return 0, newest, err
	}
	have, err = provider.GetDBVersion(ctx)
	return have, newest, err
}

// claim reserves the database for one kind of store. The file name of the first migration contains the kind.
func claim(ctx context.Context, conn *sql.Conn, migrations fs.FS) error {
	mine, err := kindOf(migrations)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx,
		`INSERT INTO writ_store (kind) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM writ_store)`, mine); err != nil {
		return err
	}
	return checkKind(ctx, conn, mine)
}

// kindOf returns the kind of store that the migrations create.
func kindOf(migrations fs.FS) (string, error) {
	names, err := fs.Glob(migrations, "0001_*.sql")
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("find the first migration: %q, %w", names, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(names[0], "0001_"), ".sql"), nil
}

// asker is a pool or one of its connections.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkKind rejects a database with another kind of store. It returns sql.ErrNoRows for an unclaimed database.
func checkKind(ctx context.Context, conn asker, mine string) error {
	var kind string
	if err := conn.QueryRowContext(ctx, `SELECT kind FROM writ_store`).Scan(&kind); err != nil {
		return err
	}
	if kind != mine {
		return writ.Errorf(writ.CodeConflict, "the database holds a %s, not a %s", kind, mine).
			WithHint("give each store a database of its own")
	}
	return nil
}

func (p *postgres) close() error { return p.pool.Close() }

// serverTx is a transaction on the connection of the writer.
type serverTx struct {
	*sql.Conn
	pipe *pipeline
}

// The first statements of a transaction. The lock keeps other processes from writing to the store.
const (
	beginText = "BEGIN ISOLATION LEVEL READ COMMITTED"
	lockText  = `SELECT pg_advisory_xact_lock(hashtextextended('writ writes ' || current_schema(), 0))`
)

// begin starts the next transaction and runs the statements `first` and the lead in it, in one round trip. No other
// process writes to the store until it ends.
func (p *postgres) begin(ctx context.Context, first ...queued) (*serverTx, error) {
	conn, err := p.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx := &serverTx{Conn: conn}
	if err := conn.Raw(func(c any) error { tx.pipe = c.(*pipeline); return nil }); err != nil {
		conn.Close()
		return nil, err
	}
	for _, s := range append([]queued{{query: beginText}, {query: lockText}}, first...) {
		if err := tx.pipe.put(ctx, s); err != nil {
			tx.end()
			return nil, err
		}
	}
	if l := p.lead.Load(); l != nil {
		err = tx.pipe.follow(ctx, l)
	} else {
		err = tx.pipe.flush(ctx)
	}
	if err != nil {
		tx.end()
		return nil, err
	}
	return tx, nil
}

// commit sends the queue and COMMIT in one round trip.
func (t *serverTx) commit(ctx context.Context) error {
	if err := t.pipe.put(ctx, queued{query: "COMMIT", check: mustCommit}); err != nil {
		return err
	}
	return t.pipe.flush(ctx)
}

// mustCommit checks the result of COMMIT, which rolls back a transaction after a failed statement.
func mustCommit(done pgconn.CommandTag) error {
	if done.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// end rolls back the transaction, unless it has ended, and returns the connection to the pool, which replaces a broken
// one. It may be called twice.
func (t *serverTx) end() {
	if t.pipe == nil {
		return
	}
	t.pipe.reset()
	t.pipe.fault, t.pipe.led = nil, nil
	if conn := t.pipe.Conn.Conn(); !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		_, _ = t.ExecContext(context.Background(), "ROLLBACK") // the pool closes a connection with an open transaction
	}
	t.pipe.fault = nil
	_ = t.Close()
	t.pipe = nil
}

// attempt implements engine. If the result of a commit is lost, it asks the server again until it gets the outcome, or
// until stop is closed.
func (p *postgres) attempt(
	tx *Tx, group []*change, apart bool, stop <-chan struct{},
) (errs []error, begun bool, err error) {
	ctx := context.Background()
	p.number++
	on, err := p.begin(ctx, queued{query: `INSERT INTO writ_commits (writer, number, at) VALUES ($1, $2, $3)
		ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at`,
		args: []any{p.writer, p.number, Micros(now())}})
	if err != nil {
		return nil, false, err
	}
	defer on.end()
	tx.on, tx.server, tx.pipe = on, p, on.pipe
	if errs, err = transact(tx, group, apart); err != nil {
		return nil, true, err
	}
	switch err = on.commit(ctx); {
	case err == nil:
		return errs, true, nil
	case refused(err): // also a statement that was sent together with COMMIT
		return nil, true, oneFailed(err, group)
	}
	on.end()
	return errs, true, p.outcome(err, stop)
}

// errUnknown is the error of changes that may have been committed.
var errUnknown = writ.Errorf(writ.CodeStoreUnavailable,
	"PostgreSQL disconnected during a commit; its outcome is known when PostgreSQL is back")

// outcome returns nil if the last transaction was committed although its result was lost, and the error `lost` if it
// was not. It returns errUnknown if stop is closed before the server answers.
func (p *postgres) outcome(lost error, stop <-chan struct{}) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		committed, err := p.committed(context.Background())
		switch {
		case err == nil && committed:
			return nil
		case err == nil:
			return lost
		}
		select {
		case <-stop:
			return errUnknown
		case <-time.After(pause):
		}
	}
}

// committed reports whether the last transaction was committed. It waits for the lock, which is released when that
// transaction has ended.
func (p *postgres) committed(ctx context.Context) (bool, error) {
	tx, err := p.begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.end()
	var number int64
	err = tx.QueryRowContext(ctx, `SELECT number FROM writ_commits WHERE writer = $1`, p.writer).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return number == p.number, err
}

// Shared reports whether several processes can use the store at the same time.
func (db *DB) Shared() bool { return db.server != nil }

// Clock returns the time of the store's clock. On PostgreSQL this is the clock of the server, which all processes
// share; on SQLite it is the clock of this machine.
func (tx *Tx) Clock(ctx context.Context) (time.Time, error) {
	if tx.server == nil {
		return now(), nil
	}
	var us int64
	err := tx.QueryRowContext(ctx, `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`).Scan(&us)
	return Time(us), err
}

// Current returns an error if another process has migrated the database to a newer schema than this program supports.
func (tx *Tx) Current(ctx context.Context) error {
	if tx.server == nil {
		return nil
	}
	var have int64
	if err := tx.QueryRowContext(ctx, `SELECT MAX(version_id) FROM goose_db_version`).Scan(&have); err != nil {
		return err
	}
	if have > tx.server.schema {
		return newerSchema(have, tx.server.schema)
	}
	return nil
}
