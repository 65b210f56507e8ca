package services

import (
	"fmt"
	"strings"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/lazyregexp"
)

// lostText is the warning before a part of a log that may not continue the previous part.
const lostText = "text may be missing here: it was deleted before it was read, or it is from a container that was replaced"

// logPrinter prints the log of one resource.
type logPrinter struct {
	*cli.Env
	what   string // "container/web"
	follow bool

	state  string // of the resource, as last seen
	middle bool   // the printed text ends within a line
}

// print shows a part of the log.
func (r *logPrinter) print(p logPart) error {
	before := r.state
	r.state = p.State
	switch {
	case r.Structured() && !r.follow:
		return r.Print(terminal.View{Data: p})
	case r.Structured():
		return r.PrintLine(p)
	}
	if p.Lost {
		r.Warn(lostText)
	}
	if err := r.PrintText(plainLog(p.Text)); err != nil {
		return err
	}
	if p.Text != "" {
		r.middle = !strings.HasSuffix(p.Text, "\n")
	}
	if r.follow && p.State != before && (before != "" || p.State == "stopped") {
		if r.middle {
			fmt.Fprintln(r.Err)
			r.middle = false
		}
		r.Note("… %s is %s", r.what, p.State)
	}
	return nil
}

// escapes matches the escape sequences for colours and cursor movement.
var escapes = lazyregexp.New(`\x1b(\[[0-9;?]*[ -/]*[@-~]|[()][0-9A-B]|[=>78cM])`)

// plainLog removes the control characters from a log that would change the state of a terminal.
func plainLog(text string) string {
	text = escapes.ReplaceAllString(text, "")
	return terminal.CleanLines(strings.ReplaceAll(text, "\r", ""))
}
