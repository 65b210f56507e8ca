// Package markup writes HTML from trees of Go functions that are named after elements and attributes. What it writes is safe with any text: it escapes
// each text and each value, and an address that leads to another site becomes none. It has no way to write a script, a style or HTML of others.
// It knows nothing of the pages that are made of it.
package markup

import (
	"strings"

	"writ/internal/hidden"
)

// Node is an element, an attribute, a text, or several of these. Nil is nothing.
type Node interface {
	// attribute writes the node if it is an attribute, content if it is none.
	attribute(b *strings.Builder)
	content(b *strings.Builder)
}

// HTML is what nodes have written. Only Render makes it, so that it can be a node again.
type HTML struct{ text string }

// Render writes a node.
func Render(n Node) HTML {
	var b strings.Builder
	if n != nil {
		n.content(&b)
	}
	return HTML{b.String()}
}

func (h HTML) String() string             { return h.text }
func (HTML) attribute(*strings.Builder)   {}
func (h HTML) content(b *strings.Builder) { b.WriteString(h.text) }

// Group is several nodes, also attributes of the element that it stands in.
type Group []Node

func (g Group) attribute(b *strings.Builder) {
	for _, n := range g {
		if n != nil {
			n.attribute(b)
		}
	}
}

func (g Group) content(b *strings.Builder) {
	for _, n := range g {
		if n != nil {
			n.content(b)
		}
	}
}

// text is a text as people read it.
type text string

func (text) attribute(*strings.Builder)   {}
func (t text) content(b *strings.Builder) { escape(b, string(t)) }

// Text is a text. It never becomes anything else.
func Text[S ~string](s S) Node { return text(s) }

// escape writes a text or value with the characters of HTML, and those that hide or turn text, escaped.
func escape(b *strings.Builder, s string) { _, _ = escaper.WriteString(b, hidden.EscapeText(s)) }

// escaper escapes the characters of HTML.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// attribute has a value, or is a flag.
type attribute struct {
	name, value string
	flag        bool
}

func (a attribute) attribute(b *strings.Builder) {
	b.WriteByte(' ')
	b.WriteString(a.name)
	if a.flag {
		return
	}
	b.WriteString(`="`)
	escape(b, a.value)
	b.WriteByte('"')
}

func (attribute) content(*strings.Builder) {}

// element has attributes and content, or attributes only and then this end.
type element struct {
	name, end string
	children  Group
}

func (element) attribute(*strings.Builder) {}

func (e element) content(b *strings.Builder) {
	b.WriteByte('<')
	b.WriteString(e.name)
	e.children.attribute(b)
	if e.end != "" {
		b.WriteString(e.end)
		return
	}
	b.WriteByte('>')
	e.children.content(b)
	b.WriteString("</")
	b.WriteString(e.name)
	b.WriteByte('>')
}

// If is a node, or nothing. The node is made in any case: see When.
func If(condition bool, n Node) Node {
	if !condition {
		return nil
	}
	return n
}

// When makes a node only if a condition holds.
func When(condition bool, node func() Node) Node {
	if !condition {
		return nil
	}
	return node()
}

// With makes a node of a text, and nothing of an empty one.
func With[S ~string](s S, node func(s S) Node) Node {
	if s == "" {
		return nil
	}
	return node(s)
}

// Each makes a node of each thing of a list.
func Each[T any](list []T, node func(T) Node) Group {
	all := make(Group, len(list))
	for i, one := range list {
		all[i] = node(one)
	}
	return all
}
