package ledger

import (
	"context"
	"iter"
)

// Limits of pages and lists.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// Page requests a page of a list.
type Page struct {
	Limit  int    // 0 means DefaultLimit; at most MaxLimit
	Cursor string // Next of the previous page, "" for the first page
}

// List is a page of a list. It may have fewer items than the page's limit although more pages follow, if the items are
// large. Items that are added or removed between two pages never cause a duplicate or an omission of other items.
type List[T any] struct {
	Items []T
	Next  string // cursor of the next page, "" on the last page
}

// All iterates over the selected items, page by page. If the list returns an error, All yields it and ends.
func All[F, T any](
	ctx context.Context, list func(context.Context, F, Page) (List[T], error), filter F,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page := (Page{Limit: MaxLimit}); ; {
			some, err := list(ctx, filter, page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range some.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Cursor = some.Next; page.Cursor == "" {
				return
			}
		}
	}
}
