package journal

import (
	"slices"
	"sync"

	"writ"
)

// Bounds of the events that are kept in memory: several times what a link has on its way. Whoever is further behind reads the journal.
const (
	maxTail      = 1024
	maxTailBytes = 2 << 20 // as the journal has them
)

// tail keeps the newest events, so that those who follow need not read what was written a moment ago.
type tail struct {
	mu     sync.Mutex
	events []writ.EncodedEvent // consecutive, the oldest first
	bytes  int
	grown  chan struct{} // closed and replaced when there are more
}

func newTail() *tail { return &tail{grown: make(chan struct{})} }

// add takes the events of a commit.
func (t *tail) add(events []writ.EncodedEvent) {
	if len(events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.events); n > 0 && t.events[n-1].Seq+1 != events[0].Seq { // somebody else wrote what is between
		t.drop(n)
	}
	t.events = append(t.events, events...)
	for _, e := range events {
		t.bytes += len(e.JSON)
	}
	for len(t.events) > maxTail || t.bytes > maxTailBytes {
		t.drop(1)
	}
	close(t.grown)
	t.grown = make(chan struct{})
}

// after returns at most max events after a number, and a channel that is closed when there are more. It does not know them if the first of
// them is not here any more; then the journal has to be asked.
func (t *tail) after(seq int64, max int) (events []writ.EncodedEvent, known bool, grown <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) == 0 || seq+1 < t.events[0].Seq {
		return nil, false, t.grown
	}
	from := min(int(seq+1-t.events[0].Seq), len(t.events))
	return slices.Clone(t.events[from:min(from+max, len(t.events))]), true, t.grown
}

// forget makes the next who reads ask the journal.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(len(t.events))
}

// drop forgets the n oldest events. The caller holds the lock.
func (t *tail) drop(n int) {
	for _, e := range t.events[:n] {
		t.bytes -= len(e.JSON)
	}
	clear(t.events[:n]) // what they point to is not kept for as long as the list is not moved
	t.events = t.events[n:]
}
