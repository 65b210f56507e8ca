package page

import (
	"net/url"

	. "writ/coord/dashboard/markup"
	. "writ/coord/dashboard/widget"
)

// Pager links to the first and the next page of a list.
type Pager struct {
	First string // "" on the first page
	Next  string // "" on the last page
	What  string // "older", "more"
}

// Key implements Row. It is constant, because a pager is the only piece of its part.
func (Pager) Key() string { return "pager" }

// PagerOf returns the links below a list. next is the cursor of the next page, "" on the last one.
func PagerOf(own *url.URL, next, what string) Pager {
	p := Pager{What: what}
	if own.Query().Get(CursorParam) != "" {
		p.First = Address(own)
	}
	if next != "" {
		p.Next = Address(own, CursorParam, next)
	}
	return p
}

// HTML returns the links to the first and the next page.
func (p Pager) HTML() Node { return PageLinks(p.First, p.Next, p.What, Key(p)) }
