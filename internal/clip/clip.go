// Package clip shortens texts that another process, a script or a person chose, before they are stored or shown. It
// does not escape them.
package clip

import "strings"

// mark ends a shortened text.
const mark = "…"

// Text shortens a text to the complete characters in its first limit bytes and appends "…". A text within the limit is
// returned unchanged.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return Prefix(text, limit) + mark
}

// Prefix returns the complete characters in the first limit bytes of a text, without invalid bytes.
func Prefix(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// End shortens a text to the complete characters in its last limit bytes, after "…". A text within the limit is returned
// unchanged.
func End(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return mark + strings.ToValidUTF8(text[len(text)-limit:], "")
}

// OneLine replaces line breaks by "; ", shortens a text to about `most` bytes and makes it valid UTF-8. Without the
// replacement, clients would print line breaks escaped, like other control characters.
func OneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return Text(strings.ToValidUTF8(text, "\uFFFD"), most)
}
