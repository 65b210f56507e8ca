package link

import (
	"context"
	"sync"
)

// frameOverhead is the size of a waiting frame without its bytes.
const frameOverhead = 64

// backlog holds the undecoded event frames of one session. Its memory is bounded: put waits for room, and a backlog that is
// paused discards frames instead, so that requests and answers still pass.
type backlog struct {
	intake *intake
	filled chan struct{} // signals that a frame was added
	freed  chan struct{} // signals room, or a pause

	mu      sync.Mutex
	frames  []waitingFrame
	bytes   int
	paused  bool
	dropped bool // frames are missing: the session must end, and the next one begins behind the last stored event
}

// waitingFrame is an undecoded list of events.
type waitingFrame struct {
	events   []byte
	admitted bool // by the intake; the only frame of a backlog needs no admission
}

func (f waitingFrame) size() int { return len(f.events) + frameOverhead }

func newBacklog(i *intake) *backlog {
	return &backlog{intake: i, filled: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// put adds a frame. It waits until there is room.
func (b *backlog) put(ctx context.Context, events []byte) error {
	for !b.offer(waitingFrame{events: events}) {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	notify(b.filled)
	return nil
}

// offer adds or discards a frame. It returns false if the frame must wait.
func (b *backlog) offer(f waitingFrame) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped {
		return true
	}
	if len(b.frames) > 0 {
		f.admitted = b.bytes+f.size() <= maxWaiting && b.intake.admit(f.size())
		if !f.admitted {
			b.dropped = b.paused
			return b.dropped
		}
	}
	b.frames = append(b.frames, f)
	b.bytes += f.size()
	return true
}

// next waits for frames and returns the oldest ones, of together at most max bytes if there are several. They count until
// remove.
func (b *backlog) next(ctx context.Context, max int) (frames []waitingFrame, bytes int, err error) {
	for {
		if frames, bytes = b.oldest(max); len(frames) > 0 {
			return frames, bytes, nil
		}
		select {
		case <-b.filled:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func (b *backlog) oldest(max int) (frames []waitingFrame, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.frames {
		if len(frames) > 0 && bytes+f.size() > max {
			break
		}
		frames = append(frames, f)
		bytes += f.size()
	}
	return frames, bytes
}

// remove removes the n oldest frames. It reports whether frames are missing behind the last one.
func (b *backlog) remove(n int) (incomplete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.frames[:n] {
		b.bytes -= f.size()
		if f.admitted {
			b.intake.release(f.size())
		}
	}
	b.frames = append([]waitingFrame(nil), b.frames[n:]...)
	notify(b.freed)
	return b.dropped && len(b.frames) == 0
}

// close releases the memory of all frames.
func (b *backlog) close() { b.remove(len(b.frames)) }

// pause sets whether frames without room are discarded.
func (b *backlog) pause(paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = paused
	notify(b.freed)
}

// notify leaves a signal in a channel with room for one.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
