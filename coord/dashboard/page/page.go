// Package page serves the pages of the dashboard and their live updates. A Page has a title, a body and parts; while a
// page is open, the server sends the pieces of parts that change. The package has the layout of all pages, the reader
// of a request and the addresses of pages. It reads no data of the cluster; views read it.
package page

import (
	. "writ/coord/dashboard/markup"
)

// Page is the result of a view: a title, a body, and the parts that the body shows and that have live updates.
type Page struct {
	Title    string
	Nav      string // selected entry of the navigation
	Body     body
	Redirect string // address of a redirect instead of a page, or ""

	parts  []Part
	bare   bool   // visible without a login, so it has no data of the cluster
	reader Reader // set when the page is written
	notice string // warning for operators, or ""
	live   string // address of the live updates, or ""
}

// Everything reports whether the reader reads all projects, nodes and queues. A page has no link to pages that its
// reader may not open.
func (p *Page) Everything() bool { return p.reader.All }

// body is the content of a page between its header and its footer.
type body interface{ HTML(p *Page) Node }

// Part is a section of a page with live updates: the element with this id contains the pieces in order.
type Part struct {
	ID       string
	OfLedger bool // the part changes with the ledger only
	pieces   []piece
}

// piece is an element with the attribute data-key. Its HTML depends only on its data, never on the time of day: pieces
// are compared to detect changes.
type piece struct {
	key  string
	html HTML
}

// Part renders a part inside the element that holds it.
func (p *Page) Part(id string) Node {
	for _, part := range p.parts {
		if part.ID == id {
			return Group{ID(id), Each(part.pieces, func(p piece) Node { return p.html })}
		}
	}
	panic("the page has no part " + id) // every page is rendered in tests, which catch this
}

// Live is the attribute with the address of the live updates.
func (p *Page) Live() Node { return If(p.live != "", Data("live", p.live)) }

// Row is the data of a piece.
type Row interface {
	Key() string
	HTML() Node
}

// Key marks an element with the key of its piece.
func Key(of Row) Node { return Data("key", of.Key()) }

// Add adds a part with a piece for each item.
func Add[T Row](p *Page, part Part, shown ...T) {
	for _, s := range shown {
		part.pieces = append(part.pieces, piece{s.Key(), Render(s.HTML())})
	}
	p.parts = append(p.parts, part)
}
