package coord

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/coord/rosters"
	"writ/identity"
	"writ/identity/chain"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// countedRosters is a ledger that counts reads of rosters.
type countedRosters struct {
	ledger.Ledger
	reads atomic.Int32
}

func (c *countedRosters) RosterLinks(ctx context.Context, after int) ([]chain.Entry, error) {
	c.reads.Add(1)
	return c.Ledger.RosterLinks(ctx, after)
}

func (c *countedRosters) Roster(ctx context.Context, version int) ([]byte, error) {
	c.reads.Add(1)
	return c.Ledger.Roster(ctx, version)
}

// Requests without a login for the roster share one page, and its size and cost do not depend on the number of
// versions.
func TestStrangersShareOneRosterPage(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	counted := &countedRosters{Ledger: store}
	p := start(t, func(c *Config) { c.Ledger = counted })
	_, first := p.get("/v1/roster?after=0")
	for range 30 {
		roster, err := p.rosters.Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.AddRoster(t.Context(), signedRoster(t, successor(t, roster, nothing))); err != nil {
			t.Fatal(err)
		}
	}
	counted.reads.Store(0)
	var all sync.WaitGroup
	for n := range 60 {
		all.Go(func() {
			response, err := http.Get(p.PublicURL + fmt.Sprintf("/v1/roster?after=%d", n%30))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
	all.Wait()
	if reads := counted.reads.Load(); reads > 8 { // the newest for each of six starts, and the first
		t.Errorf("60 requests for a roster of 31 versions read %d texts", reads)
	}
	_, last := p.get("/v1/roster?after=0")
	if most := 2*len(first) + 31*64; len(last) > most {
		t.Errorf("the page of 31 versions has %d bytes, want at most %d", len(last), most)
	}
	if held := p.rosters.Pages.Bytes(); held > rosters.MaxPages {
		t.Errorf("the pages hold %d bytes", held)
	}
	if status, body := p.get("/v1/roster?after=31"); status != 200 || !strings.Contains(body, `"signed":[]`) {
		t.Errorf("after the newest: %d, %s", status, body)
	}
}

// The ledger also has the text of version 2, which no verifier of later versions needs.
func TestCoordinatorStartReadsFewRosters(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var newest *identity.Roster
	for _, version := range []int{1, 2, 10, 2000} {
		link := signedRoster(t, firstRoster())
		if newest != nil {
			next := successor(t, newest, nothing)
			link = chain.Join(skipTo(next, version), signedRoster(t, next))
		}
		if newest, err = identity.VerifyRoster(newest, link, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := store.AddRoster(t.Context(), newest, chain.Signed(link)); err != nil {
			t.Fatal(err)
		}
		if version < 10 {
			continue
		}
		counted := &countedRosters{Ledger: store}
		loaded, err := rosters.Load(t.Context(), counted, newest.Cluster)
		if err != nil || loaded.Version != version || len(loaded.Chain().Entries(0)) != version {
			t.Fatalf("version %d: %v", version, err)
		}
		if n := counted.reads.Load(); n != 3 { // the digests, and the texts of the first and the newest version
			t.Errorf("with %d versions, the start reads the ledger %d times, want 3", version, n)
		}
	}
}

// skipTo changes the successor of a roster into a later version, and returns the digests of the skipped versions.
func skipTo(next *identity.Roster, version int) (skipped []writ.Digest) {
	for v := next.Version; v < version; v++ {
		skipped = append(skipped, writ.DigestOf(fmt.Append(nil, "version ", v)))
	}
	if len(skipped) > 0 {
		next.Version, next.Previous = version, skipped[len(skipped)-1]
		next.History = chain.History(next.History, skipped...)
	}
	return skipped
}
