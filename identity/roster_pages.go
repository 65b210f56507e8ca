package identity

import "writ"

// RosterPage is how many bytes of links a server gives at once: a page ends with the link that reaches it, so it has at most 1.7 MiB. A page
// with fewer bytes is the last.
const RosterPage = 1 << 20

// maxPath limits all links that a client reads from an unverified server, in bytes.
const maxPath = 64 << 20

// IsLastPage reports whether no page follows one that a server gave.
func IsLastPage(page [][]byte) bool {
	size := 0
	for _, link := range page {
		size += len(link)
	}
	return size < RosterPage
}

// CollectPages reads the pages of links after a version until the last one. read returns one page. Nothing is verified, but each page must
// lead to a newer version.
func CollectPages(after int, read func(after int) ([][]byte, error)) (all [][]byte, err error) {
	for size := 0; ; {
		page, err := read(after)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if IsLastPage(page) {
			return all, nil
		}
		for _, link := range page {
			size += len(link)
		}
		if size > maxPath {
			return nil, writ.Errorf(writ.CodeTooLarge, "the server gives more than %d bytes of rosters", maxPath)
		}
		newest, _, err := LinkVersions(page[len(page)-1])
		if err != nil {
			return nil, err
		}
		if newest <= after {
			return nil, writ.Errorf(writ.CodeRosterInvalid, "the server was asked for rosters after version %d, and gives version %d", after, newest)
		}
		after = newest
	}
}
