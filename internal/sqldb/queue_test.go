package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/pgproxy"
)

var errNone = errors.New("no row was changed")

// require is a change that renames a row, or fails with errNone.
func require(from, to string) func(*Tx) error {
	return func(tx *Tx) error {
		return tx.Require(context.Background(), func() error { return errNone }, "UPDATE things SET name = $2 WHERE name = $1",
			from, to)
	}
}

func count(tx *Tx) (n int, err error) {
	err = tx.QueryRow("SELECT COUNT(*) FROM things").Scan(&n)
	return n, err
}

func TestQueuedStatementsRunInOrder(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		err := db.Write(t.Context(), func(tx *Tx) error {
			if err := errors.Join(queue("a")(tx), require("a", "b")(tx), queue("a")(tx)); err != nil {
				return err
			}
			if n, err := count(tx); n != 2 || err != nil {
				t.Errorf("a query after three statements: %d rows, %v", n, err)
			}
			for i := range maxQueued + 10 {
				if err := queue(fmt.Sprintf("row %d", i))(tx); err != nil {
					return err
				}
			}
			done, err := tx.Exec("DELETE FROM things WHERE name LIKE 'row%'")
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); n != maxQueued+10 || err != nil {
				t.Errorf("deleted %d rows, %v", n, err)
			}
			return queue("c")(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, names(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailedQueuedStatementUndoesOnlyItsChange(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			db := open(t, path)
			refused := errors.New("refused")
			changes := []func(*Tx) error{
				queue("a"),
				func(tx *Tx) error { return errors.Join(queue("half")(tx), refused) },
				func(tx *Tx) error { return errors.Join(queue("other half")(tx), queue("a")(tx)) },
				func(tx *Tx) error { return errors.Join(queue("third half")(tx), require("missing", "x")(tx)) },
				func(tx *Tx) error { _ = queue("worse")(tx); panic("a defect") },
				func(tx *Tx) error { return errors.Join(counted(tx), queue("b")(tx), require("b", "c")(tx)) },
				func(tx *Tx) error { _, err := count(tx); return errors.Join(err, queue("d")(tx)) },
			}
			for _, alone := range []bool{false, true} {
				errs := make([]error, len(changes))
				if alone {
					for i, do := range changes {
						errs[i] = db.Write(t.Context(), do)
					}
				} else {
					errs = group(t, db, changes...)
				}
				if err := errors.Join(errs[0], errs[5], errs[6]); err != nil {
					t.Errorf("alone %v, good changes: %v", alone, err)
				}
				if !errors.Is(errs[1], refused) || !IsDuplicate(errs[2]) || !errors.Is(errs[3], errNone) || errs[4] == nil {
					t.Errorf("alone %v, bad changes: %v", alone, errs[1:5])
				}
				if diff := cmp.Diff([]string{"a", "batch of 1", "c", "d"}, names(t, db)); diff != "" {
					t.Errorf("alone %v: %s", alone, diff)
				}
				if err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("DELETE FROM things"); return err }); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// Promise: Speed and storage: On PostgreSQL a change waits for few round trips, however many statements it has.
// How: Statements whose result is not needed are sent with the next query or with the commit.
// Also: TestStepNeedsFewRoundTrips, TestEventsNeedFewRoundTrips.
func TestQueuedStatementsShareRoundTrips(t *testing.T) {
	proxy, address := pgproxy.New(t, server.Store(t))
	db := open(t, address)
	clean := func(tx *Tx) error {
		_, err := tx.Exec("DELETE FROM things")
		return errors.Join(err, queue("1")(tx))
	}
	if err := db.Write(t.Context(), clean); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		do   func(tx *Tx) error
		want int // with one for the begin
	}{
		{"empty", func(*Tx) error { return nil }, 2},
		{"statements", func(tx *Tx) error { return errors.Join(queue("2")(tx), queue("3")(tx)) }, 2},
		{"query between statements", func(tx *Tx) error {
			err := queue("2")(tx)
			_, failed := count(tx)
			return errors.Join(err, failed, queue("3")(tx))
		}, 3},
		{"checks", func(tx *Tx) error { return errors.Join(require("1", "2")(tx), require("2", "3")(tx)) }, 3},
		{"query after a check", func(tx *Tx) error {
			err := require("1", "2")(tx)
			_, failed := count(tx)
			return errors.Join(err, failed, queue("3")(tx))
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fewest := 1000
			for range 3 { // the first one prepares the statements; a slow one begins with a ping
				before := proxy.RoundTrips()
				if err := db.Write(t.Context(), tt.do); err != nil {
					t.Fatal(err)
				}
				fewest = min(fewest, proxy.RoundTrips()-before)
				if err := db.Write(t.Context(), clean); err != nil {
					t.Fatal(err)
				}
			}
			if fewest != tt.want {
				t.Errorf("%d round trips, want %d", fewest, tt.want)
			}
		})
	}
}

// The error of a queued statement appears at another statement, whose caller may expect errors.
func TestIgnoredErrorOfAQueuedStatementFailsTheChange(t *testing.T) {
	db := open(t, server.Store(t))
	for name, bad := range map[string]func(*Tx) error{"check": require("missing", "x"), "statement": queue("a")} {
		t.Run(name, func(t *testing.T) {
			err := db.Write(t.Context(), func(tx *Tx) error {
				_ = errors.Join(queue("a")(tx), bad(tx))
				_, _ = count(tx)
				_ = queue("b")(tx)
				return nil
			})
			if !errors.Is(err, errNone) && !IsDuplicate(err) {
				t.Errorf("the change has the error %v", err)
			}
			if got := names(t, db); len(got) != 0 {
				t.Errorf("it stored %v", got)
			}
		})
	}
}

func TestLeadCostsNoRoundTrip(t *testing.T) {
	proxy, address := pgproxy.New(t, server.Store(t))
	db := open(t, address)
	const query = "SELECT at FROM things WHERE name = $1"
	SetLead(db, query, "a")
	at := func(tx *Tx, name string) (at int64) {
		if err := tx.QueryRow(query, name).Scan(&at); err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Error(err)
		}
		return at
	}
	insert := func(tx *Tx, name string, at int) error {
		return tx.Queue(t.Context(), "INSERT INTO things (name, body, at) VALUES ($1, '', $2) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
			name, at)
	}
	for i := range 4 {
		err := db.Write(t.Context(), func(tx *Tx) error {
			before := proxy.RoundTrips()
			if got := at(tx, "a"); got != int64(i) {
				t.Errorf("change %d reads %d first", i, got)
			}
			if got := proxy.RoundTrips() - before; got != 0 {
				t.Errorf("the lead needs %d round trips", got)
			}
			return errors.Join(insert(tx, "a", i+1), insert(tx, "b", 100))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := db.Write(t.Context(), func(tx *Tx) error {
		if got := at(tx, "b"); got != 100 {
			t.Errorf("a query with other arguments reads %d", got)
		}
		if got := at(tx, "a"); got != 4 {
			t.Errorf("the lead after another query reads %d", got)
		}
		err := insert(tx, "a", 5)
		if got := at(tx, "a"); got != 5 {
			t.Errorf("the lead after a statement reads %d", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for name, do := range map[string]func(*Tx) error{
		"write": func(tx *Tx) error { return insert(tx, "a", 7) },
		"query": func(tx *Tx) error { _ = at(tx, "b"); _ = insert(tx, "a", 7); return nil },
	} {
		err := db.Write(t.Context(), func(tx *Tx) error {
			err := do(tx)
			if got := at(tx, "a"); got != 7 {
				t.Errorf("the lead as the second statement after a %s reads %d", name, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRowsAreInsertedTogether(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		into := Insert{Into: "INSERT INTO things (name, body, at)", Then: "ON CONFLICT (name) DO UPDATE SET at = excluded.at"}
		for at, n := range []int{0, 1, 63, 64, 200} {
			var rows [][]any
			for i := range n {
				rows = append(rows, []any{fmt.Sprint(i), []byte(fmt.Sprint(i)), at})
			}
			if err := db.Write(t.Context(), func(tx *Tx) error { return QueueRows(t.Context(), tx, into, rows) }); err != nil {
				t.Fatal(err)
			}
			var all, good int
			err := db.QueryRow(t.Context(), "SELECT COUNT(*), COUNT(CASE WHEN CAST(name AS INTEGER) < $1 AND at = $2 THEN 1 END) FROM things",
				n, at).Scan(&all, &good)
			if err != nil || all != n || good != n {
				t.Errorf("%d rows: %d are stored, %d of them are right, %v", n, all, good, err)
			}
		}
	})
}

func TestCancelledCallerQueuesNoStatement(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		err := db.Write(t.Context(), func(tx *Tx) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return tx.Queue(ctx, "INSERT INTO things (name, body, at) VALUES ('a', '', 0)")
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := db.Write(t.Context(), queue("b")); err != nil {
			t.Errorf("the next change: %v", err)
		}
		if diff := cmp.Diff([]string{"b"}, names(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

// The connection of the writer reads rows by other code than the connections of readers.
func TestWriterAndReadersReadTheSameValues(t *testing.T) {
	db := open(t, server.Store(t))
	const query = `SELECT n, CAST(n AS INTEGER), CAST(n AS SMALLINT), CAST(n AS NUMERIC) / 4, CAST(n AS DOUBLE PRECISION) / 4,
		n > 1, 'text ' || n, CAST('\x00ff' AS BYTEA), CAST('' AS BYTEA), NULL, CAST(NULL AS BYTEA),
		CAST('2026-01-02T03:04:05.000006Z' AS TIMESTAMPTZ), CAST('{"a": 1}' AS JSONB), pg_catalog.quote_ident('x')::name
		FROM generate_series($1::bigint, 3) AS n`
	read := func(tx *Tx) (all [][]any, err error) {
		rows, err := tx.Query(query, 1)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			row := make([]any, 14)
			into := make([]any, len(row))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return nil, err
			}
			all = append(all, row)
		}
		return all, rows.Err()
	}
	var byWriter, byReader [][]any
	err := errors.Join(
		db.Write(t.Context(), func(tx *Tx) (err error) { byWriter, err = read(tx); return err }),
		db.Read(t.Context(), func(tx *Tx) (err error) { byReader, err = read(tx); return err }))
	if err != nil || len(byReader) != 3 {
		t.Fatal(err, byReader)
	}
	if diff := cmp.Diff(byReader, byWriter); diff != "" {
		t.Error(diff)
	}
}

func TestWriterContinuesAfterRowsThatAreNotRead(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		err := db.Write(t.Context(), func(tx *Tx) error {
			for i := range 100 {
				if err := queue(fmt.Sprint(i))(tx); err != nil {
					return err
				}
			}
			rows, err := tx.Query("SELECT name FROM things ORDER BY name")
			if err != nil || !rows.Next() {
				return errors.Join(err, errors.New("no row"))
			}
			if err := queue("during the query")(tx); err != nil {
				return err
			}
			if err := rows.Close(); err != nil {
				return err
			}
			n, err := count(tx)
			if n != 101 {
				t.Errorf("%d rows", n)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestFailingQueryFailsOnlyItsChange(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		err := db.Write(t.Context(), func(tx *Tx) error {
			rows, err := tx.Query("SELECT no_such_column FROM things")
			if err == nil {
				rows.Close()
			}
			return err
		})
		if err == nil {
			t.Error("an impossible query has no error")
		}
		if err := db.Write(t.Context(), queue("a")); err != nil {
			t.Errorf("the next change: %v", err)
		}
	})
}
