package dashboard

import (
	"net/url"
	. "writ/coord/dashboard/markup"
)

// pager links to the first and the next page of a list.
type pager struct {
	First string // "" on the first page
	Next  string // "" on the last page
	What  string // "older", "more"
}

// Key is constant: the part has one piece.
func (pager) Key() string { return "pager" }

func pagerOf(own *url.URL, next, what string) pager {
	p := pager{What: what}
	if own.Query().Get(cursorParam) != "" {
		p.First = with(own)
	}
	if next != "" {
		p.Next = with(own, cursorParam, next)
	}
	return p
}

func (p pager) html() Node { return between(p.First, p.Next, p.What, key(p)) }
