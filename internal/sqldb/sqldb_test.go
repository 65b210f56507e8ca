package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVar); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { server.Stop(); os.Exit(code) }))
}

// server is the PostgreSQL of all tests that do not kill it.
var server testenv.SharedPostgres

// engines runs a test with a file, in memory and on PostgreSQL.
func engines(t *testing.T, test func(t *testing.T, path string)) {
	stores(t, test)
	t.Run("postgresql", func(t *testing.T) { test(t, server.Store(t)) })
}

// schema has one table, so that every test is short.
var schema = fstest.MapFS{"0001_things.sql": {Data: []byte(`-- +goose Up
CREATE TABLE things (
	name TEXT PRIMARY KEY,
	body BYTEA NOT NULL,
	at BIGINT NOT NULL
);
`)}}

func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// stores runs a test with a file and in memory.
func stores(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "things.db")) })
	t.Run("memory", func(t *testing.T) { test(t, ":memory:") })
}

// kept runs a test with stores that can be reopened.
func kept(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "things.db")) })
	t.Run("postgresql", func(t *testing.T) { test(t, server.Store(t)) })
}

func insert(name string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO things (name, body, at) VALUES ($1, $2, $3)", name, []byte("x"), Micros(tx.Now))
		return err
	}
}

// queue is insert with a statement that may wait in a queue.
func queue(name string) func(*Tx) error {
	return func(tx *Tx) error {
		return tx.Queue(context.Background(), "INSERT INTO things (name, body, at) VALUES ($1, $2, $3)", name, []byte("x"),
			Micros(tx.Now))
	}
}

func names(t *testing.T, db *DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT name FROM things ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

// group submits changes while the writer is busy, so that all of them share one transaction, and returns their errors.
func group(t *testing.T, db *DB, changes ...func(*Tx) error) []error {
	t.Helper()
	busy := make(chan struct{})
	all := append([]func(*Tx) error{func(*Tx) error { <-busy; return nil }}, changes...)
	errs := make([]error, len(all))
	done := make(chan struct{}, len(all))
	for i, do := range all {
		go func() {
			errs[i] = db.Write(t.Context(), do)
			done <- struct{}{}
		}()
		synctest.Wait() // the first blocks the writer, the others wait in order
	}
	close(busy)
	for range all {
		<-done
	}
	return errs[1:]
}

func TestWaitingWritesShareOneCommit(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			db := open(t, path)
			var changes []func(*Tx) error
			for i := range 100 {
				changes = append(changes, insert(fmt.Sprintf("%03d", i)))
			}
			if err := errors.Join(group(t, db, changes...)...); err != nil {
				t.Fatal(err)
			}
			var rows, moments int
			err := db.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT at) FROM things").Scan(&rows, &moments)
			if err != nil || rows != 100 || moments != 1 {
				t.Errorf("%d rows of %d transactions, %v; want 100 of 1", rows, moments, err)
			}
		})
	})
}

func TestFailedChangeUndoesOnlyItself(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			db := open(t, path)
			refused := errors.New("refused")
			errs := group(t, db,
				insert("a"),
				func(tx *Tx) error { return errors.Join(insert("half")(tx), refused) },
				func(tx *Tx) error { return errors.Join(insert("other half")(tx), insert("a")(tx)) },
				func(tx *Tx) error { _ = insert("worse")(tx); panic("a defect") },
				insert("b"),
			)
			if errs[0] != nil || errs[4] != nil {
				t.Errorf("good changes: %v, %v", errs[0], errs[4])
			}
			if !errors.Is(errs[1], refused) {
				t.Errorf("refused change: %v", errs[1])
			}
			if !IsDuplicate(errs[2]) {
				t.Errorf("duplicate: %v", errs[2])
			}
			if errs[3] == nil || !strings.Contains(errs[3].Error(), "a defect") {
				t.Errorf("panic: %v", errs[3])
			}
			if diff := cmp.Diff([]string{"a", "b"}, names(t, db)); diff != "" {
				t.Error(diff)
			}
		})
	})
}

