package identity

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"writ"
	"writ/identity/chain"
	"writ/identity/header"
	"writ/identity/sshsig"
)

// signedChain is a server's chain of rosters.
type signedChain struct {
	t      *testing.T
	newest *Roster
	signed map[int][]byte // by version
}

func newSignedChain(t *testing.T) *signedChain {
	c := &signedChain{t: t, signed: map[int][]byte{}}
	c.add(testRoster(), "root")
	return c
}

func (c *signedChain) add(r *Roster, signers ...string) {
	c.t.Helper()
	signed := signRoster(c.t, r, signers...)
	next, err := VerifyRoster(c.newest, signed, noon)
	if err != nil {
		c.t.Fatal(err)
	}
	c.newest, c.signed[next.Version] = next, signed
}

// next adds a version with a change.
func (c *signedChain) next(change func(next *Roster), signers ...string) {
	c.t.Helper()
	r, err := c.newest.Successor(noon)
	if err != nil {
		c.t.Fatal(err)
	}
	change(r)
	c.add(r, signers...)
}

// projects adds versions with one more project each.
func (c *signedChain) projects(n int, signers ...string) {
	c.t.Helper()
	for range n {
		c.next(func(next *Roster) {
			next.Projects = append(next.Projects, Project{ID: writ.ProjectID(writ.NewUUID()), Name: fmt.Sprint("p", next.Version)})
		}, signers...)
	}
}

func (c *signedChain) text(version int) ([]byte, error) { return c.signed[version], nil }

// at returns a verifier that has followed the chain up to a version.
func (c *signedChain) at(version int) (r *Roster) {
	c.t.Helper()
	for v := 1; v <= version; v++ {
		if c.signed[v] == nil {
			continue
		}
		var err error
		if r, err = VerifyRoster(r, c.signed[v], noon); err != nil {
			c.t.Fatal(err)
		}
	}
	return r
}

func (c *signedChain) path(after int) [][]byte {
	c.t.Helper()
	path, err := c.newest.Chain().Path(after, c.text)
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}

// The chain has versions that do not change the signers, a version that removes alice as an operator, and more versions
// that only the other operators may sign.
//
// Promise: Signatures and rosters: A verifier that skips roster versions still detects a fork in any of them.
// How: The signed history covers the digest of each version, and the verifier folds them.
// Also: TestSkipNeedsTheSkippedDigests.
func TestWaypointsLeadToTheNewestRoster(t *testing.T) {
	c := newSignedChain(t)
	c.projects(5, "alice", "bob")
	c.next(func(next *Roster) {
		next.Operators = []string{"bob", "frank"}
	}, "alice", "bob")
	c.projects(5, "bob", "frank")
	if n := len(c.path(0)); n != 3 {
		t.Fatalf("path of 12 versions with one change of operators = %d, want 3", n)
	}
	for after := range 12 {
		r := c.at(after)
		for _, link := range c.path(after) {
			var err error
			if r, err = VerifyRoster(r, link, noon); err != nil {
				t.Fatalf("after version %d: %v", after, err)
			}
		}
		if r.Version != 12 {
			t.Errorf("from version %d the path leads to %d", after, r.Version)
		}
		whole := c.at(after)
		for _, link := range c.path(0) { // a path from an earlier version also continues each version that it skips
			if whole != nil && whole.Has(link) {
				continue
			}
			var err error
			if whole, err = VerifyRoster(whole, link, noon); err != nil {
				t.Fatalf("the whole path after version %d: %v", after, err)
			}
		}
		for v := 1; v <= 12; v++ { // it knows every version as if it had followed all of them
			if err := r.Chain().CheckSeen(v, writ.DigestOf([]byte("another"))); writ.CodeOf(err) != writ.CodeRosterFork {
				t.Errorf("from version %d: a fork of version %d is not noticed: %v", after, v, err)
			}
			d, _ := c.at(v).Digest()
			if err := r.Chain().CheckSeen(v, d); err != nil {
				t.Errorf("from version %d: version %d: %v", after, v, err)
			}
		}
	}
}

