package terminal

import (
	"fmt"
	"io"

	"writ/cmd/writ/internal/redact"
)

// Notices shows progress and warnings, in colour if the terminal has colours.
type Notices struct {
	palette

	Err   io.Writer // progress and errors
	Quiet bool      // suppresses progress, but not errors
}

// Note shows a progress line, unless Quiet is set.
func (n *Notices) Note(format string, args ...any) { n.progress("", format, args...) }

// Done shows a progress line for a success.
func (n *Notices) Done(format string, args ...any) {
	n.progress(n.styles.good.Render("✓")+" ", format, args...)
}

// Bad shows a progress line for a partial failure. The command may still succeed.
func (n *Notices) Bad(format string, args ...any) {
	n.progress(n.styles.bad.Render("✗")+" ", format, args...)
}

func (n *Notices) progress(mark, format string, args ...any) {
	if !n.Quiet {
		fmt.Fprintf(n.Err, "%s%s\n", mark, CleanLines(redact.Text(fmt.Sprintf(format, args...))))
	}
}

// Warn shows a warning, even if Quiet is set.
func (n *Notices) Warn(format string, args ...any) {
	fmt.Fprintf(n.Err, "%s %s\n", n.styles.bad.Render("warning:"), CleanLines(redact.Text(fmt.Sprintf(format, args...))))
}
