package cli

import (
	"fmt"
	"strings"

	"writ/cmd/writ/internal/terminal"
	"writ/internal/clip"
	"writ/internal/lazyregexp"
)

// MostMarkdown limits a plan in a comment, in bytes. GitHub accepts 65,536 characters, including the text around it.
const MostMarkdown = 60_000

// mostTicks limits consecutive backticks in a code block, because each one makes the fences longer.
var (
	mostTicks = strings.Repeat("`", 64)
	manyTicks = lazyregexp.New("`{64,}")
)

// Fenced returns a code block whose text cannot close it.
func Fenced(language, text string) string {
	text = manyTicks.ReplaceAllString(text, mostTicks)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + fence + "\n"
}

// Shorten cuts a text to at most `most` bytes for a comment, between two lines if possible, and adds a note.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const note = "\n… %s left out: it is too long for a comment\n"
	kept := clip.Prefix(text, most-len(note)-20) // room for the number in the note
	if end := strings.LastIndexByte(kept, '\n'); end > 0 {
		kept = kept[:end]
	}
	return kept + fmt.Sprintf(note, Count(strings.Count(text[len(kept):], "\n"), "line"))
}

// ErrorMarkdown formats an error below a title, for a comment or a summary.
func ErrorMarkdown(title string, err error) string {
	return fmt.Sprintf("### %s\n\n%s", title, Fenced("", Shorten(terminal.ErrorText(err), MostMarkdown)))
}
