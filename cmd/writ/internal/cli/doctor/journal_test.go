package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// The doctor reads the journal of a running supervisor, finds the runs that no event would wake, and leaves no files
// behind.
func TestDoctorFindsRunsThatNoEventWouldWake(t *testing.T) {
	t.Run("file", func(t *testing.T) { doctorFindsSleepers(t, filepath.Join(t.TempDir(), "journal.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { doctorFindsSleepers(t, testenv.Postgres(t).Store()) })
}

func doctorFindsSleepers(t *testing.T, place string) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	j, err := journal.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	add := func(name string, idle bool) writ.RunID {
		digest := writ.DigestOf([]byte(name))
		r := &journal.Run{Run: writ.Run{ID: writ.RunIDOf(digest), Payload: digest, State: writ.RunRunning, Deadline: time.Now().Add(time.Hour)}, Idle: idle}
		if err := j.Write(t.Context(), func(tx *journal.Tx) error { _, _, err := tx.AddRun(r, 1, []byte("signed")); return err }); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	add("one", false)
	if found := examineJournal(t.Context(), place, func() {}); len(found) != 1 || found[0].State != healthy || !strings.HasPrefix(found[0].Detail, "1 open runs") {
		t.Errorf("journal with a due pass: findings = %+v", found)
	}
	stuck := add("two", true)
	found := examineJournal(t.Context(), place, func() {})
	if len(found) != 2 || found[0].State != ill || found[1].Check != "run "+string(stuck) {
		t.Errorf("journal with a run without a waker: findings = %+v", found)
	}
	goesOn := func() { // a step of the run is written while the doctor waits
		err := j.Write(t.Context(), func(tx *journal.Tx) error {
			r, err := tx.Run(stuck)
			if err != nil {
				return err
			}
			r.Idle = false
			return tx.PutRun(r)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found := examineJournal(t.Context(), place, goesOn); len(found) != 1 || found[0].State != healthy {
		t.Errorf("run that continued meanwhile: findings = %+v", found)
	}
	for _, none := range []string{filepath.Join(t.TempDir(), "none.db"), t.TempDir(), "postgres:///nothing?host=" + t.TempDir(), "postgres://u:p@127.0.0.1/x", "mysql://127.0.0.1/x", "@none"} {
		if found := examineJournal(t.Context(), none, func() {}); len(found) != 1 || found[0].State != ill || found[0].Fix == "" {
			t.Errorf("%s: findings = %+v", none, found)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDoctorNamesIncompleteJournal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "journal.db")
	j, err := journal.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	epoch, err := j.BeginEpoch(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		seq   int64
		state string
	}{"complete": {0, healthy}, "behind its mark": {32, ill}} {
		mark := fmt.Appendf(nil, `{"epoch":%d,"seq":%d}`, epoch, tt.seq)
		if err := os.WriteFile(filepath.Join(dir, "journal.mark"), mark, 0o600); err != nil {
			t.Fatal(err)
		}
		found := examineJournal(t.Context(), file, func() {})
		if len(found) != 1 || found[0].State != tt.state {
			t.Fatalf("%s: %+v", name, found)
		}
		if says := strings.Contains(found[0].Detail, "it ends at event 0, and the supervisor has recorded event 32"); says != (tt.state == ill) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
