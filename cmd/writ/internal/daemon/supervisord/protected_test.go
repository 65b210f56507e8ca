package supervisord

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheDataDirectoryRemembersThatItsJournalIsProtected(t *testing.T) {
	data := t.TempDir()
	for i, want := range []struct{ rows, values bool }{{false, false}, {true, true}, {true, true}, {true, false}, {true, true}} {
		if i == 3 { // as an earlier version wrote it
			if err := os.WriteFile(filepath.Join(data, protectedFile), []byte(rowsProtected), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if rows, values, err := isProtected(data); err != nil || rows != want.rows || values != want.values {
			t.Errorf("isProtected = %v, %v, %v, want %+v", rows, values, err, want)
		}
		if err := noteProtected(data); err != nil {
			t.Fatal(err)
		}
	}
}
