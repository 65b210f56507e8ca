package runview

import (
	"context"
	"time"
)

const (
	// firstLook is the silence before the first check. It is short enough that the user sees a reason within 8 s,
	// including the request.
	firstLook = 4 * time.Second
	// longestPause limits the pause between two checks, which doubles with each check.
	longestPause = time.Minute
)

// silence schedules the checks of a command that watches a run. A check is due only while the run has no events. The
// zero value is ready to use.
type silence struct{ looks int }

// pause returns the time without events until the next check.
func (s *silence) pause() time.Duration {
	if s.looks > 4 {
		return longestPause
	}
	return min(firstLook<<s.looks, longestPause)
}

// heard resets the schedule after an event.
func (s *silence) heard() { s.looks = 0 }

// looked doubles the next pause.
func (s *silence) looked() { s.looks++ }

// Lookout calls a function while a run has no events.
type Lookout struct {
	news chan struct{} // has a token after an event
	look func(context.Context)
}

// NewLookout returns a lookout that calls look.
func NewLookout(look func(context.Context)) *Lookout {
	return &Lookout{make(chan struct{}, 1), look}
}

// Heard reports an event. It does not block.
func (l *Lookout) Heard() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Start runs the lookout in a goroutine. The returned function ends it and waits for its end.
func (l *Lookout) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	return func() { cancel(); <-done }
}

// run calls look when it is due, until ctx ends.
func (l *Lookout) run(ctx context.Context) {
	var s silence
	due := time.NewTimer(s.pause())
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.news:
			s.heard()
		case <-due.C:
			l.look(ctx)
			s.looked()
		}
		due.Reset(s.pause())
	}
}
