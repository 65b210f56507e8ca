package planview

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"writ/cmd/writ/internal/terminal"
)

// planWriter collects the lines of a plan.
type planWriter struct {
	*terminal.Terminal
	*View
	wide bool
	b    strings.Builder
}

// take returns the text written since the last call.
func (t *planWriter) take() string {
	defer t.b.Reset()
	return t.b.String()
}

func (t *planWriter) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n", args...) }

// maxLines limits a value in a line, in characters.
const maxLines = 120

func (t *planWriter) short(v any) string {
	text := terminal.Clean(t.seen().Describe(v))
	if utf8.RuneCountInString(text) > maxLines && !t.wide {
		text = string([]rune(text)[:maxLines]) + "…"
	}
	return text
}
