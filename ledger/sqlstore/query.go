package sqlstore

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// query builds a statement from conditions and their arguments.
type query struct {
	text  strings.Builder
	args  []any
	where bool
}

func selectFrom(text string) *query {
	q := new(query)
	q.text.WriteString(text)
	return q
}

// and adds a condition. Each question mark stands for the next argument.
func (q *query) and(condition string, args ...any) {
	word := "\nWHERE "
	if q.where {
		word = "\nAND "
	}
	q.where = true
	q.text.WriteString(word)
	q.add(condition, args...)
}

// andIn adds the condition that column has one of values. Without values it adds no condition.
func andIn[T any](q *query, column string, values []T) {
	if len(values) > 0 {
		q.and(column+" IN ("+strings.Repeat("?, ", len(values)-1)+"?)", anys(values)...)
	}
}

// filled repeats the last value until the number of values is a power of two. So a list has few texts, which stay
// prepared.
func filled[T any](values []T) []T {
	for n := len(values); n > 0 && n&(n-1) != 0; n++ {
		values = append(values, values[n-1])
	}
	return values
}

// andIs adds a condition on the value of a column, unless `value` is empty.
func andIs[T ~string](q *query, column string, value T) {
	if value != "" {
		q.and(column+" = ?", string(value))
	}
}

// add appends a part of the statement.
func (q *query) add(text string, args ...any) {
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			q.args = append(q.args, args[i-1])
			fmt.Fprintf(&q.text, "$%d", len(q.args))
		}
		q.text.WriteString(part)
	}
}

func (q *query) String() string { return q.text.String() }

// limit returns the number of rows of a page.
func limit(page ledger.Page) int {
	if page.Limit <= 0 {
		return ledger.DefaultLimit
	}
	return min(page.Limit, ledger.MaxLimit)
}

// A cursor is the sort key of the last row of a page, as base64 of a JSON list. It is not secret, and a forged cursor
// is harmless: it only sets the start of a page.

func cursor(keys ...any) string {
	return base64.RawURLEncoding.EncodeToString([]byte(encode(keys)))
}

// parseCursor decodes the keys of a cursor into pointers.
func parseCursor(text string, keys ...any) error {
	bad := writ.Errorf(writ.CodeBadRequest, "the cursor does not belong to this list").
		WithHint("start again without a cursor")
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return bad
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || len(raw) != len(keys) {
		return bad
	}
	for i, key := range keys {
		if err := json.Unmarshal(raw[i], key); err != nil {
			return bad
		}
	}
	return nil
}

// maxPageBytes limits the text read for a page. A datacenter determines the content of a row, up to 1 MiB.
const maxPageBytes = 4 << 20

// sized counts the bytes of the strings that it scans.
type sized struct {
	rows  *sql.Rows
	bytes int
}

func (s *sized) Scan(into ...any) error {
	err := s.rows.Scan(into...)
	for _, v := range into {
		if text, ok := v.(*string); ok {
			s.bytes += len(*text)
		}
	}
	return err
}

// page reads a page of a list. The query must return up to one row more than the page's limit: that row shows that
// another page follows. scan returns the item and the sort key of a row. It returns the key even if the row is
// unreadable; page skips such a row. The page ends early with the row that reaches maxPageBytes.
func page[T any](
	rows *sql.Rows, err error, limit int, scan func(row scanner) (T, []any, error),
) (ledger.List[T], error) {
	list := ledger.List[T]{Items: []T{}}
	if err != nil {
		return list, err
	}
	defer rows.Close()
	var last []any
	row := &sized{rows: rows}
	for n := 0; rows.Next(); n++ {
		if n == limit || row.bytes >= maxPageBytes {
			list.Next = cursor(last...)
			break
		}
		item, key, err := scan(row)
		last = key
		switch {
		case err == nil:
			list.Items = append(list.Items, item)
		case !skip(err):
			return ledger.List[T]{}, err
		}
	}
	return list, rows.Err()
}

// collect reads all rows of a query, and skips unreadable rows.
func collect[T any](rows *sql.Rows, err error, scan func(row scanner) (T, error)) ([]T, error) {
	all, _, err := collectWithin(math.MaxInt, rows, err, scan)
	return all, err
}

// collectWithin reads rows until their texts reach limit bytes; full reports whether they did. It skips unreadable
// rows.
func collectWithin[T any](
	limit int, rows *sql.Rows, err error, scan func(row scanner) (T, error),
) (all []T, full bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	all = []T{}
	row := &sized{rows: rows}
	for row.bytes < limit && rows.Next() {
		switch item, err := scan(row); {
		case err == nil:
			all = append(all, item)
		case !skip(err):
			return nil, false, err
		}
	}
	return all, row.bytes >= limit, rows.Err()
}

// each calls `read` for each row.
func each(rows *sql.Rows, err error, read func(row scanner) error) error {
	_, err = collect(rows, err, func(row scanner) (struct{}, error) { return struct{}{}, read(row) })
	return err
}

// column reads all rows of a query with one column.
func column[T any](rows *sql.Rows, err error) ([]T, error) {
	return collect(rows, err, func(row scanner) (v T, err error) {
		err = row.Scan(&v)
		return v, err
	})
}

// affected reports whether a statement changed a row.
func affected(done sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

var micros = sqldb.Micros

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// found converts sql.ErrNoRows to NOT_FOUND.
func found[T any](item T, err error) func(what string, id any) (T, error) {
	return func(what string, id any) (T, error) {
		if errors.Is(err, sql.ErrNoRows) {
			var none T
			return none, ledger.NotThere(what, id)
		}
		return item, err
	}
}

// encode returns v as JSON. It panics on failure, because the shared types can always be encoded.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}

func decode(body string, v any) error {
	if err := json.Unmarshal([]byte(body), v); err != nil {
		return fmt.Errorf("read stored %T: %w", v, err)
	}
	return nil
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}
