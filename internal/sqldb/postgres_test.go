package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"writ"
	"writ/internal/test/pgproxy"
	"writ/internal/test/testenv"
)

func TestAcknowledgedWritesSurvivePostgreSQLKill(t *testing.T) {
	own := testenv.Postgres(t)
	db := open(t, own.Store())
	for range 3 {
		var answered atomic.Int64
		var lock sync.Mutex
		told := map[string]error{}
		enough := make(chan struct{})
		var over atomic.Bool // a kill between two commits causes no error
		var writers sync.WaitGroup
		for w := range 8 {
			writers.Go(func() {
				for i := 0; !over.Load(); i++ {
					name := fmt.Sprintf("%s-%d-%d", own.Addr, w, i)
					err := db.Write(t.Context(), insert(name))
					lock.Lock()
					told[name] = err
					lock.Unlock()
					if err != nil {
						wantUnavailable(t, err)
						return
					}
					if answered.Add(1) == 200 {
						close(enough)
					}
				}
			})
		}
		<-enough
		own.Kill()
		own.Start() // a commit with a lost result is checked until its outcome is known
		over.Store(true)
		writers.Wait()
		there := map[string]bool{}
		for _, name := range names(t, again(t, db)) {
			there[name] = true
		}
		for name, err := range told {
			if there[name] != (err == nil) {
				t.Errorf("%s: answer %v, stored %v", name, err, there[name])
			}
		}
		if err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("DELETE FROM things"); return err }); err != nil {
			t.Fatalf("the store does not recover: %v", err)
		}
	}
}

// again removes the connections to a stopped server from the pool of readers. Each of them may fail once.
func again(t *testing.T, db *DB) *DB {
	t.Helper()
	for range maxReaders {
		if rows, err := db.Query(t.Context(), "SELECT 1"); err == nil {
			rows.Close()
			return db
		}
	}
	t.Fatal("reads do not recover")
	return nil
}

