package identity

// RosterPage is how many bytes of signed rosters a server gives at once: a page ends with the roster that reaches it. A page that has fewer is the
// last. With the largest roster at its end it is 1.5 MiB.
const RosterPage = 1 << 20

// FirstPage returns the first page of signed rosters.
func FirstPage(signed [][]byte) [][]byte {
	size := 0
	for i, text := range signed {
		if size += len(text); size >= RosterPage {
			return signed[:i+1]
		}
	}
	return signed
}

// IsLastPage reports whether no page follows one that a server gave.
func IsLastPage(page [][]byte) bool {
	size := 0
	for _, text := range page {
		size += len(text)
	}
	return size < RosterPage
}
