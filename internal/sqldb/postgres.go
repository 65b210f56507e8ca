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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"writ"
	"writ/internal/serveraddr"
)

// What a process takes of a server. A writer that stops in the middle of a transaction, because its process or machine did, must not keep
// the others waiting for longer than a lease has.
const (
	maxReaders       = 16 // connections; the writer has one of its own
	idleReaders      = 5 * time.Minute
	connectTimeout   = 5 * time.Second
	statementTimeout = "30s"
	lockTimeout      = "10s"
	idleInWrite      = "5s"
	idleInRead       = "60s"
	// leftAfter is how soon a server ends a statement whose process has closed the connection. The request to cancel it, which comes on a connection of
	// its own, is lost if it is there before the statement.
	leftAfter = "1s"
)

// The own tables of this package: what kind of store the database holds, and the last commit of each process that writes to it.
const ownTables = `
CREATE TABLE IF NOT EXISTS writ_store (
	kind TEXT NOT NULL PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS writ_commits (
	writer TEXT NOT NULL PRIMARY KEY,
	number BIGINT NOT NULL,
	at BIGINT NOT NULL
)`

// commitsKept is how long the last commit of a process that is gone is kept.
const commitsKept = 7 * 24 * time.Hour

// postgres is what a store on PostgreSQL has besides a pool for readers.
//
// Several processes may write. Each transaction begins with a lock, so that one writes at a time, as on SQLite: what a change has read
// stays true until it is committed, and no transaction is ever undone for having met another one. With the lock it notes its number. If
// the connection breaks during the commit, that number tells whether it took place.
type postgres struct {
	schema int64   // that this program knows
	pool   *sql.DB // of one connection
	writer string
	number int64 // of the transaction that was begun last; the writer's alone
}

func (db *DB) openPostgres(ctx context.Context, address string, migrations fs.FS, before []Before) error {
	config, err := db.configOf(address)
	if err != nil {
		return err
	}
	if err := checkDirect(ctx, config); err != nil {
		return fmt.Errorf("open %s: %w", nameOf(address), connectError(err))
	}
	schema, err := prepareDatabase(ctx, config, migrations, before)
	if err != nil {
		return fmt.Errorf("bring %s up to date: %w", nameOf(address), connectError(err))
	}
	db.connect(config, schema)
	return nil
}

// openPostgresToRead opens a store that is up to date, in sessions in which the server refuses every write.
func (db *DB) openPostgresToRead(ctx context.Context, address string, migrations fs.FS) error {
	config, err := db.configOf(address)
	if err != nil {
		return err
	}
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
		return writ.Errorf(writ.CodeConflict, "the store has schema %d, this program reads %d", have, newest).WithHint("use the version of writ that the store's process has")
	}
	db.connect(config, newest)
	return nil
}

// configOf reads an address, and refuses one that leads to another machine without TLS.
func (db *DB) configOf(address string) (*pgx.ConnConfig, error) {
	if _, err := serveraddr.Parse(address); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the address of the store cannot be used: %v", err).WithHint("%s", serveraddr.Hint)
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the address of the store is not one of PostgreSQL: %v", err).
			WithHint("postgres://user@host/database?sslmode=verify-full; the password comes from ~/.pgpass or PGPASSFILE")
	}
	if err := checkTransport(config, db.local); err != nil {
		return nil, err
	}
	config.ConnectTimeout = min(config.ConnectTimeout, connectTimeout)
	config.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}, Control: giveUpOnSilence}).DialContext
	return config, nil
}

