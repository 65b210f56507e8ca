package scripts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes a line of a text that a script chose: valid UTF-8, not too long, and nothing in it that a terminal would act on.
func printable(text string) string {
	start := clipped(text)
	clean := strings.Map(visible, strings.ToValidUTF8(start, string(utf8.RuneError)))
	if len(start) < len(text) || len(clean) > MaxLogLine { // what is shown instead is longer
		return clipped(clean) + cutOff
	}
	return clean
}

// cutOff ends a text whose rest was cut off.
const cutOff = " …"

// clipped returns the first MaxLogLine bytes of a text.
func clipped(text string) string {
	if len(text) <= MaxLogLine {
		return text
	}
	return strings.ToValidUTF8(text[:MaxLogLine], "")
}

// visible replaces what a terminal would act on.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return utf8.RuneError
	}
	return r
}

// presentable reports whether a text can be shown as it is.
func presentable(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return visible(r) != r }) < 0
}
