package scripts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"writ/internal/clip"
)

// Printable converts a text of a script to a line: valid UTF-8, limited in length, without characters that would act on
// a terminal.
func Printable(text string) string {
	start := text
	if len(text) > MaxLogLine {
		start = clip.Prefix(text, MaxLogLine)
	}
	clean := strings.Map(visible, strings.ToValidUTF8(start, string(utf8.RuneError)))
	if len(start) < len(text) || len(clean) > MaxLogLine { // the replacements are longer
		return clip.Prefix(clean, MaxLogLine) + cutOff
	}
	return clean
}

// cutOff ends a truncated text.
const cutOff = " …"

// visible replaces characters that would act on a terminal.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return utf8.RuneError
	}
	return r
}

// presentable reports whether a text can be shown unchanged and has at most `most` bytes.
func presentable(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) &&
		strings.IndexFunc(text, func(r rune) bool { return visible(r) != r }) < 0
}
