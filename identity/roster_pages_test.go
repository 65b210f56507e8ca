package identity

import "testing"

func TestAllRostersComeInPagesOfWhichOneIsTheLast(t *testing.T) {
	for _, sizes := range [][]int{nil, {10}, {RosterPage}, {RosterPage - 1, 1}, {RosterPage - 1, 1, 10}, {RosterPage / 2, RosterPage / 2, RosterPage / 2}, {1, 512 << 10, 512 << 10, 512 << 10, 3}} {
		var rest [][]byte
		for _, size := range sizes {
			rest = append(rest, make([]byte, size))
		}
		got, pages := 0, 0
		for last := false; !last; pages++ {
			page := FirstPage(rest)
			rest, got, last = rest[len(page):], got+len(page), IsLastPage(page)
			if pages > len(sizes) {
				t.Fatalf("%v: no end after %d pages", sizes, pages)
			}
		}
		if got != len(sizes) {
			t.Errorf("%v: %d rosters in %d pages", sizes, got, pages)
		}
	}
}
