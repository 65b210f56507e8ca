package coord

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"writ/coord/api"
	"writ/identity"
	"writ/ledger/sqlstore"
)

// A page that one caller has asked for leads every other caller that shares it to the newest roster.
func TestSharedRosterPageLeadsEveryCaller(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := start(t, func(c *Coordinator) { c.Ledger = store })
	roster, err := p.rosters.newest(t.Context(), p.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	versions := []*identity.Roster{nil, roster}
	for range 9 {
		if _, err := p.AddRoster(t.Context(), signedRoster(t, successor(t, roster, nothing))); err != nil {
			t.Fatal(err)
		}
		if roster, err = p.rosters.newest(t.Context(), p.Coordinator); err != nil {
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
