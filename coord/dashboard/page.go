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

// page is the result of a view.
type page struct {
	Title  string
	Nav    string // selected entry of the navigation
	Parts  []part
	Notice string // warning for operators, or ""
	Live   string // address of the live updates, or ""
	// Everything is set if the reader reads all projects, nodes and queues. A page has no link to pages that its reader
	// may not open.
	Everything bool
	Reader     string    // the logged-in person, or ""
	Until      time.Time // end of the login

	body      body
	bare      bool   // visible to strangers, so it reveals nothing about the cluster
	elsewhere string // address of a redirect, or ""
}

// body is the content of a page between its header and its footer.
type body interface{ html(p *page) Node }

// part is a section of a page with live updates: the element with this id contains the pieces in order.
type part struct {
	id       string
	ofLedger bool // it changes with the ledger only
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
	for _, part := range p.Parts {
		if part.id == id {
			return Group{ID(id), Each(part.pieces, func(p piece) Node { return p.html })}
		}
	}
	panic("the page has no part " + id) // every page is rendered in tests, which catch this
}

// live is the attribute with the address of the live updates.
func (p *page) live() Node { return If(p.Live != "", Data("live", p.Live)) }

// keyed is the data of a piece.
type keyed interface {
	Key() string
	html() Node
}

// add adds a part with a piece for each item.
func add[T keyed](p *page, part part, shown ...T) {
	for _, s := range shown {
		part.pieces = append(part.pieces, piece{s.Key(), Render(s.html())})
	}
	p.Parts = append(p.Parts, part)
}

// decided describes the last decision, for example "cordon by alice: the disk is failing"; "" if there is none.
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

// afterParam is the parameter of a stream with the newest event that its page includes.
const afterParam = "after"

// liveURL returns the address of the live updates of a page.
func liveURL(own *url.URL, newest int64) string {
	q := own.Query()
	q.Set(afterParam, strconv.FormatInt(newest, 10))
	return "/live" + own.EscapedPath() + "?" + q.Encode()
}

// with returns the address of the same page with some parameters changed; "" removes one. It always leads to the first
// page of lists.
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
