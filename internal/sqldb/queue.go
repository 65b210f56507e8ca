package sqldb

import (
	"context"
	"slices"
	"strings"
	"sync"

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

// Insert is the text of an INSERT statement with placeholders for the columns.
type Insert struct {
	Into string // "INSERT INTO table (a, b)"
	Then string // the text after the values, such as ON CONFLICT; "" for none
}

// rowsTogether are the numbers of rows of one statement. There are few, so that the statements stay prepared.
var rowsTogether = []int{64, 16, 4, 1}

// QueueRows runs Queue for each row. All rows have the same number of columns. PostgreSQL gets many rows in a statement:
// each statement costs more than its row. SQLite gets each row alone.
func QueueRows(ctx context.Context, tx *Tx, insert Insert, rows [][]any) error {
	for len(rows) > 0 {
		n := 1
		if tx.pipe != nil {
			n = rowsTogether[slices.IndexFunc(rowsTogether, func(n int) bool { return n <= len(rows) })]
		}
		if err := tx.Queue(ctx, insert.text(len(rows[0]), n), slices.Concat(rows[:n]...)...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insertTexts holds the results of Insert.text by insertText.
var insertTexts sync.Map

type insertText struct {
	Insert
	columns, rows int
}

// text returns the statement for n rows.
func (i Insert) text(columns, n int) string {
	key := insertText{i, columns, n}
	if known, ok := insertTexts.Load(key); ok {
		return known.(string)
	}
	var b strings.Builder
	b.WriteString(i.Into + " VALUES ")
	for row := range n {
		if row > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + Placeholders(1+row*columns, columns) + ")")
	}
	b.WriteString(" " + i.Then)
	insertTexts.Store(key, b.String())
	return b.String()
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
