package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
)

// lead is the first query of most transactions.
type lead struct {
	query string
	args  []driver.NamedValue
}

// SetLead sets the first query of most write transactions. PostgreSQL then receives it with the begin of each
// transaction, which saves a round trip. All arguments are texts. Other first queries work as before.
func SetLead(db *DB, query string, args ...string) {
	if db.server == nil {
		return
	}
	l := &lead{query: query}
	for i, arg := range args {
		l.args = append(l.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	db.server.lead.Store(l)
}

// ledRows are the rows of a lead. They implement driver.Rows.
type ledRows struct {
	lead    *lead
	columns []string
	rows    [][]driver.Value
}

// matches reports whether the lead equals a query.
func (r *ledRows) matches(query string, args []driver.NamedValue) bool {
	return r.lead.query == query && slices.EqualFunc(r.lead.args, args, func(a, b driver.NamedValue) bool {
		text, ok := b.Value.(string)
		return ok && a.Value == text
	})
}

// follow sends the queue and a lead, and keeps the rows of the lead until the next statement.
func (p *pipeline) follow(ctx context.Context, l *lead) error {
	rows, err := p.QueryContext(ctx, l.query, l.args)
	if err != nil {
		return err
	}
	led := &ledRows{lead: l, columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(led.columns))
		if err = rows.Next(row); err != nil {
			break
		}
		led.rows = append(led.rows, row)
	}
	if closed := rows.Close(); errors.Is(err, io.EOF) {
		err = closed
	}
	if err == nil {
		p.led = led
	}
	return err
}

// Columns implements driver.Rows.
func (r *ledRows) Columns() []string { return r.columns }

// Close implements driver.Rows.
func (r *ledRows) Close() error { return nil }

// Next implements driver.Rows.
func (r *ledRows) Next(row []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(row, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
