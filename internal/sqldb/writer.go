package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// writer is the one that writes to a file of SQLite. It keeps a connection with every query prepared on it: begin, commit and the way of
// a query through a pool cost as much as most queries do.
type writer struct {
	pool *sql.DB   // of one connection
	conn *sql.Conn // nil until it is needed
	// texts are prepared on conn. A program has some dozens; texts that are put together at run time must not pile up.
	texts map[string]*sql.Stmt
}

func (w *writer) close() error {
	w.drop()
	return w.pool.Close()
}

// attempt is that of DB.
func (w *writer) attempt(tx *Tx, group []*change, apart bool) (errs []error, begun bool, err error) {
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
	_, _ = w.ExecContext(context.Background(), "ROLLBACK") // fails if SQLite has done it already; if it did not, begin finds out
	return nil, true, err
}

// begin begins a transaction. A connection on which that is not possible is exchanged once.
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
		_ = s.Close() // goes with the connection in any case
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // does not go back to the pool
	_ = w.conn.Close()
	w.conn, w.texts = nil, nil
}

// get returns the prepared query, nil if it is to be run as text: then that says what is wrong with it.
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
