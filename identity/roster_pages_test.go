package identity

import (
	"fmt"
	"testing"

	"writ"
)

// Rosters that fill several pages come one page after the other, and all of them are read.
func TestPathComesInPages(t *testing.T) {
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
		all, err := CollectPages(after, func(after int) ([][]byte, error) {
			pages++
			page := c.path(after)
			size := 0
			for _, link := range page {
				size += len(link)
			}
			if size > RosterPage+MaxSigned {
				t.Errorf("a page has %d bytes", size)
			}
			return page, nil
		})
		if err != nil || len(all) != 9-after {
			t.Fatalf("after %d: %d links in %d pages, %v", after, len(all), pages, err)
		}
		if after == 0 && pages < 2 {
			t.Errorf("all came in %d page", pages)
		}
	}
	if _, err := CollectPages(0, func(int) ([][]byte, error) { return [][]byte{c.signed[9], c.signed[9], c.signed[9], c.signed[9]}, nil }); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("the same page again and again: %v", err)
	}
}

func TestAChainKeepsOnlyItsPath(t *testing.T) {
	c := newSignedChain(t)
	kept, err := VerifyChain(c.newest.Cluster, c.path(0), noon)
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
	again, err := VerifyChain(c.newest.Cluster, kept.Links, noon)
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
