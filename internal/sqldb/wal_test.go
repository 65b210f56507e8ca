package sqldb

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
	"pgregory.net/rapid"
)

// leftBehind opens a copy of what a process would leave in its files if it died now, and returns the names there.
func leftBehind(t *testing.T, path string) []string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "things.db")
	for _, part := range []string{"", "-wal"} {
		body, err := os.ReadFile(path + part)
		if err == nil {
			err = os.WriteFile(to+part, body, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return names(t, open(t, to))
}

// many adds things that are together bigger than what SQLite keeps of pages in memory, so that some go to the log before the commit and are
// read again from there.
func many(t *testing.T, name string, end error) func(*Tx) error {
	return func(tx *Tx) error {
		const all, size = 40, 100_000
		for i := range all {
			body := make([]byte, size)
			_, _ = rand.Read(body) // never fails; an engine cannot make it smaller
			if _, err := tx.Exec("INSERT INTO things (name, body, at) VALUES ($1, $2, 0)", fmt.Sprintf("%s%02d", name, i), body); err != nil {
				return err
			}
		}
		var n, digits int
		err := tx.QueryRow("SELECT COUNT(*), SUM(LENGTH(HEX(body))) FROM things WHERE name LIKE $1", name+"%").Scan(&n, &digits)
		if err == nil && (n != all || digits != 2*all*size) {
			t.Errorf("%d things with %d digits are there before the commit", n, digits)
		}
		return errors.Join(err, end)
	}
}

func TestWhatIsAnsweredIsInTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "things.db")
	db := open(t, path)
	for i := range 5 {
		if err := db.Write(t.Context(), insert(fmt.Sprintf("a%d", i))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names(t, db), leftBehind(t, path)); diff != "" {
			t.Errorf("after a small change: %s", diff)
		}
		undone := errors.New("undone")
		if err := db.Write(t.Context(), many(t, fmt.Sprintf("b%d-", i), undone)); !errors.Is(err, undone) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names(t, db), leftBehind(t, path)); diff != "" {
			t.Errorf("after a big change that was undone: %s", diff)
		}
		if i%2 == 1 {
			continue // the next change comes right after one that was undone
		}
		if err := db.Write(t.Context(), many(t, fmt.Sprintf("c%d-", i), nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names(t, db), leftBehind(t, path)); diff != "" {
			t.Errorf("after a big change: %s", diff)
		}
	}
	if n := len(names(t, db)); n != 5+3*40 {
		t.Errorf("%d things are there", n)
	}
}

// A log must hold and tell what a plain file would, whatever is done with it, and have all of it on disk when it is synced.
func TestAGatheredLogIsLikeAPlainFile(t *testing.T) {
	if err := registerVFS(); err != nil {
		t.Fatal(err)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	const most = 4 * maxGatheredLog
	buffer := sqlite3.Xsqlite3_malloc(tls, most)
	defer sqlite3.Xsqlite3_free(tls, buffer)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "x-wal")
		if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil { // a log takes its mode from it
			t.Fatal(err)
		}
		name, err := libc.CString(path + "\x00")
		if err != nil {
			t.Fatal(err)
		}
		file := sqlite3.Xsqlite3_malloc(tls, walVFS.FszOsFile)
		ok := func(rc int32) {
			if rc != sqlite3.SQLITE_OK {
				t.Fatalf("SQLite says %d", rc)
			}
		}
		ok(openFile(tls, 0, name, file, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_CREATE|sqlite3.SQLITE_OPEN_WAL, 0))
		if at[sqlite3.Tsqlite3_file](file).FpMethods != uintptr(unsafe.Pointer(&walLog)) {
			t.Fatal("the log is a plain file")
		}
		var want []byte
		part := func(n int) []byte { return unsafe.Slice(at[byte](buffer), n) }
		written := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{24, 4096, 32, maxGatheredLog, maxGatheredLog - 24}).Draw(t, "bytes")
				from := len(want)
				if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
					from = rapid.IntRange(0, len(want)).Draw(t, "from")
				}
				if from+n > most {
					return
				}
				written++
				for i := range part(n) {
					part(n)[i] = written
				}
				want = append(want, make([]byte, max(0, from+n-len(want)))...)
				copy(want[from:], part(n))
				ok(writeLog(tls, file, buffer, int32(n), int64(from)))
			},
			"read": func(t *rapid.T) {
				from := rapid.IntRange(0, len(want)).Draw(t, "from")
				ok(readLog(tls, file, buffer, int32(len(want)-from), int64(from)))
				if !bytes.Equal(part(len(want)-from), want[from:]) {
					t.Fatal("it reads something else")
				}
			},
			"measure": func(t *rapid.T) {
				ok(measureLog(tls, file, buffer))
				if n := *at[int64](buffer); n != int64(len(want)) {
					t.Fatalf("it has %d bytes, want %d", n, len(want))
				}
			},
			"cut": func(t *rapid.T) {
				n := rapid.IntRange(0, len(want)).Draw(t, "to") &^ 1 // SQLite takes a file of one byte for an empty one
				ok(cutLog(tls, file, int64(n)))
				want = want[:n]
			},
			"sync": func(t *rapid.T) {
				ok(syncLog(tls, file, sqlite3.SQLITE_SYNC_NORMAL))
				if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
					t.Fatalf("%d bytes are on disk, want %d (%v)", len(have), len(want), err)
				}
			},
		})
		ok(closeLog(tls, file))
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
			t.Fatalf("%d bytes are left, want %d (%v)", len(have), len(want), err)
		}
		sqlite3.Xsqlite3_free(tls, file)
		libc.Xfree(tls, name)
	})
}
