package hidden

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// IsUnsafe reports whether output must escape a character: hidden characters and control characters, except tabs and
// LF.
func IsUnsafe(r rune) bool { return Is(r) || IsControl(r) }

// EscapeText returns s with each unsafe character written as an escape, `\u202e`. CR stays unescaped, because it can
// end lines of scripts.
func EscapeText(s string) string {
	return escape(s, func(r rune) bool { return IsUnsafe(r) && r != '\r' })
}

// Escape returns s with each hidden character written as an escape, `\u202e`. Control characters stay unescaped.
func Escape(s string) string { return escape(s, Is) }

func escape(s string, unsafe func(rune) bool) string {
	if strings.IndexFunc(s, unsafe) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// EscapeJSON escapes each unsafe character in the strings of a JSON text, so the value stays the same. Package json
// does not escape DEL, the control characters above it and most hidden characters. The whitespace between tokens stays.
func EscapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unsafeInJSON) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !unsafeInJSON(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func unsafeInJSON(r rune) bool { return r >= 0x7f && unicode.IsControl(r) || Is(r) }

// Writer returns a writer that applies escape and writes to w. Each Write must contain whole characters, as slog does.
func Writer(w io.Writer, escape func([]byte) []byte) io.Writer { return &writer{w, escape} }

type writer struct {
	to     io.Writer
	escape func([]byte) []byte
}

func (w *writer) Write(p []byte) (int, error) {
	if _, err := w.to.Write(w.escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
