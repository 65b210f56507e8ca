package coordinatord

import (
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

func TestACoordinatorKeepsItsLedgerOnPostgreSQL(t *testing.T) {
	address := testenv.Postgres(t).Store()
	first := newCoord(t, t.TempDir(), "127.0.0.1:0")
	second := newCoord(t, t.TempDir(), "127.0.0.1:0")
	second.Rosters, second.Cluster = nil, first.Cluster // it finds them in the ledger
	for _, c := range []Config{first, second} {
		c.Ledger = address
		p, _ := processes.New(t.Context())
		if err := p.Start(t.Context(), "coordinator", serving(c)); err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestNeitherJournalNorLedgerIsReachedUnverifiedOnAnotherMachine(t *testing.T) {
	const address = "postgres://writ@db.invalid/writ?sslmode=require"
	coord := newCoord(t, t.TempDir(), "127.0.0.1:0")
	coord.Ledger = address
	p, _ := processes.New(t.Context())
	err := p.Start(t.Context(), "coordinator", serving(coord))
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("a ledger: %v", err)
	}
	_ = p.Stop()
	if _, err = journal.Open(t.Context(), address); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("a journal: %v", err)
	}
}
