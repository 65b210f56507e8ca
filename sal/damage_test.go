package sal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"writ"
)

// The record is reported under its name if that is still readable.
func TestTruncatedRecordIsReported(t *testing.T) {
	records := &Records[own]{Dir: t.TempDir()}
	asked := request(t, "volume.create", "u1", map[string]any{"size_gib": int64(1)})
	broken, whole := NewRecord[own](asked), NewRecord[own](asked)
	whole.Resource.Name = "whole"
	for _, r := range []*Record[own]{broken, whole} {
		if err := records.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(records.Dir, root.HostName()+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for n := range len(text) - 2 { // a record without only its last line break is complete
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		all, damaged, err := records.List()
		if err != nil || len(all) != 1 || all[0].Resource != whole.Resource || len(damaged) != 1 || damaged[0].HostName != root.HostName() {
			t.Fatalf("cut off at %d: %v, %v, %v", n, all, damaged, err)
		}
		told := damaged[0].Resource == root
		if !told && (named || damaged[0].Resource != writ.ResourceID{}) {
			t.Errorf("cut off at %d: it is of %v", n, damaged[0].Resource)
		}
		named = told
		if _, err := records.Get(root); writ.CodeOf(err) != writ.CodeRecordDamaged {
			t.Errorf("cut off at %d: Get = %v", n, err)
		}
		lost, err := records.GetToRemove(asked)
		if err != nil || !lost.Lost || lost.Resource != root || lost.UID != "u1" {
			t.Errorf("cut off at %d, to be removed: %+v, %v", n, lost, err)
		}
	}
	if !named {
		t.Error("no error names the owner of the record")
	}
	other := asked
	other.UID = "u2"
	if _, err := records.GetToRemove(other); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("another one is removed: %v", err)
	}
}

func TestRecordUnderAnotherNameIsDamaged(t *testing.T) {
	records := &Records[own]{Dir: t.TempDir()}
	if err := records.Put(NewRecord[own](request(t, "volume.create", "u1", map[string]any{"size_gib": int64(1)}))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(records.Dir, root.HostName()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	other := root
	other.Name = "other"
	for _, text := range [][]byte{text, []byte("{}"), []byte("null"), []byte("[1]"), bytes.Repeat([]byte{0}, len(text))} {
		if err := os.WriteFile(filepath.Join(records.Dir, other.HostName()+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, damaged, err := records.List()
		if err != nil || len(damaged) != 1 || damaged[0].Resource != (writ.ResourceID{}) {
			t.Errorf("%q: %v, %v", text, damaged, err)
		}
	}
}
