package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

func TestAPasswordIsNoPartOfAFlag(t *testing.T) {
	for _, address := range []string{"postgres://writ:s3cret@db/writ", "postgres://writ@db/writ?password=s3cret", "mysql://db/writ", "journal.db"} {
		_, err := claimStore(t.TempDir(), journalKept, "journal", address)
		if e := writ.AsError(err); e == nil || e.Code != writ.CodeUsage || e.Hint == "" || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://writ:s3cret@db/writ\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"postgres://writ@db/writ": "postgres://writ@db/writ", "@" + file: "postgres://writ:s3cret@db/writ"} {
		if p, err := claimStore(t.TempDir(), journalKept, "journal", address); err != nil || p.path != want {
			t.Errorf("%s: %q, %v", address, p.path, err)
		}
	}
}

func TestACoordinatorKeepsItsLedgerOnPostgreSQL(t *testing.T) {
	address := testenv.Postgres(t).Store()
	first := newCoord(t, t.TempDir(), "127.0.0.1:0")
	second := newCoord(t, t.TempDir(), "127.0.0.1:0")
	second.Rosters, second.Cluster = nil, first.Cluster // it finds them in the ledger
	for _, c := range []*Coord{first, second} {
		c.Ledger = address
		p, _ := newProcesses(t.Context())
		if err := p.start(t.Context(), "coordinator", c.Run); err != nil {
			t.Fatal(err)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestNeitherJournalNorLedgerIsReachedUnverifiedOnAnotherMachine(t *testing.T) {
	const address = "postgres://writ@db.invalid/writ?sslmode=require"
	coord := newCoord(t, t.TempDir(), "127.0.0.1:0")
	coord.Ledger = address
	p, _ := newProcesses(t.Context())
	err := p.start(t.Context(), "coordinator", coord.Run)
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("a ledger: %v", err)
	}
	_ = p.stop()
	if _, err = journal.Open(t.Context(), address); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("a journal: %v", err)
	}
}

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
