package terminal

import (
	"strings"

	"charm.land/lipgloss/v2"

	"writ/internal/hidden"
	"writ/internal/lazyregexp"
)

// palette paints texts.
type palette struct {
	painted bool // Out shows colours
	styles  styles
}

type styles struct{ bad, hint, good, changed, dim, title lipgloss.Style }

// Tone is the meaning of a text for the reader. Paint maps it to a colour.
type Tone string

// Tones of text.
const (
	Good    Tone = "good"
	Changed Tone = "changed"
	Bad     Tone = "bad"
	Dim     Tone = "dim"
	Title   Tone = "title"
)

// Paint returns s in the colour of its tone, or unchanged if Out does not show colours. The caller must have cleaned s.
func (p *palette) Paint(tone Tone, s string) string {
	if !p.painted || s == "" {
		return s
	}
	return map[Tone]lipgloss.Style{
		Good: p.styles.good, Changed: p.styles.changed, Bad: p.styles.bad, Dim: p.styles.dim, Title: p.styles.title,
	}[tone].Render(s)
}

// safe escapes unsafe characters, but keeps colours if Out shows them.
func (p *palette) safe(text string) string {
	if !p.painted {
		return hidden.EscapeText(text)
	}
	var b strings.Builder
	last := 0
	for _, at := range colour.FindAllStringIndex(text, -1) {
		b.WriteString(hidden.EscapeText(text[last:at[0]]) + text[at[0]:at[1]])
		last = at[1]
	}
	return b.String() + hidden.EscapeText(text[last:])
}

// colour matches the escape sequences of Paint.
var colour = lazyregexp.New(`\x1b\[[0-9;]*m`)
