package boot

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"writ/efi/progress"
)

// waiting is the length of the queue of a console, in lines. A serial line without a reader can block its writer. When
// the queue is full, further lines are dropped, so that the start continues.
const waiting = 512

// consoles writes lines to several devices, each at its own speed.
type consoles struct {
	since func() time.Duration     // since the kernel started
	told  func(r progress.Report)  // receives each report; may be nil
	kept  func(stage, text string) // records the lines of stages; may be nil

	mu    sync.Mutex
	lines []chan string
	wrote sync.WaitGroup
}

// add adds a device.
func (c *consoles) add(device io.Writer) {
	lines := make(chan string, waiting)
	c.mu.Lock()
	c.lines = append(c.lines, lines)
	c.mu.Unlock()
	c.wrote.Go(func() {
		for line := range lines {
			_, _ = io.WriteString(device, line) // a failure could only be reported on this device
		}
	})
}

// line shows a line.
func (c *consoles) line(text string) {
	c.send(clean(text) + "\r\n")
}

// send queues text for each console. Consoles whose queue is full skip it.
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

// page shows lines as one block, with an empty line before and after it.
func (c *consoles) page(lines ...string) {
	text := "\r\n"
	for _, line := range lines {
		for _, part := range fold(clean(line), columns-pageIndent) {
			text += strings.TrimRight(strings.Repeat(" ", pageIndent)+part, " ") + "\r\n"
		}
	}
	c.send(text + "\r\n")
}

// Stage shows the progress of a stage with a timestamp and reports it.
func (c *consoles) Stage(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.Show(name, text)
	c.report(progress.Report{Stage: name, Text: text})
}

// Show shows a line about a stage without reporting it.
func (c *consoles) Show(name, text string) {
	if c.kept != nil {
		c.kept(name, text)
	}
	c.line(fmt.Sprintf("writ [%7.2f] %-8s %s", c.since().Seconds(), name, text))
}

// report passes a report to told, if set.
func (c *consoles) report(r progress.Report) {
	if c.told != nil {
		c.told(r)
	}
}

// Fail shows and reports an error with its hint. Joined errors are handled one by one.
func (c *consoles) Fail(name string, err error) {
	for _, one := range progress.Flatten(err) {
		c.showFailure(name, one)
		c.report(progress.Failure(name, one))
	}
}

// showFailure shows an error and its hint without reporting it.
func (c *consoles) showFailure(name string, err error) {
	c.Show(name, "error: "+err.Error())
	if hint := progress.HintOf(err); hint != "" {
		c.Show(name, "hint: "+hint)
	}
}

// close closes the queues and waits at most the duration `within` for the devices to write the remaining lines.
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

// clean replaces control characters, which could command a terminal, and the ellipsis, which the kernel's screen font
// lacks.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
}

// lineWriter calls show for each written line. Lines longer than longest are split.
type lineWriter struct {
	show func(string)
	rest []byte
}

// longest is the maximum length of a line in bytes.
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
