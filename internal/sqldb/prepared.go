package sqldb

import (
	"context"
	"database/sql"
	"sync"
)

// maxPrepared limits the prepared texts. A program has a few dozen; texts built at run time must not accumulate.
const maxPrepared = 256

// prepared keeps the queries of a store prepared, on each connection that has used them. Parsing them each time took a
// fifth of the time of a busy store.
type prepared struct {
	sql *sql.DB // nil prepares nothing

	mu    sync.Mutex
	texts map[string]*sql.Stmt
}

// get returns the prepared query, or nil if it must run as text.
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
		return nil // the query as text returns the same error to its caller
	}
	p.texts[query] = s
	return s
}

// onTx runs queries in a transaction of a pool.
type onTx struct {
	*sql.Tx
	prepared *prepared
}

func (t onTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := t.prepared.get(ctx, query); s != nil {
		return t.StmtContext(ctx, s).ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t onTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := t.prepared.get(ctx, query); s != nil {
		return t.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t onTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := t.prepared.get(ctx, query); s != nil {
		return t.StmtContext(ctx, s).QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}

// ExecContext runs a statement. If ctx ends while the statement runs, SQLite rolls back the whole transaction.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.on.ExecContext(ctx, query, args...)
}

// QueryContext runs a query. The caller closes the rows.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.on.QueryContext(ctx, query, args...)
}

// QueryRowContext runs a query for one row.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.on.QueryRowContext(ctx, query, args...)
}

// Exec is ExecContext without a context.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	return tx.on.ExecContext(context.Background(), query, args...)
}

// Query is QueryContext without a context.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	return tx.on.QueryContext(context.Background(), query, args...)
}

// QueryRow is QueryRowContext without a context.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	return tx.on.QueryRowContext(context.Background(), query, args...)
}
