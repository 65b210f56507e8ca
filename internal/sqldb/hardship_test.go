package sqldb

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"writ"
)

// big is a change that exceeds the free space of the small disks in these tests.
func big(name string) func(*Tx) error {
	return func(tx *Tx) error {
		body := make([]byte, 1<<20)
		_, _ = rand.Read(body) // never fails; random data cannot be compressed
		_, err := tx.Exec("INSERT INTO things (name, body, at) VALUES ($1, $2, 0)", name, body)
		return err
	}
}

func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	if e := writ.AsError(err); e == nil || !e.Code.IsStoreUnavailable() || e.Hint == "" || !e.Retryable() {
		t.Errorf("got %v; want a retryable STORE_… with a hint", err)
	}
}

// pragma sets a property of the writer's connection.
func pragma(t *testing.T, db *DB, text string) {
	t.Helper()
	exec := db.sql.ExecContext
	if file, ok := db.engine.(*writer); ok {
		if err := db.Write(t.Context(), func(*Tx) error { return nil }); err != nil && file.conn == nil {
			t.Fatal(err)
		}
		exec = file.conn.ExecContext // no write is in progress
	}
	if _, err := exec(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// Promise: Failures: A full disk rejects new work and damages no data, and work continues when space is available.
// How: The error `STORE_FULL` is retryable; `/readyz` fails with the reason.
// Also: TestFullPostgreSQLRejectsWritesAndRecovers.
func TestFullStoreRejectsWritesAndRecovers(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		db := open(t, path)
		pragma(t, db, "PRAGMA max_page_count = 20")
		fullThenRoom(t, db, func() { pragma(t, db, "PRAGMA max_page_count = 100000") })
	})
}

func TestReadOnlyStoreRejectsWritesAndRecovers(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "things.db"))
	pragma(t, db, "PRAGMA query_only = 1")
	wantUnavailable(t, db.Write(t.Context(), insert("a")))
	if got := names(t, db); len(got) != 0 {
		t.Errorf("reading gives %v", got)
	}
	pragma(t, db, "PRAGMA query_only = 0")
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// fullThenRoom fills a store until it rejects a write. It expects that the store is undamaged and works again when
// space is freed.
func fullThenRoom(t *testing.T, db *DB, room func()) {
	t.Helper()
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		wantUnavailable(t, db.Write(t.Context(), big(fmt.Sprintf("big %d", i))))
	}
	if diff := cmp.Diff([]string{"a"}, names(t, db)); diff != "" {
		t.Errorf("while full: %s", diff)
	}
	room()
	if err := errors.Join(db.Write(t.Context(), big("big")), db.Write(t.Context(), insert("b"))); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b", "big"}, names(t, db)); diff != "" {
		t.Errorf("with room again: %s", diff)
	}
	if db.server != nil {
		return
	}
	var verdict string
	if err := db.QueryRow(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity: %s, %v", verdict, err)
	}
}

// writerVar makes this test binary a process that writes to the named store and prints the acknowledged writes.
const writerVar = "WRIT_TEST_SQLDB_WRITER"

func writeUntilKilled(path string) {
	db, err := Open(context.Background(), path, schema)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d-%06d", w, i)
				if err := db.Write(context.Background(), insert(name)); err != nil {
					os.Exit(1)
				}
				fmt.Println(name)
			}
		}()
	}
	select {}
}

// Promise: Failures: A change that a store confirmed survives SIGKILL of its process and of PostgreSQL.
// How: One transaction and fsync precede the answer.
// Also: TestAcknowledgedWritesSurvivePostgreSQLKill.
func TestAcknowledgedWritesSurviveSIGKILL(t *testing.T) { kept(t, whatWasAnsweredSurvivesSIGKILL) }

func whatWasAnsweredSurvivesSIGKILL(t *testing.T, path string) {
	answered := make(map[string]bool)
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerVar+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 200 {
				_ = cmd.Process.Kill()
			}
			if name := lines.Text(); strings.Contains(name, "-") { // the last line may be truncated
				answered[name] = len(name) == 8
			}
		}
		_ = cmd.Wait() // reports the kill
		db := open(t, path)
		there := make(map[string]bool)
		for _, name := range names(t, db) {
			there[name] = true
		}
		if len(there) < 200 {
			t.Fatalf("the writer wrote %d rows", len(there))
		}
		for name, whole := range answered {
			if whole && !there[name] {
				t.Errorf("%s was answered and is gone", name)
			}
		}
		if err := errors.Join(db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("DELETE FROM things"); return err }), db.Close()); err != nil {
			t.Fatal(err)
		}
		clear(answered)
	}
}

// lockedOnce is an engine whose lock another session holds when it repeats the changes of a group apart.
type lockedOnce struct{ locked bool }

func (lockedOnce) close() error { return nil }

func (l *lockedOnce) attempt(
	_ *Tx, group []*change, apart bool, _ <-chan struct{},
) (errs []error, begun bool, err error) {
	if !apart {
		return nil, true, errOneFailed
	}
	if !l.locked {
		l.locked = true
		return nil, false, &pgconn.PgError{Code: "55P03"}
	}
	errs = make([]error, len(group))
	errs[0] = errors.New("the cause")
	return errs, true, nil
}

func TestGroupIsRepeatedApartAfterALock(t *testing.T) {
	t.Parallel()
	w := newCommitter(time.Now, func(err error) error { return err })
	w.engine = &lockedOnce{}
	group := []*change{{ctx: t.Context(), done: make(chan error, 1)}, {ctx: t.Context(), done: make(chan error, 1)}}
	w.commit(group)
	if err := <-group[0].done; err == nil || err.Error() != "the cause" {
		t.Errorf("the change that failed: %v", err)
	}
	if err := <-group[1].done; err != nil {
		t.Errorf("the other change: %v", err)
	}
}