// Promise: Failures: The outcome of a commit is always determined, even if the connection to PostgreSQL breaks during
// it.
// How: Each transaction records its number under a lock; a process that lost the answer takes the lock and reads the
// number.
func TestLostCommitResponseIsResolved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(name string) func(*Tx) error
		trips int // the last one has the commit
	}{
		{"commit alone", insert, 3},
		{"commit with a statement", queue, 2},
	} {
		for _, pass := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s reached the server %v", tt.name, pass), func(t *testing.T) {
				proxy, address := pgproxy.New(t, server.Store(t))
				db := open(t, address)
				if err := errors.Join(db.Write(t.Context(), insert("a")), db.Write(t.Context(), queue("b"))); err != nil {
					t.Fatal(err)
				}
				want := []string{"a", "b", "cut"}
				proxy.Cut(tt.trips, pass)
				err := db.Write(t.Context(), tt.do("cut"))
				if !pass {
					wantUnavailable(t, err)
					want = want[:2]
				} else if err != nil {
					t.Errorf("a change that took place: %v", err)
				}
				if diff := cmp.Diff(want, names(t, db)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// Only one process writes at a time: data that a change has read is unchanged when it writes.
//
// Promise: Failures: Of several processes on one PostgreSQL store, one writes at a time, and a frozen one delays the
// others by at most 5 s.
// How: A lock per transaction is released after 5 s of silence; a process without a pending upgrade opens the store
// without a lock.
// Also: TestStoppedWriterIsDisconnected, TestStoppedPreparationBlocksNoReadyDatabase, TestAStandbyTakesOver.
func TestDatabaseHasOneWriterAtATime(t *testing.T) {
	path := server.Store(t)
	count := func(tx *Tx) error {
		var n int
		if err := tx.QueryRow("SELECT COUNT(*) FROM things").Scan(&n); err != nil {
			return err
		}
		return insert(fmt.Sprintf("%04d", n))(tx) // a duplicate if another writer read the same count
	}
	var writers sync.WaitGroup
	for range 4 {
		db := open(t, path)
		writers.Go(func() {
			for range 50 {
				if err := db.Write(t.Context(), count); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if got := len(names(t, open(t, path))); got != 200 {
		t.Errorf("%d rows, want 200", got)
	}
}

func TestManyMayOpenANewDatabaseAtOnce(t *testing.T) {
	path := server.Store(t)
	var openers sync.WaitGroup
	for range 4 {
		openers.Go(func() {
			db, err := Open(t.Context(), path, schema)
			if err != nil {
				t.Error(err)
				return
			}
			db.Close()
		})
	}
	openers.Wait()
}

// A process that stops while it prepares a database does not block processes that need no preparation.
func TestStoppedPreparationBlocksNoReadyDatabase(t *testing.T) {
	path := server.Store(t)
	open(t, path)
	stopped, err := pgx.Connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close(context.Background())
	if _, err := stopped.Exec(t.Context(), `SELECT pg_advisory_lock(hashtextextended('writ migrates ' || current_schema(), 0))`); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

// An unprepared database is only read until a process has the lock.
func TestDatabaseIsOnlyReadWithoutTheLock(t *testing.T) {
	path := server.Store(t)
	open(t, path)
	pool, err := sql.Open("pgx", path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(`INSERT INTO writ_commits (writer, number, at) VALUES ('long ago', 1, 0)`); err != nil {
		t.Fatal(err)
	}
	left := func(table string) (n int) {
		t.Helper()
		if err := pool.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	longer := fstest.MapFS{"0001_things.sql": schema["0001_things.sql"], "0002_more.sql": {Data: []byte("-- +goose Up\nCREATE TABLE more (name TEXT)")}}
	if _, is, err := upToDate(t.Context(), pool, longer); is || err != nil || left("writ_commits") != 1 {
		t.Errorf("before an upgrade: up to date %v, %v; %d commits are left", is, err, left("writ_commits"))
	}
	other := fstest.MapFS{"0001_others.sql": schema["0001_things.sql"]}
	if _, is, err := upToDate(t.Context(), pool, other); is || writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("of another kind: up to date %v, %v", is, err)
	}
	if newest, is, err := upToDate(t.Context(), pool, schema); newest != 1 || !is || err != nil || left("writ_commits") != 0 {
		t.Errorf("prepared database: schema %d, up to date %v, %v; %d commits left", newest, is, err, left("writ_commits"))
	}
	if _, err := pool.Exec("DELETE FROM writ_store"); err != nil {
		t.Fatal(err)
	}
	if _, is, err := upToDate(t.Context(), pool, schema); is || err != nil || left("writ_store") != 0 {
		t.Errorf("of no kind: up to date %v, %v; %d kinds", is, err, left("writ_store"))
	}
	open(t, path)
	if left("writ_store") != 1 {
		t.Error("the preparing process does not claim the database")
	}
}

func TestReadOnlyStoreIsNotChanged(t *testing.T) {
	path := server.Store(t)
	if _, err := OpenToRead(t.Context(), path, schema); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("an empty database: %v", err)
	}
	writes := open(t, path)
	if err := writes.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	reads, err := OpenToRead(t.Context(), path, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	var n int
	if err := reads.QueryRow(t.Context(), "SELECT COUNT(*) FROM things").Scan(&n); err != nil || n != 1 {
		t.Errorf("got %d rows, %v", n, err)
	}
	if err := reads.Write(t.Context(), insert("b")); err == nil {
		t.Error("it can be written to")
	}
	longer := fstest.MapFS{"0001_things.sql": schema["0001_things.sql"], "0002_more.sql": {Data: []byte("-- +goose Up\nCREATE TABLE more (name TEXT)")}}
	for name, migrations := range map[string]fs.FS{"of a newer program": longer, "of another kind": fstest.MapFS{"0001_others.sql": schema["0001_things.sql"]}} {
		if _, err := OpenToRead(t.Context(), path, migrations); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("by one %s: %v", name, err)
		}
	}
}

func TestReadOnlyPostgreSQLRejectsAndRecovers(t *testing.T) {
	own := testenv.Postgres(t)
	db := open(t, own.Store())
	turn := func(how string) {
		own.SQL("ALTER SYSTEM SET default_transaction_read_only = " + how)
		own.SQL("SELECT pg_reload_conf()")
		for own.SQL("SHOW default_transaction_read_only") != how {
		}
	}
	turn("on")
	wantUnavailable(t, db.Write(t.Context(), insert("a")))
	if got := names(t, db); len(got) != 0 {
		t.Errorf("reading gives %v", got)
	}
	turn("off")
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

func TestPostgreSQLIsRefusedWithAHint(t *testing.T) {
	own := testenv.Postgres(t)
	own.SQL("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	used := own.Store()
	open(t, used)
	other := fstest.MapFS{"0001_others.sql": schema["0001_things.sql"]}
	for _, tt := range []struct {
		name, path string
		files      fstest.MapFS
		code       writ.Code
		says       string
	}{
		{"no address", "postgres://writ:s3cret@host:port/x", schema, writ.CodeUsage, "address"},
		{"no such database", own.URL("nowhere"), schema, writ.CodeUsage, "nowhere"},
		{"another encoding", own.URL("latin"), schema, writ.CodeUsage, "LATIN1"},
		{"another kind of store", used, other, writ.CodeConflict, "holds a things, not a others"},
		{"nobody there", "postgres://writ:s3cret@127.0.0.1:1/x?sslmode=disable", schema, writ.CodeStoreUnavailable, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := Open(t.Context(), tt.path, tt.files)
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			e := writ.AsError(err)
			if e.Code != tt.code || e.Hint == "" || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v (%s, hint %q); want %s and %q", err, e.Code, e.Hint, tt.code, tt.says)
			}
		})
	}
}

// A process that stops during a write does not block other writers.
func TestStoppedWriterIsDisconnected(t *testing.T) {
	own := testenv.Postgres(t)
	path := own.Store()
	stuck, other := open(t, path), open(t, path)
	goOn, begun := make(chan struct{}), make(chan struct{})
	late := make(chan error, 1)
	var once sync.Once
	go func() {
		late <- stuck.Write(context.Background(), func(tx *Tx) error {
			once.Do(func() { close(begun) })
			<-goOn
			return insert("late")(tx)
		})
	}()
	<-begun
	if err := other.Write(t.Context(), insert("other")); err != nil {
		t.Errorf("behind a writer that stopped: %v", err)
	}
	close(goOn)
	wantUnavailable(t, <-late)
	if diff := cmp.Diff([]string{"other"}, names(t, other)); diff != "" {
		t.Error(diff)
	}
}

// An abandoned statement whose cancel request was lost keeps its locks only until the server detects the closed
// connection.
//
// Promise: Failures: An abandoned statement holds its locks on PostgreSQL for a few seconds at most.
// How: The server checks each second whether the connection is closed.
func TestClosedConnectionEndsItsStatement(t *testing.T) {
	path := server.Store(t)
	db := open(t, path)
	config, err := db.configOf(path)
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.ConnectConfig(t.Context(), session(config, "0", "0"))
	if err != nil {
		t.Fatal(err)
	}
	connection, err := left.PgConn().Hijack() // otherwise pgx asks the server to cancel
	if err != nil {
		t.Fatal(err)
	}
	connection.Frontend.Send(&pgproto3.Query{String: "SELECT pg_sleep(600)"})
	if err := connection.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	is := func(state string) bool {
		var n int
		if err := db.sql.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = $1 AND state = $2", connection.PID, state).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for deadline := time.Now().Add(time.Minute); !is("active"); {
		if time.Now().After(deadline) {
			t.Fatal("the statement does not begin")
		}
	}
	if err := connection.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); is("active"); {
		if time.Now().After(deadline) {
			t.Fatal("the statement is still active")
		}
	}
}

// The server has no statistics of a new table. Without a setting, it would read a small table as a whole, and keep that
// plan when the table has grown.
func TestQueriesUseIndexes(t *testing.T) {
	plan := func(rows *sql.Rows, err error) string {
		steps, err := Column[string](rows, err)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(steps, "\n")
	}
	const query = `EXPLAIN (COSTS off) SELECT name FROM things WHERE name IN ('a', 'b')`
	for _, tt := range []struct {
		options []Option
		reads   bool
	}{{nil, false}, {[]Option{IndexScans}, true}} {
		db, err := Open(t.Context(), server.Store(t), schema, tt.options...)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Write(t.Context(), func(tx *Tx) error {
			for _, name := range []string{"a", "b", "c"} {
				if err := insert(name)(tx); err != nil {
					return err
				}
			}
			if got := plan(tx.QueryContext(t.Context(), query)); !strings.HasPrefix(got, "Index") {
				t.Errorf("a change reads by\n%s", got)
			}
			if got := plan(tx.QueryContext(t.Context(), "SHOW jit")); got != "off" {
				t.Errorf("jit is %s in a change", got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := plan(db.Query(t.Context(), query)); strings.HasPrefix(got, "Index") != tt.reads {
			t.Errorf("with %d options, a query reads by\n%s", len(tt.options), got)
		}
		if got := plan(db.Query(t.Context(), "SHOW jit")); got != "off" {
			t.Errorf("jit is %s in a query", got)
		}
	}
}
