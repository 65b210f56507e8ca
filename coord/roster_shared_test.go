package coord

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// A page that one caller has requested leads every other caller that shares it to the newest roster.
//
// Promise: Signatures and rosters: A roster request of an unknown client does not change the answers to other
// callers.
// How: A shared page leads every caller to the newest version.
// Also: TestPageServesAllItsCallers, TestCallersShareARosterPage.
func TestSharedRosterPageLeadsEveryCaller(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := start(t, func(c *Config) { c.Ledger = store })
	roster, err := p.rosters.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	versions := []*identity.Roster{nil, roster}
	for range 9 {
		if _, err := p.AddRoster(t.Context(), signedRoster(t, successor(t, roster, nothing))); err != nil {
			t.Fatal(err)
		}
		if roster, err = p.rosters.Newest(t.Context()); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, roster)
	}
	for _, after := range []int{8, 0, 1, 5, 9} { // the first one builds the page
		_, body := p.get(fmt.Sprintf("/v1/roster?after=%d", after))
		var page api.Rosters
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		have := versions[after]
		for _, link := range page.Signed {
			if have, err = identity.VerifyRoster(have, link, time.Time{}); err != nil {
				t.Fatalf("after version %d: %v", after, err)
			}
		}
		if have.Version != 10 {
			t.Errorf("after version %d the page leads to %d", after, have.Version)
		}
	}
}

// slowRosters is a ledger that stores each roster after the first one when add is closed.
type slowRosters struct {
	ledger.Ledger
	adding, add chan struct{}
}

func (s *slowRosters) AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error {
	if roster.Version > 1 {
		s.adding <- struct{}{}
		<-s.add
	}
	return s.Ledger.AddRoster(ctx, roster, signed)
}

// A text signed by a stranger is refused without the lock that honest changes of the roster need.
func TestStrangersHoldUpNoRosterChange(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	slow := &slowRosters{Ledger: store, adding: make(chan struct{}), add: make(chan struct{})}
	p := start(t, func(c *Config) { c.Ledger = slow })
	roster, err := p.rosters.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := successor(t, roster, nothing).Text()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer("mallory").Sign(sshsig.RosterNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	var honest sync.WaitGroup
	honest.Go(func() {
		if _, err := p.AddRoster(t.Context(), signedRoster(t, successor(t, roster, nothing))); err != nil {
			t.Error(err)
		}
	})
	<-slow.adding // the honest change holds the lock now
	defer honest.Wait()
	defer close(slow.add)
	refused := make(chan error)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	go func() {
		_, err := p.AddRoster(ctx, sshsig.Join(text, signature))
		refused <- err
	}()
	select {
	case err := <-refused:
		if writ.CodeOf(err) != writ.CodeRosterInvalid {
			t.Errorf("%v", err)
		}
	case <-ctx.Done():
		t.Error("the text of a stranger waits for the lock")
		go func() { <-refused }()
	}
}