// SQLite rolls back the whole transaction when it interrupts a writing statement, so the others of the group must be
// repeated. The group is built by hand, because a bubble's clock stands still while a statement runs.
func TestInterruptedStatementUndoesOnlyItself(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		endless := func(tx *Tx) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := tx.ExecContext(ctx, `INSERT INTO things (name, body, at)
				WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'n' || i, '', 0 FROM n LIMIT 1000000000`)
			return err
		}
		var changes []*change
		for _, do := range []func(*Tx) error{insert("a"), endless, insert("b")} {
			changes = append(changes, &change{ctx: t.Context(), do: do, done: make(chan error, 1)})
		}
		db.commit(changes)
		for i, c := range changes {
			if err := <-c.done; (err != nil) != (i == 1) {
				t.Errorf("change %d: %v", i, err)
			}
		}
		if diff := cmp.Diff([]string{"a", "b"}, names(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCancelledWriteIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, ":memory:")
		busy := make(chan struct{})
		first := make(chan error, 1)
		go func() { first <- db.Write(t.Context(), func(*Tx) error { <-busy; return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() { second <- db.Write(ctx, insert("late")) }()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled write: %v", err)
		}
		close(busy)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := db.Write(t.Context(), insert("next")); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"next"}, names(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

// If a caller gave up, its change must not run later. A change that has run must not be reported as undone.
func TestWriteWaitsForAStartedChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, ":memory:")
		ctx, cancel := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		var returned atomic.Bool
		done := make(chan error, 1)
		go func() {
			err := db.Write(ctx, func(tx *Tx) error {
				<-goOn
				if returned.Load() {
					t.Error("the change is still running after Write has returned")
				}
				return insert("a")(tx)
			})
			returned.Store(true)
			done <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(goOn)
		if err := <-done; err != nil {
			t.Errorf("a change that took place: %v", err)
		}
		if diff := cmp.Diff([]string{"a"}, names(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCloseAnswersEveryWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "things.db")
		db := open(t, path)
		busy := make(chan struct{})
		errs := make([]error, 20)
		done := make(chan struct{}, len(errs))
		for i := range errs {
			go func() {
				errs[i] = db.Write(t.Context(), func(tx *Tx) error { <-busy; return insert(fmt.Sprint(i))(tx) })
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		close(busy)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		var want []string
		for range errs {
			<-done
		}
		for i, err := range errs {
			switch {
			case err == nil:
				want = append(want, fmt.Sprint(i))
			case writ.CodeOf(err) != writ.CodeStoreUnavailable:
				t.Errorf("write %d: %v", i, err)
			}
		}
		if len(want) == 0 {
			t.Error("the write in progress was not waited for")
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, names(t, open(t, path))); diff != "" {
			t.Errorf("answered and stored changes differ: %s", diff)
		}
		if err := db.Write(t.Context(), insert("after")); writ.CodeOf(err) != writ.CodeStoreUnavailable {
			t.Errorf("write after Close: %v", err)
		}
	})
}

func TestReadSeesOneMoment(t *testing.T) { kept(t, readSeesOneMoment) }

func readSeesOneMoment(t *testing.T, path string) {
	db := open(t, path)
	count := func(tx *Tx) (n int) {
		if err := tx.QueryRow("SELECT count(*) FROM things").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := db.Read(t.Context(), func(tx *Tx) error {
		before := count(tx)
		if err := db.Write(t.Context(), insert("meanwhile")); err != nil {
			return err
		}
		if after := count(tx); after != before {
			t.Errorf("%d rows, then %d", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, db); len(got) != 1 {
		t.Errorf("after the read: %v", got)
	}
}

func TestReadChangesNothing(t *testing.T) {
	engines(t, func(t *testing.T, path string) {
		db := open(t, path)
		_ = db.Read(t.Context(), insert("sneaked in"))
		if got := names(t, db); len(got) != 0 {
			t.Errorf("a read left %v", got)
		}
	})
}

// The only connection of a store in memory is the store. A reader that gives up must not close it.
func TestMemorySurvivesCancelledReaders(t *testing.T) {
	db := open(t, ":memory:")
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		_ = db.Read(ctx, func(tx *Tx) error {
			cancel()
			_, err := tx.QueryContext(ctx, "SELECT * FROM things")
			return err
		})
		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		rows, err := db.Query(ctx, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
		if err == nil {
			for rows.Next() {
			}
			rows.Close()
		}
		cancel()
	}
	if diff := cmp.Diff([]string{"a"}, names(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestStoresInMemoryAreSeparate(t *testing.T) {
	a, b := open(t, ":memory:"), open(t, ":memory:")
	if err := a.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b); len(got) != 0 {
		t.Errorf("the other store has %v", got)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) { kept(t, newerSchemaIsRefused) }

func newerSchemaIsRefused(t *testing.T, path string) {
	newer := fstest.MapFS{"0002_more.sql": {Data: []byte("-- +goose Up\nCREATE TABLE more (id TEXT PRIMARY KEY);\n")}}
	maps.Copy(newer, schema)
	db, err := Open(t.Context(), path, newer)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, schema)
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeConflict || !strings.Contains(e.Message, "version 2") || e.Hint == "" {
		t.Errorf("older program on a newer store: %v", err)
	}
	if db, err = Open(t.Context(), path, newer); err != nil {
		t.Fatalf("the refusal harmed the store: %v", err)
	}
	db.Close()
}

func TestBrokenMigrationLeavesTheStoreAsItWas(t *testing.T) {
	kept(t, brokenMigrationLeavesTheStoreAsItWas)
}

func brokenMigrationLeavesTheStoreAsItWas(t *testing.T, path string) {
	db := open(t, path)
	if err := errors.Join(db.Write(t.Context(), insert("a")), db.Close()); err != nil {
		t.Fatal(err)
	}
	broken := fstest.MapFS{"0002_broken.sql": {Data: []byte("-- +goose Up\nDELETE FROM things;\nCREATE TABLE broken (;\n")}}
	maps.Copy(broken, schema)
	if _, err := Open(t.Context(), path, broken); err == nil {
		t.Fatal("a broken migration was accepted")
	}
	if diff := cmp.Diff([]string{"a"}, names(t, open(t, path))); diff != "" {
		t.Error(diff)
	}
}

func TestAnyPathWillDo(t *testing.T) {
	for _, name := range []string{"plain.db", "with space.db", "what?.db", "100%.db", "a#b.db", "c:d.db", "é&=.db"} {
		path := filepath.Join(t.TempDir(), name)
		db := open(t, path)
		if err := db.Write(t.Context(), insert("a")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%s: the store is elsewhere: %v", name, err)
			continue
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v; others can read it", name, info.Mode())
		}
		if wal, err := os.Stat(path + "-wal"); err != nil || wal.Mode().Perm() != 0o600 {
			t.Errorf("%s: write-ahead log %v, %v", name, wal, err)
		}
	}
}

func TestOpenErrorsNameTheFile(t *testing.T) {
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "things.db"), schema)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "such") {
		t.Errorf("missing directory: %v", err)
	}
	junk := filepath.Join(t.TempDir(), "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("not a database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), junk, schema); err == nil || !strings.Contains(err.Error(), "junk.db") {
		t.Errorf("file of another program: %v", err)
	}
}

// Errors of the system look the same for files and for networks.
func TestFileErrorIsNotANetworkError(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from.db")
	open(t, from)
	err := Copy(t.Context(), from, t.TempDir())
	if err == nil || strings.Contains(err.Error(), "PostgreSQL") || writ.CodeOf(err) == writ.CodeStoreUnavailable {
		t.Errorf("copy onto a directory: %v", err)
	}
}

func TestTimesKeepMicroseconds(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		us := rapid.Int64Range(-1<<50, 1<<55).Draw(t, "us")
		if got := Micros(Time(us)); got != us {
			t.Errorf("Micros(Time(%d)) = %d", us, got)
		}
	})
	if !Time(Micros(time.Time{})).IsZero() {
		t.Error("the zero time does not stay zero")
	}
}

func TestPlaceholders(t *testing.T) {
	if got := Placeholders(3, 3); got != "$3, $4, $5" {
		t.Errorf("Placeholders(3, 3) = %q", got)
	}
}

// A supervisor that has lost its lease closes its journal while nodes still send requests. They must get
// STORE_UNAVAILABLE, not an internal error.
//
// Promise: Speed and storage: A reader of a closing store gets an unavailable error and retries.
// How: Reads and writes return the same error from the start of the shutdown; nodes at a supervisor without its lease
// are such readers.
func TestClosedStoreIsUnavailable(t *testing.T) {
	kept(t, func(t *testing.T, path string) {
		db := open(t, path)
		names(t, db) // prepares the query
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		_, query := db.Query(t.Context(), "SELECT name FROM things")
		for what, err := range map[string]error{
			"Write":          db.Write(t.Context(), insert("a")),
			"Query":          query,
			"QueryRow":       db.QueryRow(t.Context(), "SELECT name FROM things").Scan(new(string)),
			"Query, unknown": db.QueryRow(t.Context(), "SELECT COUNT(*) FROM things").Scan(new(int)),
			"Read": db.Read(t.Context(), func(tx *Tx) error {
				return tx.QueryRow("SELECT name FROM things").Scan(new(string))
			}),
		} {
			if writ.CodeOf(err) != writ.CodeStoreUnavailable {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
