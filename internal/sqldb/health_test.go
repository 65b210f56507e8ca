package sqldb

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

// filledStore creates a store of several pages and closes it.
func filledStore(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(t.Context(), path, schema)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := db.Write(t.Context(), big(fmt.Sprintf("big %d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// overwrite writes other bytes over part of a file. A negative offset counts from the end.
func overwrite(t *testing.T, path string, offset int64, length int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if offset < 0 {
		offset += info.Size()
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("\xa5", length)), offset); err != nil {
		t.Fatal(err)
	}
}

func wantDamaged(t *testing.T, name, path string, err error) {
	t.Helper()
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeStoreDamaged || !strings.Contains(e.Message, path) || !strings.Contains(e.Hint, "writ restore") {
		t.Errorf("%s: %v", name, err)
	}
}

// Promise: Failures: A damaged store is detected and reported, at the start and at run time.
// How: `PRAGMA quick_check` runs at the start and periodically; the code `STORE_DAMAGED` stays until the process
// ends.
// Also: TestDamageIsFoundAtRunTime, TestReadOfDamagedPageIsNamed, TestFullDiskFailsTheCheck.
func TestDamageIsFoundAtStart(t *testing.T) {
	for name, at := range map[string]int64{"first page": 0, "schema": 100, "last page": -4096} {
		path := filledStore(t)
		overwrite(t, path, at, 4000)
		db, err := Open(t.Context(), path, schema)
		if err == nil {
			_ = db.Close()
		}
		wantDamaged(t, name, path, err)
	}
	path := filledStore(t)
	if err := os.Truncate(path, 3*4096); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, schema)
	wantDamaged(t, "cut off", path, err)
}

func TestDamageIsFoundAtRunTime(t *testing.T) {
	path := filledStore(t)
	db, err := Open(t.Context(), path, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, -4096, 4096)
	db.health.mu.Lock()
	db.health.next = db.now() // the next examination is due
	db.health.mu.Unlock()
	wantDamaged(t, "check", path, db.Check(t.Context()))
	wantDamaged(t, "check again", path, db.Check(t.Context()))
}

func TestReadOfDamagedPageIsNamed(t *testing.T) {
	path := filledStore(t)
	db, err := Open(t.Context(), path, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	overwrite(t, path, 4096, 1<<20)
	var n int
	wantDamaged(t, "read", path, db.QueryRow(t.Context(), "SELECT sum(length(name)) FROM things").Scan(&n))
	wantDamaged(t, "check", path, db.Check(t.Context()))
}

func checkFullDisk(t *testing.T, dir string) {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(dir, "store.db"), schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(t.Context()); err != nil {
		t.Fatalf("with room: %v", err)
	}
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if e := writ.AsError(db.Check(t.Context())); e == nil || e.Code != writ.CodeStoreFull || !strings.Contains(e.Message, dir) {
		t.Errorf("on a full disk: %v", e)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
