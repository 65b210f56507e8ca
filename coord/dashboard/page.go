package dashboard

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/internal/hidden"
)

// page is what a view made of a request.
type page struct {
	Title  string
	Nav    string // which entry of the navigation it stands under
	Parts  []part
	Notice string // what operators should do soon, "" for nothing
	Live   string // where its news come from, "" if it has none
	// Everything says that the reader sees all projects, nodes and queues. A page has no link to what its reader may not see.
	Everything bool
	Reader     string    // who has logged in, "" if nobody has
	Until      time.Time // when the login ends

	body      body
	bare      bool   // strangers see it: it says nothing of the cluster
	elsewhere string // where to look instead, "" if here
}

// body is what a page shows between its header and its footer.
type body interface{ html(p *page) Node }

// part is a place of a page that is kept up to date: the element with this id holds the pieces in this order.
type part struct {
	id       string
	ofLedger bool // it changes with the ledger only
	pieces   []piece
}

// piece is an element with the attribute data-key. Its HTML follows from what it shows alone, never from the time of day: pieces are
// compared to find out what is new.
type piece struct {
	key  string
	html HTML
}

// part returns the id of a part and what is in it. The body of a page asks for parts by name, inside the elements that hold them.
func (p *page) part(id string) Node {
	for _, part := range p.Parts {
		if part.id == id {
			return Group{ID(id), Each(part.pieces, func(p piece) Node { return p.html })}
		}
	}
	panic("the page has no part " + id) // a page without it is one that no test has seen
}

// live says where the news of a page come from.
func (p *page) live() Node { return If(p.Live != "", Data("live", p.Live)) }

// keyed is what a piece shows.
type keyed interface {
	Key() string
	html() Node
}

// add adds a part with a piece for each thing that it shows.
func add[T keyed](p *page, part part, shown ...T) {
	for _, s := range shown {
		part.pieces = append(part.pieces, piece{s.Key(), Render(s.html())})
	}
	p.Parts = append(p.Parts, part)
}

// decided is the last decision about something in words, "" if there is none: "cordon by alice: the disk is failing".
func decided(all []writ.Decision) string {
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	text := fmt.Sprintf("%s by %s at %s", last.Decision, last.Signer, last.Time.UTC().Format(time.RFC3339))
	if last.Reason != "" {
		text += ": " + last.Reason
	}
	return hidden.Escape(text)
}

// afterParam is the parameter of a stream that says which event the page it belongs to has seen already.
const afterParam = "after"

// liveURL is where the news of a page come from.
func liveURL(own *url.URL, newest int64) string {
	q := own.Query()
	q.Set(afterParam, strconv.FormatInt(newest, 10))
	return "/live" + own.EscapedPath() + "?" + q.Encode()
}

// with returns the address of the same page with some parameters changed; "" removes one. Every change leads to the first page of lists.
func with(own *url.URL, changes ...string) string {
	q := own.Query()
	q.Del(cursorParam)
	q.Del(afterParam)
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			q.Del(changes[i])
		} else {
			q.Set(changes[i], changes[i+1])
		}
	}
	path := strings.TrimPrefix(own.EscapedPath(), "/live")
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

const cursorParam = "cursor"

// pager leads from one page of a list to others.
type pager struct {
	First string // "" if this is the first
	Next  string // "" if this is the last
	What  string // "older", "more"
}

// Key of the only piece of its part.
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
