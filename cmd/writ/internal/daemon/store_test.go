package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

func TestPasswordInAFlagIsRefusedAndHidden(t *testing.T) {
	for _, address := range []string{"postgres://writ:s3cret@db/writ", "postgres://writ@db/writ?password=s3cret", "mysql://db/writ", "journal.db"} {
		_, err := ClaimStore(t.TempDir(), KeptFile{Name: "journal.db"}, "journal", address)
		if e := writ.AsError(err); e == nil || e.Code != writ.CodeUsage || e.Hint == "" || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://writ:s3cret@db/writ\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"postgres://writ@db/writ": "postgres://writ@db/writ", "@" + file: "postgres://writ:s3cret@db/writ"} {
		if p, err := ClaimStore(t.TempDir(), KeptFile{Name: "journal.db"}, "journal", address); err != nil || p.Path != want {
			t.Errorf("%s: %q, %v", address, p.Path, err)
		}
	}
}
