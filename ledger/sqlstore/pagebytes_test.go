package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// A datacenter reports nodes of 1 MiB each. Pages end early, and no node is omitted.
func TestPagesEndBeforeTheyAreLarge(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	const all, most = 12, 5 // the last one reaches 4 MiB
	dc := writ.DatacenterID("0192f6c2-0000-7000-8000-000000000001")
	for i := range all {
		name := fmt.Sprintf("n%02d", i)
		node := writ.Node{ID: writ.NodeID(name), Name: name, Datacenter: dc, Admission: writ.AdmissionApproved, Health: writ.Health{Fault: strings.Repeat("x", 1<<20)}}
		event := writ.Event{Journal: "j", Seq: int64(i + 1), Time: time.UnixMicro(1), Node: &node}
		if err := store.StoreEvents(t.Context(), dc, []writ.Event{event}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.Nodes(t.Context(), ledger.NodeFilter{}, ledger.Page{Limit: ledger.MaxLimit})
	if err != nil || len(page.Items) > most {
		t.Errorf("a page has %d nodes of 1 MiB, want at most %d; %v", len(page.Items), most, err)
	}
	found := 0
	for _, err := range ledger.All(t.Context(), store.Nodes, ledger.NodeFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != all {
		t.Errorf("all pages have %d nodes, want %d", found, all)
	}
	if read := readEvents(t.Context(), t, store, most); read != all {
		t.Errorf("got %d events, want %d", read, all)
	}
}

// readEvents reads all events, page by page, and counts them.
func readEvents(ctx context.Context, t *testing.T, store *sqlstore.Store, most int) (read int) {
	t.Helper()
	for after := int64(0); ; {
		events, more, err := store.Events(ctx, after, ledger.EventFilter{}, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > most {
			t.Errorf("%d events of 1 MiB come at once, want at most %d", len(events), most)
		}
		if read += len(events); !more {
			return read
		}
		after = events[len(events)-1].ID
	}
}
