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

// Prefix shortens a text to the complete characters in its first limit bytes. It also drops invalid bytes of a text
// that it shortens. A text within the limit is returned unchanged.
func Prefix(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
