package link

import (
	"context"
	"sync"

	"writ/internal/wake"
)

// frameOverhead is the size of a waiting frame without its bytes.
const frameOverhead = 64

// backlog holds the undecoded event frames of one session. Its memory is bounded: put waits for room. A paused backlog
// discards frames instead, so that requests and answers still pass.
type backlog struct {
	intake *intake
	filled wake.Signal // signals that a frame was added
	freed  wake.Signal // signals room, or a pause

	mu      sync.Mutex
	frames  []waitingFrame
	bytes   int
	paused  bool
	closed  bool
	dropped bool // frames were discarded: the session must end, and the next session resends the events
}

// waitingFrame is an undecoded list of events.
type waitingFrame struct {
	events   []byte
	admitted bool // by the intake; the first frame of an empty backlog needs no admission
}

func (f waitingFrame) size() int { return len(f.events) + frameOverhead }

// frameSize is the total size of waiting frames.
type frameSize struct{ bytes, values int }

func newBacklog(i *intake) *backlog {
	return &backlog{intake: i, filled: wake.New(), freed: wake.New()}
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
	b.filled.Raise()
	return nil
}

// offer adds or discards a frame. It returns false if the frame must wait.
func (b *backlog) offer(f waitingFrame) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped || b.closed {
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

// next waits for frames and returns the oldest frames, at most maxStored bytes but at least one frame. They occupy
// memory until remove.
func (b *backlog) next(ctx context.Context) (frames []waitingFrame, size frameSize, err error) {
	for {
		if frames, size.bytes = b.oldest(); len(frames) > 0 {
			for _, f := range frames {
				size.values += countValues(f.events)
			}
			return frames, size, nil
		}
		select {
		case <-b.filled:
		case <-ctx.Done():
			return nil, size, ctx.Err()
		}
	}
}

func (b *backlog) oldest() (frames []waitingFrame, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.frames {
		if len(frames) > 0 && bytes+f.size() > maxStored {
			break
		}
		frames = append(frames, f)
		bytes += f.size()
	}
	return frames, bytes
}

// remove removes the n oldest frames. It reports whether the backlog is empty and later frames were discarded.
func (b *backlog) remove(n int) (incomplete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(n)
	return b.dropped && len(b.frames) == 0
}

// close releases the memory of all frames. Later frames are discarded.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.release(len(b.frames))
}

// release removes the n oldest frames. The caller holds the lock.
func (b *backlog) release(n int) {
	for _, f := range b.frames[:n] {
		b.bytes -= f.size()
		if f.admitted {
			b.intake.release(f.size())
		}
	}
	b.frames = append([]waitingFrame(nil), b.frames[n:]...)
	b.freed.Raise()
}

// pause sets whether frames without room are discarded.
func (b *backlog) pause(paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = paused
	b.freed.Raise()
}
