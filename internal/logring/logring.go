// Package logring keeps the last lines of a log in a file of fixed size. A Ring writes them. Read returns them, even
// during writes and after a crash. The package does not interpret the lines.
package logring

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"writ/internal/wake"

	"golang.org/x/sys/unix"

	"writ"
)

const (
	// Lines is the capacity of a ring. Each line has a slot of slotSize bytes, so a full ring has 1 MiB.
	Lines = 1024
	// MaxText is the maximum length of a line's text, in bytes. Longer texts are truncated.
	MaxText = 850
	// maxWord limits the other strings of a line, in bytes.
	maxWord = 40
	// maxWaiting limits the lines that wait for the disk. Further lines are dropped, because a slow disk must not block
	// the logging code.
	maxWaiting = 512
	// syncEvery limits how long a line is only in the page cache, and thus the loss after a power failure.
	syncEvery = time.Second
)

// Line is a log line.
type Line struct {
	Time  time.Time `json:"time"`
	Boot  string    `json:"boot,omitempty"` // identifies the boot of the machine
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

// clean returns the line truncated to fit into a slot.
func (l Line) clean() Line {
	l.Time = l.Time.UTC()
	l.Boot, l.Level, l.Text = cut(l.Boot, maxWord), cut(l.Level, maxWord), cut(l.Text, MaxText)
	return l
}

// cut truncates a text to at most `most` bytes of valid UTF-8.
func cut(text string, most int) string {
	const more = " …"
	if len(text) > most {
		end := most - len(more)
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + more
	}
	return strings.ToValidUTF8(text, "?")
}

// Ring collects lines from its creation, and writes them to its file while Run is running.
type Ring struct {
	wake wake.Signal // holds a token if lines wait

	mu      sync.Mutex
	waiting []Line
	lost    int // lines dropped since the last line in waiting
}

// New returns a ring. Lines wait until Run is called.
func New() *Ring { return &Ring{wake: wake.New()} }

// Add adds a line. It never blocks.
func (r *Ring) Add(l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxWaiting {
		r.lost++
		return
	}
	if r.lost > 0 {
		r.waiting = append(r.waiting,
			Line{l.Time, l.Boot, "warn", fmt.Sprintf("%d lines are lost here: the disk was too slow", r.lost)})
		r.lost = 0
	}
	r.waiting = append(r.waiting, l.clean())
	r.wake.Raise()
}

// take returns the waiting lines.
func (r *Ring) take() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.waiting
	r.waiting = nil
	return lines
}

// Run writes lines to a file until ctx ends, and then the lines that still wait. A file may have only one writer. The
// error means that the file cannot be opened. Lines that cannot be written are lost.
func (r *Ring) Run(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("open a log that no other process writes: %w", err)
	}
	last, err := Read(path)
	if err != nil {
		return err
	}
	next := int64(1)
	if len(last) > 0 {
		next = last[len(last)-1].Number + 1
	}
	var sync <-chan time.Time // time of the next sync; nil if all is synced
	for {
		ended := false
		select {
		case <-r.wake:
		case <-sync:
			_ = file.Sync() // an error could only be logged here
			sync = nil
			continue
		case <-ctx.Done():
			ended = true
		}
		for _, l := range r.take() {
			if write(file, next, l) == nil {
				next++
			}
		}
		if ended {
			_ = file.Sync()
			return nil
		}
		if sync == nil {
			sync = time.After(syncEvery)
		}
	}
}

// Boot returns the kernel's boot id, or a random id for this process if the system does not provide it.
var Boot = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return writ.NewUUID()
	}
	return strings.TrimSpace(string(text))
})
