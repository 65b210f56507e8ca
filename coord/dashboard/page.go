package dashboard

import (
	. "writ/coord/dashboard/markup"
)

// page is the result of a view: a title, a body, and the parts that the body shows and that have live updates.
type page struct {
	Title    string
	Nav      string // selected entry of the navigation
	Body     body
	Redirect string // address of a redirect instead of a page, or ""

	parts  []part
	bare   bool   // visible to strangers, so it reveals nothing about the cluster
	reader Reader // set when the page is written
	notice string // warning for operators, or ""
	live   string // address of the live updates, or ""
}

// everything reports whether the reader reads all projects, nodes and queues. A page has no link to pages that its
// reader may not open.
func (p *page) everything() bool { return p.reader.All }

// body is the content of a page between its header and its footer.
type body interface{ html(p *page) Node }

// part is a section of a page with live updates: the element with this id contains the pieces in order.
type part struct {
	ID       string
	OfLedger bool // it changes with the ledger only
	pieces   []piece
}

// piece is an element with the attribute data-key. Its HTML depends only on its data, never on the time of day: pieces
// are compared to detect changes.
type piece struct {
	key  string
	html HTML
}

// part renders a part inside the element that holds it.
func (p *page) part(id string) Node {
	for _, part := range p.parts {
		if part.ID == id {
			return Group{ID(id), Each(part.pieces, func(p piece) Node { return p.html })}
		}
	}
	panic("the page has no part " + id) // every page is rendered in tests, which catch this
}

// liveUpdates is the attribute with the address of the live updates.
func (p *page) liveUpdates() Node { return If(p.live != "", Data("live", p.live)) }

// keyed is the data of a piece.
type keyed interface {
	Key() string
	html() Node
}

// key marks an element with the key of its piece.
func key(of keyed) Node { return Data("key", of.Key()) }

// add adds a part with a piece for each item.
func add[T keyed](p *page, part part, shown ...T) {
	for _, s := range shown {
		part.pieces = append(part.pieces, piece{s.Key(), Render(s.html())})
	}
	p.parts = append(p.parts, part)
}
