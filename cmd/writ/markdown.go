package main

import (
	"fmt"
	"regexp"
	"strings"

	"writ/cmd/writ/internal/terminal"
)

// mostMarkdown bounds a plan in a comment: GitHub takes 65,536 characters, and there is text around it.
const mostMarkdown = 60_000

// mostTicks is how many backticks in a row a block of code shows: each makes the fences around it longer.
var (
	mostTicks = strings.Repeat("`", 64)
	manyTicks = regexp.MustCompile("`{64,}")
)

// fenced makes a block of code that its text cannot end.
func fenced(language, text string) string {
	text = manyTicks.ReplaceAllString(text, mostTicks)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + fence + "\n"
}

// shorten cuts a text for a comment, between two lines if it can, and says so.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const note = "\n… %s left out: it is too long for a comment\n"
	kept := strings.ToValidUTF8(text[:most-len(note)-20], "") // and a number
	if end := strings.LastIndexByte(kept, '\n'); end > 0 {
		kept = kept[:end]
	}
	return kept + fmt.Sprintf(note, count(strings.Count(text[len(kept):], "\n"), "line"))
}

// errorMarkdown shows an error below a title, for a comment or a summary.
func errorMarkdown(title string, err error) string {
	return fmt.Sprintf("### %s\n\n%s", title, fenced("", shorten(terminal.ErrorText(err), mostMarkdown)))
}
