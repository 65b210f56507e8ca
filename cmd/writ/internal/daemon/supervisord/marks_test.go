package supervisord

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/backup"
	"writ/supervisor/journal"
)

func TestTheMarkOfARestoredJournalIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	if err := backup.Mark(dir); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("mark a directory without a supervisor: %v, want USAGE", err)
	}
	if err := os.WriteFile(filepath.Join(dir, supervisorKeyFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := marks{dir}
	if got, err := m.Read(); err != nil || got.Restored || got.Head != (journal.Head{}) {
		t.Errorf("first mark = %+v, %v", got, err)
	}
	head := journal.Head{Epoch: 7, Seq: 9}
	if err := m.Keep(head); err != nil {
		t.Fatal(err)
	}
	if err := backup.Mark(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(head); err != nil { // a supervisor that still works does not undo it
		t.Fatal(err)
	}
	if got, err := m.Read(); err != nil || !got.Restored || got.Head != head {
		t.Errorf("mark after the restore = %+v, %v", got, err)
	}
	if err := m.Heard(); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Read(); err != nil || got.Restored || got.Head != head {
		t.Errorf("mark after it was read = %+v, %v", got, err)
	}
}

// The directory of a supervisor with a journal on PostgreSQL has no store to mark, so the mark is beside its key.
func TestARestoredDirectoryWithoutAStoreIsMarked(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "dc1")
	if err := os.WriteFile(filepath.Join(from, supervisorKeyFile), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dc1.tar")
	if _, err := backup.Save(context.Background(), from, file, "v"); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(context.Background(), file, to); err != nil {
		t.Fatal(err)
	}
	if got, err := (marks{to}).Read(); err != nil || !got.Restored {
		t.Errorf("restored it is %+v, %v", got, err)
	}
}

func TestDamagedMarkIsExplained(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "{damaged", "17"} {
		if err := os.WriteFile(filepath.Join(dir, markFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := (marks{dir}).Read()
		if writ.CodeOf(err) != writ.CodeDataIncomplete || !strings.Contains(writ.AsError(err).Hint, "--mark --data "+dir) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
