package help

import (
	"strings"

	"charm.land/lipgloss/v2"

	"writ/cmd/writ/internal/terminal"
)

// wrap breaks a text between words into lines of at most width columns. A longer word has a line of its own.
func wrap(text string, width int) []string { return terminal.WrapWords(strings.FieldsSeq(text), width) }

// wrapExample breaks a line for a shell so that it can still be copied: the lines of a command end in a backslash, and
// each line of a comment begins with #. It breaks at spaces outside of quotes only.
func wrapExample(line string, width int) []string {
	if lipgloss.Width(line) <= width {
		return []string{line}
	}
	const indent, more = "    ", ` \`
	if comment, is := strings.CutPrefix(line, "#"); is {
		return wrapComment(comment, width)
	}
	var lines []string
	current := ""
	for _, word := range withValues(shellWords(line)) {
		if current != "" && lipgloss.Width(current+" "+word+more) > width {
			lines = append(lines, current+more)
			current = indent + word
			continue
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, current)
}

// wrapComment breaks the comment of a line. All lines have its indentation.
func wrapComment(comment string, width int) []string {
	text := strings.TrimLeft(comment, " ")
	start := "#" + comment[:len(comment)-len(text)]
	lines := wrap(text, width-len(start))
	for i := range lines {
		lines[i] = start + lines[i]
	}
	return lines
}

// withValues joins each flag with the word after it, which may be its value.
func withValues(words []string) (joined []string) {
	for i, word := range words {
		if i > 0 && strings.HasPrefix(words[i-1], "--") && !strings.HasPrefix(word, "-") {
			joined[len(joined)-1] += " " + word
			continue
		}
		joined = append(joined, word)
	}
	return joined
}

// shellWords splits a line at spaces outside of quotes, and keeps the quotes.
func shellWords(line string) (words []string) {
	start, quote := 0, rune(0)
	for i, r := range line {
		switch {
		case quote == r:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == ' ':
			words = append(words, line[start:i])
			start = i + 1
		}
	}
	return append(words, line[start:])
}
