package sqlstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"writ"
	"writ/ledger"
	"writ/ledger/ledgertest"
	"writ/ledger/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLedgerInMemory(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledger.Ledger { return open(t, ":memory:") })
}

func TestLedgerInFile(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledger.Ledger {
		dir, err := os.MkdirTemp(t.TempDir(), "") // one test may open many
		if err != nil {
			t.Fatal(err)
		}
		return open(t, filepath.Join(dir, "ledger.db"))
	})
}

func open(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEverythingIsThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	payload := writ.DigestOf([]byte("payload"))
	in := ledger.Incoming{Submission: writ.Submission{
		Payload: payload, Run: writ.RunIDOf(payload), Datacenter: "dc", Signer: "alice", Script: "a.tengo",
		Received: time.Now(), Expires: time.Now().Add(time.Hour),
	}, Signed: []byte("signed")}
	s := open(t, path)
	if _, _, err := s.AddSubmission(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	node := &writ.Node{ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved}
	if err := s.StoreEvents(t.Context(), "dc", []writ.Event{{Journal: "j", Seq: 1, Node: node}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, path)
	defer s.Close()
	waiting, err := s.Waiting(t.Context(), "dc", ledger.Position{}, 10)
	if err != nil || len(waiting) != 1 || waiting[0].Payload != payload {
		t.Errorf("waiting: %v, %v", waiting, err)
	}
	if last, err := s.LastEvent(t.Context(), "dc", "j"); err != nil || last != 1 {
		t.Errorf("the journal stands at %d, %v", last, err)
	}
	if _, newest, err := s.EventRange(t.Context()); err != nil || newest != 2 {
		t.Errorf("newest event %d, %v", newest, err)
	}
}
