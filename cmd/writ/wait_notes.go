package main

import (
	"strings"
	"sync"

	"writ/cmd/writ/internal/terminal"
)

// waitNotes prints the reasons why a run and its calls wait. Events and the lookout give the same reasons, and a reason is printed once in a row.
// It may be used by several goroutines.
type waitNotes struct {
	term *terminal.Terminal

	mu   sync.Mutex
	told map[string]toldReason // the last reason, by call; "" is the run
	last string                // the last line on the screen, "" if it is not a reason
}

// toldReason is a reason on the screen, and the lines about its next command, if they are there.
type toldReason struct{ why, next string }

// note prints a reason, unless it was the last one of its call.
func (w *waitNotes) note(r waitReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[r.call].why != r.Why {
		w.print(r, "")
	}
}

// noteAll prints reasons with their next commands. A reason on the screen is repeated only if its command is not there, and other lines follow it.
func (w *waitNotes) noteAll(all []waitReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range all {
		if next := r.nextLines(); w.told[r.call] != (toldReason{r.Why, next}) {
			w.print(r, next)
		}
	}
}

// print prints a reason, unless it is the last line, and the lines about its command.
func (w *waitNotes) print(r waitReason, next string) {
	if line := r.line(); line != w.last {
		w.term.Note("%s", line)
		w.last = line
	}
	if next != "" {
		w.term.Note("%s", next)
		w.last = ""
	}
	if w.told == nil {
		w.told = make(map[string]toldReason)
	}
	w.told[r.call] = toldReason{r.Why, next}
}

// forget notes that a call no longer waits: a later reason is printed even if it is the same.
func (w *waitNotes) forget(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, call)
	w.last = ""
}

// otherLine notes that a line that is not a reason follows.
func (w *waitNotes) otherLine() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = ""
}

// waitReason is a reason why a run waits, or a call.
type waitReason struct {
	call string // "3 machine.create web-0", "" for the run
	reason
}

// line formats the reason for the screen.
func (r waitReason) line() string { return "… " + strings.TrimPrefix(r.call+": ", ": ") + r.Why }

// nextLines formats the command to type next. It is empty if the reason has none, or names it itself.
func (r waitReason) nextLines() string {
	if r.Next.IsZero() || r.named {
		return ""
	}
	var b strings.Builder
	writeNext(&b, "  ", r.Next.Line, r.Next.Effect())
	return strings.TrimSuffix(b.String(), "\n")
}
