package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// writer writes to a SQLite file. It keeps a connection with all queries prepared, because begin, commit and the
// overhead of a pool cost as much as most queries.
type writer struct {
	pool *sql.DB   // with one connection
	conn *sql.Conn // nil until first use
	// texts holds the queries prepared on conn, at most maxPrepared: texts built at run time must not accumulate.
	texts map[string]*sql.Stmt
}

func (w *writer) close() error {
	w.drop()
	return w.pool.Close()
}

// attempt implements engine.
func (w *writer) attempt(
	tx *Tx, group []*change, apart bool, _ <-chan struct{},
) (errs []error, begun bool, err error) {
	if err := w.begin(); err != nil {
		return nil, false, err
	}
	tx.on = w
	errs, err = transact(tx, group, apart)
	if err == nil {
		_, err = w.ExecContext(context.Background(), "COMMIT")
	}
	if err == nil {
		return errs, true, nil
	}
	// ROLLBACK fails if SQLite has rolled back already. If the transaction is still open, begin replaces the
	// connection.
	_, _ = w.ExecContext(context.Background(), "ROLLBACK")
	return nil, true, err
}

// begin starts a transaction. If that fails, it replaces the connection once.
func (w *writer) begin() (err error) {
	for range 2 {
		if w.conn == nil {
			if w.conn, err = w.pool.Conn(context.Background()); err != nil {
				return err
			}
			w.texts = make(map[string]*sql.Stmt)
		}
		_, err = w.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		if err == nil || isUnavailable(err) {
			return err
		}
		w.drop()
	}
	return err
}

// drop closes the connection.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	for _, s := range w.texts {
		_ = s.Close() // closed with the connection anyway
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // keeps it out of the pool
	_ = w.conn.Close()
	w.conn, w.texts = nil, nil
}

// get returns the prepared query, or nil if it must run as text. If it cannot be prepared, running it returns the
// error.
func (w *writer) get(query string) *sql.Stmt {
	if s, ok := w.texts[query]; ok || len(w.texts) >= maxPrepared {
		return s
	}
	s, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil
	}
	w.texts[query] = s
	return s
}

func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s := w.get(query)
	if s == nil {
		return w.conn.ExecContext(ctx, query, args...)
	}
	return s.ExecContext(ctx, args...)
}

func (w *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s := w.get(query)
	if s == nil {
		return w.conn.QueryContext(ctx, query, args...)
	}
	return s.QueryContext(ctx, args...)
}

func (w *writer) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s := w.get(query)
	if s == nil {
		return w.conn.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

var _ statements = (*writer)(nil)
