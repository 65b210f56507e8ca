// Package markup writes HTML from trees of Go functions that are named after elements and attributes. Its output is
// safe for any text: it escapes each text and value, and replaces an address on another site. It cannot write inline
// scripts, styles or foreign HTML. It is independent of the pages that use it.
package markup

import (
	"strings"

	"writ/internal/hidden"
)

// Node is an element, an attribute, a text, or a group of these. A nil Node renders as the empty string.
type Node interface {
	// attribute writes the node if it is an attribute; content writes it if it is not.
	attribute(b *strings.Builder)
	content(b *strings.Builder)
}

// HTML is rendered HTML. Only Render creates it, so it is safe to use as a node.
type HTML struct{ text string }

// Render renders a node.
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

// Group is several nodes. Attributes in a group belong to the enclosing element.
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

// text is a text that is escaped when it is written.
type text string

func (text) attribute(*strings.Builder)   {}
func (t text) content(b *strings.Builder) { escape(b, string(t)) }

// Text is a text, which is always escaped.
func Text[S ~string](s S) Node { return text(s) }

// escape writes a text or value. It escapes the special characters of HTML, and characters that hide or reorder text.
func escape(b *strings.Builder, s string) { _, _ = escaper.WriteString(b, hidden.EscapeText(s)) }

// escaper escapes the special characters of HTML.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// attribute is an HTML attribute. If flag is set, it has no value.
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

// element has attributes and content. If end is set, it has attributes only, followed by end.
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

// If returns n if condition holds, otherwise nil. Use When if n is expensive, or must not be built if condition is
// false.
func If(condition bool, n Node) Node {
	if !condition {
		return nil
	}
	return n
}

// When builds a node only if condition holds.
func When(condition bool, node func() Node) Node {
	if !condition {
		return nil
	}
	return node()
}

// With builds a node from a text, or returns nil for "".
func With[S ~string](s S, node func(s S) Node) Node {
	if s == "" {
		return nil
	}
	return node(s)
}

// Each builds a node from each item of a list.
func Each[T any](list []T, node func(T) Node) Group {
	all := make(Group, len(list))
	for i, one := range list {
		all[i] = node(one)
	}
	return all
}
