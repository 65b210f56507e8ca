package terminal

import (
	"iter"
	"strings"

	"charm.land/lipgloss/v2"
)

// Hanging formats paragraphs next to a label. All lines of a paragraph start at column indent. Lines have at most width
// columns; 0 means unlimited.
func Hanging(label string, indent, width int, paragraphs ...string) string {
	var b strings.Builder
	start := Clean(label)
	for _, paragraph := range paragraphs {
		lines := []string{Clean(paragraph)}
		if width > 0 {
			lines = WrapWords(strings.FieldsSeq(lines[0]), max(width-indent, leastIn))
		}
		for _, line := range lines {
			b.WriteString(start + strings.Repeat(" ", max(indent-lipgloss.Width(start), 0)) + line + "\n")
			start = ""
		}
	}
	return b.String()
}

// WrapWords joins words into lines of at most width columns. A longer word gets its own line.
func WrapWords(words iter.Seq[string], width int) (lines []string) {
	var line string
	for word := range words {
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
