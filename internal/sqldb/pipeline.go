package sqldb

import (
	"context"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Limits of a queue of statements. A queue that reaches one of them is sent.
const (
	maxQueued      = 512
	maxQueuedBytes = 1 << 20 // texts and bytes of the arguments
)

// pipeline is a connection to PostgreSQL with a queue of statements whose results are not needed at once. The queue is
// sent together with the next statement whose result is needed, so that both share a round trip.
type pipeline struct {
	*stdlib.Conn
	queue []queued
	bytes int      // size of the arguments in the queue
	mark  int      // length of the queue after its last SAVEPOINT, or 0
	fault error    // first error of the open transaction; all further statements return it
	led   *ledRows // of the lead, nil after another statement
}

// queued is a statement in a queue.
type queued struct {
	query string
	args  []any
	check func(done pgconn.CommandTag) error // nil accepts every result
}

// pipelines opens connections with a queue.
type pipelines struct{ driver.Connector }

// Connect implements driver.Connector.
func (c pipelines) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pipeline{Conn: conn.(*stdlib.Conn)}, nil
}

// put adds a statement to the queue. The arguments must not change until the statement is sent.
func (p *pipeline) put(ctx context.Context, s queued) error {
	if p.fault != nil {
		return p.fault
	}
	if err := ctx.Err(); err != nil {
		return p.fail(err)
	}
	p.led = nil
	p.queue = append(p.queue, s)
	for _, arg := range s.args {
		switch v := arg.(type) {
		case []byte:
			p.bytes += len(v)
		case string:
			p.bytes += len(v)
		}
	}
	if len(p.queue) >= maxQueued || p.bytes >= maxQueuedBytes {
		return p.flush(ctx)
	}
	return nil
}

// flush sends the queue and waits for its results.
func (p *pipeline) flush(ctx context.Context) error {
	if p.fault != nil || len(p.queue) == 0 {
		return p.fault
	}
	results, err := p.send(ctx)
	if err != nil {
		return err
	}
	return p.fail(results.Close())
}

// send sends the queue and the statements `last` in one round trip, and checks the results of the queue. Without an
// error, the caller reads the results of `last` and closes them.
func (p *pipeline) send(ctx context.Context, last ...queued) (pgx.BatchResults, error) {
	conn := p.Conn.Conn()
	if conn.IsClosed() {
		return nil, p.fail(driver.ErrBadConn)
	}
	var batch pgx.Batch
	for _, statements := range [][]queued{p.queue, last} {
		for _, s := range statements {
			batch.Queue(s.query, s.args...)
		}
	}
	results := conn.SendBatch(ctx, &batch)
	err := readResults(results, p.queue)
	p.reset()
	if err != nil {
		_ = results.Close() // the first error is the cause
		return nil, p.fail(err)
	}
	return results, nil
}

// readResults reads the results of statements and checks them.
func readResults(results pgx.BatchResults, statements []queued) error {
	for _, s := range statements {
		done, err := results.Exec()
		if err == nil && s.check != nil {
			err = s.check(done)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reset empties the queue.
func (p *pipeline) reset() {
	clear(p.queue) // releases the arguments
	p.queue, p.bytes, p.mark = p.queue[:0], 0, 0
}

// fail records the first error of a transaction. It returns err.
func (p *pipeline) fail(err error) error {
	if err != nil && p.fault == nil {
		p.fault = err
	}
	return err
}

// hasChecks reports whether a statement of the queue has a check.
func (p *pipeline) hasChecks() bool {
	for _, s := range p.queue {
		if s.check != nil {
			return true
		}
	}
	return false
}

// savepoint queues a SAVEPOINT.
func (p *pipeline) savepoint(ctx context.Context) error {
	err := p.put(ctx, queued{query: savepointText})
	p.mark = len(p.queue)
	return err
}

// discard drops the statements that were queued after the last SAVEPOINT. The caller then rolls back to it.
func (p *pipeline) discard() {
	clear(p.queue[p.mark:])
	p.queue, p.fault = p.queue[:p.mark], nil
}

// ExecContext implements driver.ExecerContext. It sends the queue and the statement.
func (p *pipeline) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	var n int64
	err := p.put(ctx, queued{query, valuesOf(args), func(done pgconn.CommandTag) error {
		n = done.RowsAffected()
		return nil
	}})
	if err == nil {
		err = p.flush(ctx)
	}
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(n), nil
}

// QueryContext implements driver.QueryerContext. It sends the queue and the query.
func (p *pipeline) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if p.fault != nil {
		return nil, p.fault
	}
	led := p.led
	p.led = nil
	if led != nil && led.matches(query, args) {
		return led, nil
	}
	results, err := p.send(ctx, queued{query: query, args: valuesOf(args)})
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	first := err == nil && rows.Next() // the columns are known after the first row
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		_ = results.Close() // the first error is the cause
		return nil, p.fail(err)
	}
	return &pipelineRows{pipe: p, results: results, rows: rows, ahead: true, more: first}, nil
}

// valuesOf returns the values of arguments.
func valuesOf(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	return values
}
