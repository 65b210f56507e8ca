package services

import (
	"fmt"
	"strings"
	"sync"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// maxHeld limits the bytes of an unfinished line that waits for its end. A longer line is printed in pieces.
const maxHeld = 64 << 10

// namedPrinter prints the logs of several resources, each line with the name of its resource. A followed log is printed
// at once, line by line. Otherwise flush prints the logs one after the other.
type namedPrinter struct {
	*cli.Env
	follow bool

	mu    sync.Mutex
	width int         // of the names
	logs  []*namedLog // for flush
}

// setNames sets the width of the names.
func (p *namedPrinter) setNames(names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.width = max(p.width, len(name))
	}
}

// of returns the log of a resource. Only one goroutine may print to it.
func (p *namedPrinter) of(name string) *namedLog {
	p.setNames([]string{name})
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &namedLog{printer: p, name: name}
	if !p.follow {
		p.logs = append(p.logs, l)
	}
	return l
}

// flush prints the logs that are not followed.
func (p *namedPrinter) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Structured() {
		page := struct {
			Items []logPart `json:"items"`
		}{[]logPart{}}
		for _, l := range p.logs {
			page.Items = append(page.Items, l.parts...)
		}
		return p.Print(terminal.View{Data: page})
	}
	for _, l := range p.logs {
		if l.lost {
			p.Warn("%s: %s", l.name, lostText)
		}
		if err := p.PrintText(l.text.String()); err != nil {
			return err
		}
	}
	return nil
}

// note prints a sentence for people.
func (p *namedPrinter) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Note(format, args...)
}

// namedLog is the log of one of several resources.
type namedLog struct {
	printer *namedPrinter
	name    string // "container/web"

	state string // of the resource, as last seen
	held  string // unfinished line

	// Parts and lines of a log that is not followed.
	parts []logPart
	text  strings.Builder
	lost  bool
}

// print shows the complete lines of a part of the log.
func (l *namedLog) print(part logPart) error {
	p := l.printer
	p.mu.Lock()
	defer p.mu.Unlock()
	part.Resource = l.name
	switch {
	case p.Structured() && p.follow:
		return p.PrintLine(part)
	case p.Structured():
		l.parts = append(l.parts, part)
		return nil
	case part.Lost && p.follow:
		p.Warn("%s: %s", l.name, lostText)
	}
	l.lost = l.lost || part.Lost
	before := l.state
	l.state = part.State
	if err := l.lines(part.Text); err != nil {
		return err
	}
	if p.follow && part.State != before && (before != "" || part.State == "stopped") {
		if err := l.endLine(); err != nil {
			return err
		}
		p.Note("… %s is %s", l.name, part.State)
	}
	return nil
}

// finish prints an unfinished line.
func (l *namedLog) finish() error {
	l.printer.mu.Lock()
	defer l.printer.mu.Unlock()
	return l.endLine()
}

// lines prints complete lines and holds the rest. The caller holds the lock of the printer.
func (l *namedLog) lines(text string) error {
	for l.held += text; ; {
		line, rest, ended := strings.Cut(l.held, "\n")
		if !ended {
			break
		}
		l.held = rest
		if err := l.line(line); err != nil {
			return err
		}
	}
	if len(l.held) > maxHeld {
		return l.endLine()
	}
	return nil
}

// endLine prints the unfinished line, if any.
func (l *namedLog) endLine() error {
	if l.held == "" {
		return nil
	}
	line := l.held
	l.held = ""
	return l.line(line)
}

func (l *namedLog) line(line string) error {
	text := fmt.Sprintf("%-*s  %s\n", l.printer.width, l.name, plainLog(line))
	if l.printer.follow {
		return l.printer.PrintText(text)
	}
	l.text.WriteString(text)
	return nil
}
