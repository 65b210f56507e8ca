package identity

import (
	"fmt"
	"testing"

	"writ"
	"writ/identity/chain"
	"writ/identity/sshsig"
)

// Rosters that fill several pages are sent page by page, and all of them are read.
func TestPathIsPaged(t *testing.T) {
	c := newSignedChain(t)
	names := 0
	for range 8 { // each is a waypoint of 300 KB
		c.next(func(next *Roster) {
			next.Tenants = next.Tenants[:1]
			for range 3000 {
				names++
				next.Tenants = append(next.Tenants, Tenant{ID: writ.TenantID(writ.NewUUID()), Name: fmt.Sprintf("tenant-%040d", names)})
			}
			next.Threshold = 1 + next.Version%2
		}, "alice", "bob")
	}
	for after := range 10 {
		pages := 0
		all, err := chain.CollectPages(after, func(after int) ([][]byte, error) {
			pages++
			page := c.path(after)
			size := 0
			for _, link := range page {
				size += len(link)
			}
			if size > chain.PageSize+sshsig.MaxSigned {
				t.Errorf("a page has %d bytes", size)
			}
			return page, nil
		})
		if err != nil || len(all) != 9-after {
			t.Fatalf("after %d: %d links in %d pages, %v", after, len(all), pages, err)
		}
		if after == 0 && pages < 2 {
			t.Errorf("all links in %d page", pages)
		}
	}
	if _, err := chain.CollectPages(0, func(int) ([][]byte, error) { return [][]byte{c.signed[9], c.signed[9], c.signed[9], c.signed[9]}, nil }); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("the same page again and again: %v", err)
	}
}

func TestChainKeepsOnlyItsPath(t *testing.T) {
	c := newSignedChain(t)
	kept, err := RosterChain{}.Extend(c.newest.Cluster, c.path(0), noon)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c.projects(1, "alice", "bob")
		if kept, err = kept.Extend(c.newest.Cluster, [][]byte{c.signed[c.newest.Version]}, noon); err != nil {
			t.Fatal(err)
		}
		if len(kept.Links) != 2 {
			t.Fatalf("version %d: %d links are kept", kept.Newest.Version, len(kept.Links))
		}
	}
	again, err := RosterChain{}.Extend(c.newest.Cluster, kept.Links, noon)
	if err != nil || again.Newest.Version != 21 {
		t.Fatalf("%v", err)
	}
	c.next(func(next *Roster) { next.Created, next.Expires = next.Expires, next.Expires.Add(RosterValidity) }, "alice", "bob")
	later := c.newest.Expires.Add(-1)
	if _, err := again.Extend(c.newest.Cluster, c.path(0), later); err != nil { // only the newest must not have expired
		t.Errorf("after expired versions: %v", err)
	}
	if _, err := again.Extend(c.newest.Cluster, nil, later); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("an expired version: %v", err)
	}
	if same, err := again.Extend(c.newest.Cluster, [][]byte{c.signed[7], c.signed[21]}, noon); err != nil || same.Newest != again.Newest {
		t.Errorf("known links: %v", err)
	}
}

// A server sends the same page to all callers with the same start, so the page must lead each of them to the newest
// roster.
func TestPageServesAllItsCallers(t *testing.T) {
	c := newSignedChain(t)
	c.projects(9, "alice", "bob")                                                          // 2 to 10
	c.next(func(next *Roster) { next.Threshold = 1 }, "alice", "bob")                      // 11, a waypoint
	c.projects(12, "alice")                                                                // 12 to 23
	c.next(func(next *Roster) { next.Previous, next.Version = writ.Digest{}, 40 }, "root") // a recovery
	c.projects(7, "alice")                                                                 // 41 to 47
	pages := map[int][][]byte{}
	for after := c.newest.Version; after >= 0; after-- { // the caller with the highest version builds the page
		have := c.at(after)
		if have != nil && have.Version != after {
			continue // skipped by the recovery
		}
		start := c.newest.Chain().PageStart(after)
		if pages[start] == nil {
			pages[start] = c.path(after)
		}
		for _, link := range pages[start] {
			var err error
			if have, err = VerifyRoster(have, link, noon); err != nil {
				t.Fatalf("after version %d, on the page after %d: %v", after, start, err)
			}
		}
		if have.Version != c.newest.Version {
			t.Errorf("after version %d the page leads to %d", after, have.Version)
		}
	}
	if len(pages) > 20 {
		t.Errorf("%d pages for %d versions", len(pages), c.newest.Version)
	}
}