// connect makes the pools of readers and of the writer. They connect when they are used.
func (db *DB) connect(config *pgx.ConnConfig, schema int64) {
	db.sql = stdlib.OpenDB(*session(config, statementTimeout, idleInRead))
	db.sql.SetMaxOpenConns(maxReaders)
	db.sql.SetMaxIdleConns(idleConnections)
	db.sql.SetConnMaxIdleTime(idleReaders)
	db.server = &postgres{pool: stdlib.OpenDB(*session(config, statementTimeout, idleInWrite)), writer: writ.NewUUID(), schema: schema}
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

// session returns config with what a session is to keep to. A commit is on disk when it is answered, whatever the server's default is.
func session(config *pgx.ConnConfig, statement, idle string) *pgx.ConnConfig {
	c := config.Copy()
	c.RuntimeParams["application_name"] = "writ"
	c.RuntimeParams["synchronous_commit"] = "on"
	c.RuntimeParams["statement_timeout"] = statement
	c.RuntimeParams["lock_timeout"] = lockTimeout
	c.RuntimeParams["idle_in_transaction_session_timeout"] = idle
	c.RuntimeParams["client_connection_check_interval"] = leftAfter
	return c
}

// prepareDatabase checks the database, claims it for one kind of store, brings it up to date and returns the number of its schema. It does
// so on connections of its own: others would keep plans that the migrations outdate.
func prepareDatabase(ctx context.Context, config *pgx.ConnConfig, migrations fs.FS, before []Before) (int64, error) {
	pool := stdlib.OpenDB(*session(config, "0", "0"))
	defer pool.Close()
	if newest, is, err := upToDate(ctx, pool, migrations); is || err != nil {
		return newest, err
	}
	alone, err := pool.Conn(ctx) // holds the lock while goose works on other connections
	if err != nil {
		return 0, err
	}
	defer alone.Close()
	if _, err := alone.ExecContext(ctx, `SELECT pg_advisory_lock(hashtextextended('writ migrates ' || current_schema(), 0))`); err != nil {
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

// upToDate reports whether there is nothing to prepare, and the number of the schema then. It takes no lock: a process that stops while it has
// that would keep all others from starting. So it changes nothing of a database in which there is something to prepare.
func upToDate(ctx context.Context, pool *sql.DB, migrations fs.FS) (newest int64, is bool, err error) {
	have, newest, err := versions(ctx, pool, migrations)
	if err != nil || have != newest {
		return 0, false, err
	}
	_, err = pool.ExecContext(ctx, `DELETE FROM writ_commits WHERE at < $1`, Micros(now().Add(-commitsKept)))
	return newest, err == nil, err
}

// versions returns the number of the schema of a database, 0 if nobody has claimed it, and that of the newest migration. It changes nothing.
func versions(ctx context.Context, pool *sql.DB, migrations fs.FS) (have, newest int64, err error) {
	var claimed bool
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, migrations)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range provider.ListSources() {
		newest = max(newest, s.Version)
	}
	if err := pool.QueryRowContext(ctx, `SELECT to_regclass('writ_store') IS NOT NULL AND to_regclass('goose_db_version') IS NOT NULL`).Scan(&claimed); err != nil || !claimed {
		return 0, newest, err
	}
	mine, err := kindOf(migrations)
	if err != nil {
		return 0, newest, err
	}
	err = checkKind(ctx, pool, mine)
	if errors.Is(err, sql.ErrNoRows) { // nobody has claimed it yet
		return 0, newest, nil
	}
	if err != nil {
		return 0, newest, err
	}
	have, err = provider.GetDBVersion(ctx)
	return have, newest, err
}

// checkOrder refuses a database that would order texts by the customs of a language: lists would differ between engines, and an update of
// the system's libraries could silently break every index.
func checkOrder(ctx context.Context, conn *sql.Conn) error {
	var encoding, order string
	err := conn.QueryRowContext(ctx, `SELECT pg_encoding_to_char(encoding), datcollate FROM pg_database WHERE datname = current_database()`).Scan(&encoding, &order)
	if err != nil {
		return err
	}
	switch strings.ToUpper(order) {
	case "C", "POSIX", "C.UTF-8", "C.UTF8":
		if encoding == "UTF8" {
			return nil
		}
	}
	return writ.Errorf(writ.CodeUsage, "the database has the encoding %s and orders texts by %s", encoding, order).
		WithHint("make one with `createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME`")
}

// claim makes sure that a database holds one kind of store: the one that its first migration is named after.
func claim(ctx context.Context, conn *sql.Conn, migrations fs.FS) error {
	mine, err := kindOf(migrations)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, `INSERT INTO writ_store (kind) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM writ_store)`, mine); err != nil {
		return err
	}
	return checkKind(ctx, conn, mine)
}

// kindOf is the kind of store that migrations make.
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

// checkKind refuses a database that holds another kind of store. It is sql.ErrNoRows if none has been claimed.
func checkKind(ctx context.Context, conn asker, mine string) error {
	var kind string
	if err := conn.QueryRowContext(ctx, `SELECT kind FROM writ_store`).Scan(&kind); err != nil {
		return err
	}
	if kind != mine {
		return writ.Errorf(writ.CodeConflict, "the database holds a %s, not a %s", kind, mine).WithHint("give each store a database of its own")
	}
	return nil
}

func (p *postgres) close() error { return p.pool.Close() }

// begin begins the next transaction. Behind it nobody else writes to the store.
func (p *postgres) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := p.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('writ writes ' || current_schema(), 0))`); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// attempt is that of DB. A commit whose answer was lost is looked for until it is known whether it took place, or stop is closed.
func (p *postgres) attempt(tx *Tx, group []*change, apart bool, stop <-chan struct{}) (errs []error, begun bool, err error) {
	ctx := context.Background()
	on, err := p.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer on.Rollback()
	p.number++
	_, err = on.ExecContext(ctx, `INSERT INTO writ_commits (writer, number, at) VALUES ($1, $2, $3)
		ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at`, p.writer, p.number, Micros(now()))
	if err != nil {
		return nil, false, err
	}
	tx.on, tx.server = on, p
	if errs, err = transact(tx, group, apart); err != nil {
		return nil, true, err
	}
	err = on.Commit()
	if err == nil || refused(err) {
		return errs, true, err
	}
	return errs, true, p.outcome(err, stop)
}

// outcome returns nil if the last transaction was committed although its answer was lost, and what happened to the answer if not.
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
			return writ.Errorf(writ.CodeStoreUnavailable, "PostgreSQL went away during a commit; whether it took place is known when it is back")
		case <-time.After(pause):
		}
	}
}

// committed reports whether the last transaction is there. The lock is free only when the transaction has come to an end, whichever.
func (p *postgres) committed(ctx context.Context) (bool, error) {
	tx, err := p.begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	var number int64
	err = tx.QueryRowContext(ctx, `SELECT number FROM writ_commits WHERE writer = $1`, p.writer).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return number == p.number, err
}

// Shared reports whether other processes can work with the store at the same time.
func (db *DB) Shared() bool { return db.server != nil }

// Clock returns the time by the clock of the store: that of PostgreSQL, which all who share it agree on, or else that of this machine.
func (tx *Tx) Clock(ctx context.Context) (time.Time, error) {
	if tx.server == nil {
		return now(), nil
	}
	var us int64
	err := tx.QueryRowContext(ctx, `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`).Scan(&us)
	return Time(us), err
}

// Current fails if another process has brought the schema of the database further than this program knows.
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
