// Package terminal reads user input and writes the output of commands. It handles output formats, errors, progress and
// questions to the user. It must not know the meaning of the data.
//
// Only data goes to standard output. Progress, questions and errors go to standard error. Without a terminal on
// standard error, or with NO_COLOR or CI=true, all output is plain lines. Control characters in untrusted text are
// replaced. In CI jobs, output is changed so that the CI system does not execute it as a command.
package terminal

import (
	"context"
	"io"
	"os"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"

	"writ/internal/hidden"
)

// Terminal holds the input and output of one command.
type Terminal struct {
	reader
	Notices

	Out    io.Writer // data
	Format Format
	// Columns is the width of Out. It is 0 for a file or pipe, where lines are unlimited.
	Columns int

	interactive bool
	screen      bool // Out is a terminal
}

// New returns the terminal of a process. environ has the form of os.Environ.
func New(in, out, err *os.File, environ []string) *Terminal {
	w := colorprofile.NewWriter(err, environ)
	ci := variable(environ, "CI")
	t := &Terminal{reader: reader{in, context.Background()}, Notices: Notices{Err: w}, Out: out, Format: Table}
	t.interactive = ci != "true" && ci != "1" && term.IsTerminal(in.Fd()) && term.IsTerminal(err.Fd())
	t.screen = term.IsTerminal(out.Fd())
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

// Interactive reports whether a user can see the output and answer questions.
func (t *Terminal) Interactive() bool { return t.interactive }

// Widths of running text: the default without a terminal, and the limits with one.
const (
	usualWidth = 80
	widestPage = 120
	narrowest  = 40
)

// PageWidth returns the maximum width of running text.
func (t *Terminal) PageWidth() int {
	if t.Columns == 0 {
		return usualWidth
	}
	return min(max(t.Columns, narrowest), widestPage)
}

// Plain returns a copy of t without colours.
func (t *Terminal) Plain() *Terminal {
	plain := *t
	plain.painted = false
	return &plain
}

// Clean makes s safe to show on one line. It replaces control characters, which could control the terminal, and escapes
// invisible and bidirectional characters, as in `\u202e`. Tabs and line ends become spaces.
func Clean(s string) string { return clean(s, false) }

// CleanLines works like Clean, but keeps line ends.
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
