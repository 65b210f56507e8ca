package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
)

// presence is a connection that holds a lock with a name for as long as this process uses it. If the process is killed,
// the operating system closes the connection, and PostgreSQL releases the lock at once.
type presence struct {
	mu   sync.Mutex
	conn *sql.Conn // nil without a lock
	name string
}

// presenceKey is the key of the lock with the name $1. Other stores of the database have other keys.
const presenceKey = `hashtextextended($1 || ' ' || current_schema(), 0)`

// HoldPresence makes Present return true for a name until the store is closed, its process ends, or the next call with
// another name. Each call checks the connection and replaces a broken one. On SQLite it returns nil at once.
func HoldPresence(ctx context.Context, db *DB, name string) error {
	if db.server == nil {
		return nil
	}
	p := &db.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.name == name && p.conn.PingContext(ctx) == nil {
		return nil
	}
	p.drop()
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return db.readError(err)
	}
	p.conn, p.name = conn, name
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock_shared(`+presenceKey+`)`, name); err != nil {
		p.drop()
		return db.readError(err)
	}
	return nil
}

// Present reports whether a process holds a presence on PostgreSQL.
func Present(ctx context.Context, tx *Tx, name string) (held bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT) = `+presenceKey+`)`, name).Scan(&held)
	return held, err
}

// release ends the presence.
func (p *presence) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// drop closes the connection. The caller holds mu.
func (p *presence) drop() {
	if p.conn == nil {
		return
	}
	_ = p.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it; the pool would keep it with its lock
	_ = p.conn.Close()
	p.conn = nil
}
