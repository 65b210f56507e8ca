package sqldb

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"writ"
)

// A pooler such as PgBouncer lends the connections of a server to the transactions of many clients. The store does not
// work behind a pooler, because its session settings and locks belong to a connection.

// poolerError returns the error for a store behind a pooler.
func poolerError(reason string, cause error) *writ.Error {
	return because(cause, writ.CodeUsage, "the PostgreSQL of the store is behind a pooler that shares connections: %s",
		reason).
		WithHint("give the address of the server itself, without PgBouncer or another pooler (docs/manual/postgresql.md)")
}

// refusedByPooler reports whether a pooler rejected a parameter that every server accepts.
func refusedByPooler(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](decisive(err))
	return ok && e.Code == "08P01" && strings.Contains(e.Message, "unsupported startup parameter")
}

// checkDirect returns an error if a pooler is between this process and the server. Some poolers reject the session
// settings, some ignore them, and some keep them but lend the connection to other clients.
func checkDirect(ctx context.Context, config *pgx.ConnConfig) error {
	one, err := connectDirect(ctx, config)
	if err != nil {
		return err
	}
	defer one.Close(context.WithoutCancel(ctx))
	var backend uint32
	var lock, check string
	err = one.QueryRow(ctx,
		`SELECT pg_backend_pid(), current_setting('lock_timeout'), current_setting('client_connection_check_interval')`).
		Scan(&backend, &lock, &check)
	switch {
	case err != nil:
		return err
	case lock != lockTimeout || check != leftAfter:
		return poolerError("it ignores the settings of a session", nil)
	case isPgpool(ctx, one):
		return poolerError("Pgpool-II sends statements of a session to different servers", nil)
	case backend == one.PgConn().PID():
		return nil // the server itself answered
	}
	return checkOwnConnection(ctx, config, one)
}

// isPgpool reports whether Pgpool-II answers a statement that a server rejects. The other checks do not detect
// Pgpool-II, because it keeps the session settings and reports the server's own process id. The store cannot use it,
// because a standby may answer reads and take locks.
func isPgpool(ctx context.Context, conn *pgx.Conn) bool {
	var version string
	return conn.QueryRow(ctx, "SHOW pool_version", pgx.QueryExecModeSimpleProtocol).Scan(&version) == nil
}

// checkOwnConnection checks that two connections are two sessions of the server. A proxy that only forwards bytes
// passes.
func checkOwnConnection(ctx context.Context, config *pgx.ConnConfig, one *pgx.Conn) error {
	const mark, read = `SELECT set_config('writ.connection', $1, false)`,
		`SELECT coalesce(current_setting('writ.connection', true), '')`
	own := writ.NewUUID()
	if _, err := one.Exec(ctx, mark, own); err != nil {
		return err
	}
	other, err := connectDirect(ctx, config)
	if err != nil {
		return err
	}
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.Begin(ctx) // a pooler assigns a server connection to it
	if err != nil {
		return poolerError("it does not support transactions with several statements", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // the transaction only reads
	var seenByOther, seenByOwn string
	if err := tx.QueryRow(ctx, read).Scan(&seenByOther); err != nil {
		return err
	}
	if err := one.QueryRow(ctx, read).Scan(&seenByOwn); err != nil {
		return err
	}
	if seenByOther == own || seenByOwn != own {
		return poolerError("a setting of one session was seen in another", nil)
	}
	return nil
}

// connectDirect connects without prepared statements, which do not work with poolers.
func connectDirect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	c := session(config, statementTimeout, idleInRead)
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, c)
}

// decisive returns the most useful error of a connection attempt. An attempt may consist of several tries, such as with
// TLS and then without. The last response of a server wins; without a response, the last error does.
func decisive(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	ways, ok := failed.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	all := ways.Unwrap()
	if len(all) == 0 {
		return err
	}
	last := all[len(all)-1]
	for _, way := range all {
		if _, answered := errors.AsType[*pgconn.PgError](way); answered {
			last = way
		}
	}
	return last
}
