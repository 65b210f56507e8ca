package journal

import (
	"slices"
	"sync"

	"writ"
)

// Limits of the events in memory: several times the events in flight on a link. Readers further behind use the store.
const (
	maxTail      = 1024
	maxTailBytes = 2 << 20 // encoded size
)

// tail holds the newest events, so that followers need not read them from the store.
type tail struct {
	mu     sync.Mutex
	events []writ.EncodedEvent // consecutive, oldest first
	bytes  int
	grown  chan struct{} // closed and replaced when events are added
}

func newTail() *tail { return &tail{grown: make(chan struct{})} }

// add appends the events of a commit.
func (t *tail) add(events []writ.EncodedEvent) {
	if len(events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// If there is a gap, another process wrote the missing events.
	if n := len(t.events); n > 0 && t.events[n-1].Seq+1 != events[0].Seq {
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

// after returns at most max events after seq, and a channel that is closed when events are added. known is false if the
// tail lacks the first of them; the caller must then read the store.
func (t *tail) after(seq int64, max int) (events []writ.EncodedEvent, known bool, grown <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) == 0 || seq+1 < t.events[0].Seq {
		return nil, false, t.grown
	}
	from := min(int(seq+1-t.events[0].Seq), len(t.events))
	return slices.Clone(t.events[from:min(from+max, len(t.events))]), true, t.grown
}

// forget drops all events; the next reader uses the store.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(len(t.events))
}

// drop drops the n oldest events. The caller holds mu.
func (t *tail) drop(n int) {
	for _, e := range t.events[:n] {
		t.bytes -= len(e.JSON)
	}
	clear(t.events[:n]) // releases the events before the slice is reallocated
	t.events = t.events[n:]
}
