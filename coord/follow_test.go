package coord

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/identity/chain"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// People use one coordinator, the datacenter is linked to the other. await checks only when it is woken.
//
// Promise: Limits and shares: Coordinators that share a ledger see each other's runs and rosters, and the coordinator
// with the link delivers a submission.
// How: Each polls the ledger's position twice a second.
func TestCoordinatorsSharingALedgerWakeEachOther(t *testing.T) {
	database := testenv.Postgres(t).Store()
	onIt := func(c *Config) {
		store, err := sqlstore.Open(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		c.Ledger = store
	}
	near, far := start(t, onIt), start(t, onIt)
	datacenter := connect(far, vienna, nil)

	submission, err := near.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	far.await("delivery of the submission by the other coordinator", func() bool { return len(datacenter.took()) == 1 })
	if got := datacenter.took()[0]; got != submission.Run {
		t.Errorf("the datacenter took %s, want %s", got, submission.Run)
	}

	datacenter.tell(writ.Event{Log: &writ.LogLine{Run: submission.Run, Ordinal: 1, Text: "told at the other one"}})
	near.await("the event at the other coordinator", func() bool {
		seq, _, err := near.Ledger.LastEvent(t.Context(), vienna, datacenter.journal)
		return err == nil && seq > 0
	})

	roster, err := far.rosters.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, err := roster.Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	changed := near.rosters.Changed.Next()
	if _, err := far.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(hang):
		t.Fatal("a roster of the other coordinator is not noticed")
	}
	if got, err := near.rosters.Newest(t.Context()); err != nil || got.Version != next.Version {
		t.Errorf("the newest roster is %+v, %v", got, err)
	}
}

// forgedRosters is a ledger with a roster that was inserted without a signature.
type forgedRosters struct {
	ledger.Ledger
	signed atomic.Pointer[[]byte] // nil until then
}

func (f *forgedRosters) RosterLinks(ctx context.Context, after int) ([]chain.Entry, error) {
	if f.signed.Load() != nil && after > 0 {
		return []chain.Entry{{Version: after + 1}}, nil
	}
	return f.Ledger.RosterLinks(ctx, after)
}

func (f *forgedRosters) Roster(ctx context.Context, version int) ([]byte, error) {
	if forged := f.signed.Load(); forged != nil {
		return *forged, nil
	}
	return f.Ledger.Roster(ctx, version)
}

// A roster that was inserted into the ledger without a signature is rejected each time, and logged rarely.
//
// Promise: Commands and hosts: A forged roster in a shared ledger is refused and logged once in ten seconds.
// How: Coordinators that share a ledger read it twice a second and verify each roster.
func TestForgedRosterLogsFewLines(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	log, records := new(testenv.Log), &forgedRosters{Ledger: store}
	p := start(t, func(c *Config) { c.Log, c.Ledger = log.Logger(), records })
	roster, err := p.rosters.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, err := roster.Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	forged := signedRoster(t, next)
	forged[len(forged)/3] ^= 1
	records.signed.Store(&forged)
	const often = 20
	for range often {
		p.follow(t.Context())
	}
	const said = "read the rosters of the ledger"
	if n := log.Lines(said); n == 0 || n > often/4 || log.Lines("code=") < n {
		t.Errorf("%d reads of a forged roster produced %d lines:\n%s", often, n, log)
	}
	if got, err := p.rosters.Newest(t.Context()); err != nil || got.Version != roster.Version {
		t.Errorf("the newest roster is %+v, %v", got, err)
	}
}
