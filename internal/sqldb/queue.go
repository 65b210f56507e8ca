package sqldb

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// Queue runs a statement whose result the change does not need. SQLite runs it at once. PostgreSQL receives it together
// with the next statement that is not queued, or with the commit, which saves a round trip. Its error then makes that
// statement and the whole change fail. The arguments must not change after the call.
func (tx *Tx) Queue(ctx context.Context, query string, args ...any) error {
	if tx.pipe != nil {
		return tx.pipe.put(ctx, queued{query: query, args: args})
	}
	_, err := tx.on.ExecContext(ctx, query, args...)
	return err
}

// Require is Queue for a statement that has to change at least one row. If it changes none, the change fails with the
// error that `otherwise` returns.
func (tx *Tx) Require(ctx context.Context, otherwise func() error, query string, args ...any) error {
	if tx.pipe != nil {
		return tx.pipe.put(ctx, queued{query, args, func(done pgconn.CommandTag) error {
			if done.RowsAffected() == 0 {
				return otherwise()
			}
			return nil
		}})
	}
	done, err := tx.on.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		err = otherwise()
	}
	return err
}

// flush sends the queue.
func (tx *Tx) flush() error {
	if tx.pipe == nil {
		return nil
	}
	return tx.pipe.flush(context.Background())
}

// check returns the error of the transaction. It sends the queue if one of its statements has a check, because COMMIT
// must not be sent before the result is known.
func (tx *Tx) check() error {
	switch {
	case tx.pipe == nil:
		return nil
	case tx.pipe.hasChecks():
		return tx.flush()
	}
	return tx.pipe.fault
}

// savepoint starts a part of the transaction that undo rolls back.
func (tx *Tx) savepoint() error {
	if tx.pipe != nil {
		return tx.pipe.savepoint(context.Background())
	}
	_, err := tx.Exec(savepointText)
	return err
}

// undo rolls back to the last savepoint.
func (tx *Tx) undo() error {
	if tx.pipe != nil {
		tx.pipe.discard()
	}
	_, err := tx.Exec(undoText)
	return err
}
