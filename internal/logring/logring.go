// Package logring keeps the last lines of a log in a file of fixed size: a Ring writes them, Read returns them, also while they are written and after
// a crash. It must not know what the lines are about.
package logring

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"writ"
)

const (
	// Lines is how many lines a ring has, each in a slot of slotSize bytes. A ring that is full has 1 MiB.
	Lines = 1024
	// MaxText is where the text of a line is cut, in bytes.
	MaxText = 850
	// maxWord bounds the other words of a line.
	maxWord = 40
	// maxWaiting is how many lines may wait for the disk. More are lost: a disk that hangs must not hold up who logs.
	maxWaiting = 512
	// syncEvery is how long a line may be in the memory of the kernel only: what a loss of power costs.
	syncEvery = time.Second
)

// Line is a line of a log.
type Line struct {
	Time  time.Time `json:"time"`
	Boot  string    `json:"boot,omitempty"` // of the machine, as the writer of the line calls it
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

// clean returns the line as it fits into a slot.
func (l Line) clean() Line {
	l.Time = l.Time.UTC()
	l.Boot, l.Level, l.Text = cut(l.Boot, maxWord), cut(l.Level, maxWord), cut(l.Text, MaxText)
	return l
}

// cut returns a text of at most so many bytes, and of proper UTF-8.
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

// Ring takes lines, from the moment when it is made, and writes them to its file while Run serves.
type Ring struct {
	wake chan struct{} // holds one if lines wait

	mu      sync.Mutex
	waiting []Line
	lost    int // lines for which there was no room since the last one that waits
}

// New returns a ring. What is added waits for Run.
func New() *Ring { return &Ring{wake: make(chan struct{}, 1)} }

// Add adds a line. It waits for nothing.
func (r *Ring) Add(l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxWaiting {
		r.lost++
		return
	}
	if r.lost > 0 {
		r.waiting = append(r.waiting, Line{l.Time, l.Boot, "warn", fmt.Sprintf("%d lines are lost here: more came than could be written", r.lost)})
		r.lost = 0
	}
	r.waiting = append(r.waiting, l.clean())
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns the lines that wait.
func (r *Ring) take() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.waiting
	r.waiting = nil
	return lines
}

// Run writes lines to a file until ctx ends, and then those that wait. A file has one writer at a time. An error says that there is no file; lines
// that a disk does not take are lost.
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
	var sync <-chan time.Time // when what was written goes to the disk; nil if all is there
	for {
		ended := false
		select {
		case <-r.wake:
		case <-sync:
			_ = file.Sync() // an error could be told to this log only
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

// Boot returns the kernel's id of this start of the machine, or one for this process where there is none.
var Boot = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return writ.NewUUID()
	}
	return strings.TrimSpace(string(text))
})
