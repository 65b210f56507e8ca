package client

import (
	"encoding/json"

	"writ"
)

// PageSize is the number of items requested per page, which is the API's maximum.
const PageSize = 500

// maxPages limits the pages of a list, to a million items. A coordinator could otherwise fill the memory of a command
// with an endless list.
const maxPages = 2000

// MostListed is the maximum number of items of a list.
const MostListed = maxPages * PageSize

// maxListBytes limits the text of a list: one page of a hostile coordinator may have 64 MiB.
const maxListBytes = 1 << 30

// All reads all pages of a list. Pages before the last may be empty, for example if their nodes were removed in the
// meantime. The error is TOO_LARGE if the list has too many pages or bytes.
func All[T any](page func(cursor string) (items []T, next string, err error)) ([]T, error) {
	return allWithin(maxListBytes, page)
}

func allWithin[T any](size int, page func(cursor string) (items []T, next string, err error)) ([]T, error) {
	all, cursor := []T{}, ""
	for range maxPages {
		items, next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		if size -= sizeOf(items); size < 0 {
			return nil, writ.Errorf(writ.CodeTooLarge, "the coordinator returns a list that is too large").
				WithHint("%s", hintOfLargeList)
		}
		all = append(all, items...)
		if next == "" {
			return all, nil
		}
		cursor = next
	}
	return nil, writ.Errorf(writ.CodeTooLarge, "the list does not end after %d pages", maxPages).
		WithHint("%s", hintOfLargeList)
}

const hintOfLargeList = "select fewer items with the flags of the command, or use another coordinator with --server"

// sizeOf returns the size of a page as JSON, in bytes.
func sizeOf[T any](items []T) int {
	text, err := json.Marshal(items)
	if err != nil {
		return 0 // not possible: the items were decoded from JSON
	}
	return len(text)
}