func TestSkipNeedsTheSkippedDigests(t *testing.T) {
	c := newSignedChain(t)
	c.projects(4, "alice", "bob")
	other := newSignedChain(t)
	other.projects(4, "alice", "bob")
	path, err := c.newest.Chain().PathWithin(2, chain.PageSize, c.text)
	if err != nil {
		t.Fatal(err)
	}
	link := path[0]
	skipped, signed, err := chain.Split(link)
	if err != nil || len(skipped) != 2 {
		t.Fatalf("%d skipped, %v", len(skipped), err)
	}
	wrong := slices.Clone(skipped)
	wrong[0][0] ^= 1
	for name, bad := range map[string]struct {
		from *Roster
		link []byte
	}{
		"from a fork":           {other.at(2), link},
		"without digests":       {c.at(2), signed},
		"with fewer digests":    {c.at(2), chain.Join(skipped[1:], signed)},
		"with a wrong digest":   {c.at(2), chain.Join(wrong, signed)},
		"with swapped digests":  {c.at(2), chain.Join([]writ.Digest{skipped[1], skipped[0]}, signed)},
		"as the first":          {nil, link},
		"signed by one of them": {c.at(2), chain.Join(skipped, signRoster(t, c.newest, "alice"))},
	} {
		if _, err := VerifyRoster(bad.from, bad.link, noon); writ.CodeOf(err) != writ.CodeRosterInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(link) - len(signed) {
		if _, err := VerifyRoster(c.at(2), link[:n], noon); err == nil {
			t.Fatalf("a link of %d bytes is accepted", n)
		}
	}
}

func mustText(t *testing.T, r *Roster) []byte {
	t.Helper()
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRosterWithHistoryHasFormatFour(t *testing.T) {
	c := newSignedChain(t)
	c.next(func(*Roster) {}, "alice", "bob")
	golden(t, "roster-v4.writ", c.signed[2])
	old := bytes.Replace(mustText(t, c.newest), []byte("writ-roster: v4"), []byte("writ-roster: v3"), 1)
	if _, err := ParseRoster(old); writ.CodeOf(err) != writ.CodePayloadMalformed {
		t.Errorf("the third format with a history: %v", err)
	}
}

// Versions of earlier formats prove no history, so each of them stays on the path, as does the version before each of
// them.
func TestVersionsWithoutHistoryAreNotSkipped(t *testing.T) {
	c := newSignedChain(t)
	old := func(next *Roster) { next.History = writ.Digest{} }
	c.next(old, "alice", "bob")
	c.next(old, "alice", "bob")
	c.projects(3, "alice", "bob") // 4, 5, 6
	c.next(old, "alice", "bob")   // 7
	c.projects(2, "alice", "bob") // 8, 9
	c.next(func(next *Roster) { next.Previous, next.Version = writ.Digest{}, 12 }, "root")
	c.projects(3, "alice", "bob") // 13, 14, 15
	var versions []int
	for _, link := range c.path(0) {
		v, _, err := chain.Versions(link)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	if want := []int{1, 2, 3, 6, 7, 9, 12, 15}; !slices.Equal(versions, want) {
		t.Errorf("the path is %v, want %v", versions, want)
	}
	r, err := VerifyRosters(c.newest.Cluster, c.path(0), noon)
	if err != nil || r.Version != 15 {
		t.Fatalf("%v", err)
	}
	loaded, err := LoadRosters(c.newest.Cluster, r.Chain().Entries(0), c.text)
	if err != nil || loaded.Version != 15 {
		t.Fatalf("%v", err)
	}
	if err := loaded.Chain().CheckSeen(11, writ.DigestOf(nil)); writ.CodeOf(err) != writ.CodeRosterFork {
		t.Errorf("a version that the recovery left out: %v", err)
	}
}

// The bytes and reads of a page do not depend on the number of versions.
func TestPathIsIndependentOfVersions(t *testing.T) {
	c := newSignedChain(t)
	c.projects(2, "alice", "bob")
	for range 40 {
		c.next(func(*Roster) {}, "alice", "bob")
		reads := 0
		path, err := c.newest.Chain().Path(0, func(version int) ([]byte, error) {
			reads++
			return c.signed[version], nil
		})
		if err != nil || reads != 2 || len(path) != 2 {
			t.Fatalf("version %d: %d reads, %d links, %v", c.newest.Version, reads, len(path), err)
		}
		if extra := len(path[1]) - len(chain.Signed(path[1])); extra > 32*c.newest.Version {
			t.Errorf("version %d: the link has %d bytes in addition to its roster", c.newest.Version, extra)
		}
	}
}

func TestStoredChainIsVerified(t *testing.T) {
	c := newSignedChain(t)
	c.projects(4, "alice", "bob")
	links := c.newest.Chain().Entries(0)
	if r, err := LoadRosters(c.newest.Cluster, links, c.text); err != nil || r.Version != 5 {
		t.Fatalf("%v", err)
	}
	forged := slices.Clone(links)
	forged[2].Digest[0] ^= 1
	if _, err := LoadRosters(c.newest.Cluster, forged, c.text); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("a changed digest: %v", err)
	}
	if _, err := LoadRosters(c.newest.Cluster, slices.Delete(slices.Clone(links), 2, 3), c.text); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("a version less: %v", err)
	}
	if got := c.newest.Chain().Entries(4); len(got) != 1 || got[0].Version != 5 {
		t.Errorf("after version 4: %v", got)
	}
}

// Anyone can append signatures to a roster. Signatures of unknown keys cause no hash of the text, and do not count.
func TestStrangersSignaturesAreNotVerified(t *testing.T) {
	c := newSignedChain(t)
	c.projects(1, "alice", "bob")
	r, err := c.newest.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	signed := signRoster(t, r, "alice", "bob")
	forged, err := testSigner("mallory").Sign(sshsig.RosterNamespace, []byte("another text"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyRoster(c.newest, append(slices.Clip(signed), bytes.Repeat(forged, 20)...), noon); err != nil {
		t.Errorf("with signatures of strangers: %v", err)
	}
	many := append(slices.Clip(mustText(t, r)), bytes.Repeat(forged, (sshsig.MaxSigned-header.MaxText)/len(forged))...)
	count := float64(bytes.Count(many, forged))
	if allocs := testing.AllocsPerRun(3, func() { _, _ = VerifyRoster(c.newest, many, noon) }); allocs > 8*count {
		t.Errorf("%.0f signatures of a stranger make %.0f allocations, so they are parsed", count, allocs)
	}
	broken := append(slices.Clip(signed), bytes.Replace(forged, []byte("U1NIU0lH"), []byte("U1NIU0lI"), 1)...)
	if _, err := VerifyRoster(c.newest, broken, noon); writ.CodeOf(err) != writ.CodeSignatureMalformed {
		t.Errorf("with a malformed signature of a stranger: %v", err)
	}
	stranger := signRoster(t, r, "mallory")
	copy(stranger, "no roster at all") // rejected before it is parsed
	if _, err := VerifyRoster(c.newest, stranger, noon); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("by a stranger: %v", err)
	}
}
