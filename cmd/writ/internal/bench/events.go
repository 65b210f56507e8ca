package bench

import (
	"context"
	"sync"
	"time"

	"writ"
)

// events is what a coordinator of a benchmark keeps of a datacenter's events: as little as it needs to know how far things are.
type events struct {
	connected <-chan struct{} // gets something when the supervisor is connected

	mu      sync.Mutex
	last    int64
	begun   int                          // runs that were evaluated for the first time
	ended   map[writ.RunID]writ.RunState // runs
	awaited map[writ.RunID]chan struct{} // runs that have not ended, closed when they do
	ready   map[string]bool              // nodes, by name
	changed chan struct{}                // closed and replaced when anything came
}

func newEvents() *events {
	return &events{
		ended: make(map[writ.RunID]writ.RunState), awaited: make(map[writ.RunID]chan struct{}), ready: make(map[string]bool),
		changed: make(chan struct{}),
	}
}

// LastEvent implements link.EventSink.
func (e *events) LastEvent(context.Context, writ.DatacenterID, string) (int64, time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last, time.Time{}, nil
}

// StoreEvents implements link.EventSink.
func (e *events) StoreEvents(_ context.Context, _ writ.DatacenterID, all []writ.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range all {
		if one.Seq <= e.last {
			continue
		}
		e.last = one.Seq
		switch {
		case one.Run != nil && one.Run.State == writ.RunRunning:
			e.begun++
		case one.Run != nil && one.Run.State.Ended():
			e.ended[one.Run.ID] = one.Run.State
			if waits := e.awaited[one.Run.ID]; waits != nil {
				close(waits)
				delete(e.awaited, one.Run.ID)
			}
		case one.Node != nil:
			e.ready[one.Node.Name] = one.Node.Liveness == writ.LivenessReady
		}
	}
	close(e.changed)
	e.changed = make(chan struct{})
	return nil
}

// await waits until events are so. is is called with the lock held.
func (e *events) await(ctx context.Context, is func(e *events) bool) error {
	for {
		e.mu.Lock()
		so, changed := is(e), e.changed
		e.mu.Unlock()
		if so {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end waits until a run has ended, and wakes nobody else for it. One at a time may wait for a run.
func (e *events) end(ctx context.Context, run writ.RunID) (writ.RunState, error) {
	e.mu.Lock()
	state := e.ended[run]
	if state != "" {
		e.mu.Unlock()
		return state, nil
	}
	waits := make(chan struct{})
	e.awaited[run] = waits
	e.mu.Unlock()
	select {
	case <-waits:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended[run], nil
}
