// Package terminal is the other end of the command line: a person or a pipe. It knows the forms in which data is printed, how errors
// and progress are shown, and whether somebody is there who can be asked. It must not know what the data means.
//
// The rules: data goes to standard output and nothing else does; progress, questions and errors go to standard error. Where standard
// error is no terminal, or NO_COLOR or CI=true is set, everything is plain lines. Text that strangers may have written is shown
// without control characters, and in CI jobs without the beginnings of commands.
package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"

	"writ/cmd/writ/internal/redact"
	"writ/internal/hidden"
)

// Terminal is where one command reads and writes.
type Terminal struct {
	In     *os.File
	Out    io.Writer // data
	Err    io.Writer // progress and errors
	Format Format
	Quiet  bool // no progress; errors are shown all the same
	// Columns is the width of Out, or 0 for a file or pipe, where lines have no limit.
	Columns int
	// Until ends each read: a question and the standard input have no other end when a person interrupts the command.
	Until context.Context

	interactive bool
	painted     bool // Out shows colours
	styles      styles
}

type styles struct{ bad, hint, good, changed, dim, title lipgloss.Style }

// New returns the terminal of a process. environ is as os.Environ gives it.
func New(in, out, err *os.File, environ []string) *Terminal {
	w := colorprofile.NewWriter(err, environ)
	ci := variable(environ, "CI")
	t := &Terminal{In: in, Out: out, Err: w, Format: Table, Until: context.Background()}
	t.interactive = ci != "true" && ci != "1" && term.IsTerminal(in.Fd()) && term.IsTerminal(err.Fd())
	if columns, _, err := term.GetSize(out.Fd()); err == nil {
		t.Columns = columns
	}
	if !t.interactive || variable(environ, "NO_COLOR") != "" {
		w.Profile = colorprofile.NoTTY
	}
	if readsCommands(environ) {
		t.Out, t.Err = &harmed{to: out}, &harmed{to: w}
	}
	t.painted = t.interactive && colorprofile.Detect(out, environ) >= colorprofile.ANSI
	t.styles = styles{
		bad:     lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
		hint:    lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan),
		good:    lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Green),
		changed: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Yellow),
		dim:     lipgloss.NewStyle().Faint(true),
		title:   lipgloss.NewStyle().Bold(true),
	}
	return t
}

func variable(environ []string, name string) string {
	for _, e := range environ {
		if n, value, _ := strings.Cut(e, "="); n == name {
			return value
		}
	}
	return ""
}

// Interactive reports whether a person is there who watches and can be asked.
func (t *Terminal) Interactive() bool { return t.interactive }

// The width of running text: the default without a terminal, and the limits with one.
const (
	usualWidth = 80
	widestPage = 120
	narrowest  = 40
)

// PageWidth returns how wide running text may be.
func (t *Terminal) PageWidth() int {
	if t.Columns == 0 {
		return usualWidth
	}
	return min(max(t.Columns, narrowest), widestPage)
}

// Note shows a line of progress, unless Quiet.
func (t *Terminal) Note(format string, args ...any) { t.progress("", format, args...) }

// Done shows a line of progress that says what was achieved.
func (t *Terminal) Done(format string, args ...any) {
	t.progress(t.styles.good.Render("✓")+" ", format, args...)
}

// Bad shows a line of progress that says what did not work out; it is not the error of the command.
func (t *Terminal) Bad(format string, args ...any) {
	t.progress(t.styles.bad.Render("✗")+" ", format, args...)
}

func (t *Terminal) progress(mark, format string, args ...any) {
	if !t.Quiet {
		fmt.Fprintf(t.Err, "%s%s\n", mark, CleanLines(redact.Text(fmt.Sprintf(format, args...))))
	}
}

// Tone is what a piece of data means to a person, for Paint.
type Tone string

// The tones.
const (
	Good    Tone = "good"
	Changed Tone = "changed"
	Bad     Tone = "bad"
	Dim     Tone = "dim"
	Title   Tone = "title"
)

// Paint returns a piece of data in the colour of its tone, or as it is where data is not shown in colours. It is clean already.
func (t *Terminal) Paint(tone Tone, s string) string {
	if !t.painted || s == "" {
		return s
	}
	return map[Tone]lipgloss.Style{Good: t.styles.good, Changed: t.styles.changed, Bad: t.styles.bad, Dim: t.styles.dim, Title: t.styles.title}[tone].Render(s)
}

// Plain returns the same terminal without colours, for text that goes elsewhere.
func (t *Terminal) Plain() *Terminal {
	plain := *t
	plain.painted = false
	return &plain
}

// Warn shows what may become a problem, Quiet or not.
func (t *Terminal) Warn(format string, args ...any) {
	fmt.Fprintf(t.Err, "%s %s\n", t.styles.bad.Render("warning:"), CleanLines(redact.Text(fmt.Sprintf(format, args...))))
}

// safe escapes the unsafe characters of a text, except colours where they are shown.
func (t *Terminal) safe(text string) string {
	if !t.painted {
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

// colour matches the sequences of Paint.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Clean returns s without control characters, which could take over the terminal that shows it, and with characters that are not seen or turn
// the direction of text written out, `\u202e`. Tabs become spaces; so do ends of lines.
func Clean(s string) string { return clean(s, false) }

// CleanLines is Clean for text of several lines.
func CleanLines(s string) string { return clean(s, true) }

func clean(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines:
			return r
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return '\uFFFD'
		}
		return r
	}, hidden.Escape(s))
}
