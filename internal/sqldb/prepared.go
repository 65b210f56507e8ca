package sqldb

import (
	"context"
	"database/sql"
	"sync"
)

// maxPrepared bounds the texts that are kept prepared. A program has some dozens; texts that are put together at run time must not
// pile up.
const maxPrepared = 256

// prepared keeps the queries of a store prepared, on each connection that used them: parsing them anew took a fifth of the time of a
// busy store.
type prepared struct {
	sql *sql.DB // nil prepares nothing

	mu    sync.Mutex
	texts map[string]*sql.Stmt
}

// get returns the prepared query, nil if it is to be run as text.
func (p *prepared) get(ctx context.Context, query string) *sql.Stmt {
	if p == nil || p.sql == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.texts[query]; ok || len(p.texts) >= maxPrepared {
		return s
	}
	s, err := p.sql.PrepareContext(ctx, query)
	if err != nil {
		return nil // running the text tells the same error, where it belongs
	}
	p.texts[query] = s
	return s
}

// ExecContext is that of sql.Tx, with the query kept prepared.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := tx.prepared.get(ctx, query); s != nil {
		return tx.StmtContext(ctx, s).ExecContext(ctx, args...)
	}
	return tx.Tx.ExecContext(ctx, query, args...)
}

// QueryContext is that of sql.Tx, with the query kept prepared.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := tx.prepared.get(ctx, query); s != nil {
		return tx.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	return tx.Tx.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of sql.Tx, with the query kept prepared.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := tx.prepared.get(ctx, query); s != nil {
		return tx.StmtContext(ctx, s).QueryRowContext(ctx, args...)
	}
	return tx.Tx.QueryRowContext(ctx, query, args...)
}
