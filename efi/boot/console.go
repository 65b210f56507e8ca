package boot

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/efi/progress"
)

// waiting is how many lines a console may be behind. A serial line that nobody reads can block who writes to it; lines are lost then, and the
// machine starts.
const waiting = 512

// consoles show lines on several devices, each at its own pace.
type consoles struct {
	since func() time.Duration     // since the machine was started
	told  func(r progress.Report)  // is told each stage; it may be nil
	kept  func(stage, text string) // keeps what is shown of stages; it may be nil

	mu    sync.Mutex
	lines []chan string
	wrote sync.WaitGroup
}

// add shows lines on one more device.
func (c *consoles) add(device io.Writer) {
	lines := make(chan string, waiting)
	c.mu.Lock()
	c.lines = append(c.lines, lines)
	c.mu.Unlock()
	c.wrote.Go(func() {
		for line := range lines {
			_, _ = io.WriteString(device, line) // whoever could be told reads this device
		}
	})
}

// line shows a line.
func (c *consoles) line(text string) {
	c.send(clean(text) + "\r\n")
}

// send gives a text to each console that is not too far behind.
func (c *consoles) send(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lines := range c.lines {
		select {
		case lines <- text:
		default:
		}
	}
}

// page shows lines that belong together, apart from all others.
func (c *consoles) page(lines ...string) {
	text := "\r\n"
	for _, line := range lines {
		for _, part := range fold(clean(line), columns-pageIndent) {
			text += strings.TrimRight(strings.Repeat(" ", pageIndent)+part, " ") + "\r\n"
		}
	}
	c.send(text + "\r\n")
}

// stage says what was done, and when, and reports it.
func (c *consoles) stage(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.show(name, text)
	c.report(progress.Report{Stage: name, Text: text})
}

// show says something of a stage without reporting it.
func (c *consoles) show(name, text string) {
	if c.kept != nil {
		c.kept(name, text)
	}
	c.line(fmt.Sprintf("writ [%7.2f] %-8s %s", c.since().Seconds(), name, text))
}

// report has a report told to the boot server, if there is one.
func (c *consoles) report(r progress.Report) {
	if c.told != nil {
		c.told(r)
	}
}

// fail says what does not work, and what to do. Of several errors that were joined it says each.
func (c *consoles) fail(name string, err error) {
	for _, one := range each(err) {
		c.showFailure(name, one)
		c.report(failure(name, one))
	}
}

// each returns the errors that were joined.
func each(err error) (all []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		all = append(all, each(one)...)
	}
	return all
}

// showFailure shows what does not work, and what to do, without reporting it.
func (c *consoles) showFailure(name string, err error) {
	c.show(name, "error: "+err.Error())
	if hint := hintOf(err); hint != "" {
		c.show(name, "hint: "+hint)
	}
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*writ.Error](err); ok {
		return e.Hint
	}
	return ""
}

// close ends the consoles, and waits a moment for what they have to show.
func (c *consoles) close(within time.Duration) {
	c.mu.Lock()
	for _, lines := range c.lines {
		close(lines)
	}
	c.lines = nil
	c.mu.Unlock()
	shown := make(chan struct{})
	go func() { c.wrote.Wait(); close(shown) }()
	select {
	case <-shown:
	case <-time.After(within):
	}
}

// clean takes out what could command a terminal. The kernel's letters for a screen have no ellipsis.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
}

// lineWriter calls a function with each line that is written. Long lines are cut into several.
type lineWriter struct {
	show func(string)
	rest []byte
}

// longest is where a line is cut.
const longest = 4 << 10

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		end := strings.IndexByte(string(w.rest), '\n')
		switch {
		case end >= 0:
			w.show(string(w.rest[:end]))
			w.rest = w.rest[end+1:]
		case len(w.rest) >= longest:
			w.show(string(w.rest[:longest]))
			w.rest = w.rest[longest:]
		default:
			return len(b), nil
		}
	}
}
