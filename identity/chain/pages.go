package chain

import "writ"

// PageSize is the size of a page of links, in bytes. A page ends with the link that reaches this size, so it has at
// most 900 KiB. A smaller page is the last one.
const PageSize = 64 << 10

// maxPath limits the links that a client reads from an unverified server, in bytes.
const maxPath = 64 << 20

// IsLastPage reports whether a page of a server is the last one.
func IsLastPage(page [][]byte) bool {
	size := 0
	for _, link := range page {
		size += len(link)
	}
	return size < PageSize
}

// CollectPages reads all pages of links after a version. `read` returns one page. Each page must end with a newer
// version than the page before; the caller verifies signatures.
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
			return nil, writ.Errorf(writ.CodeTooLarge, "the server returned more than %d bytes of rosters", maxPath)
		}
		newest, _, err := Versions(page[len(page)-1])
		if err != nil {
			return nil, err
		}
		if newest <= after {
			return nil, writ.Errorf(writ.CodeRosterInvalid,
				"the server was asked for rosters after version %d, and returned version %d", after, newest)
		}
		after = newest
	}
}
