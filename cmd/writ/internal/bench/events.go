package bench

import (
	"context"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
)

// events holds the minimal state that a benchmark's coordinator derives from events.
type events struct {
	mu      sync.Mutex
	last    int64
	begun   int                          // number of runs that were evaluated at least once
	ended   map[writ.RunID]writ.RunState // final states of runs
	awaited map[writ.RunID]chan struct{} // per run in progress, a channel that is closed at its end
	nodes   map[string]writ.Node         // by name, as last reported
	changed chan struct{}                // closed and replaced after each batch of events
}

func newEvents() *events {
	return &events{
		ended: make(map[writ.RunID]writ.RunState), awaited: make(map[writ.RunID]chan struct{}), nodes: make(map[string]writ.Node),
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
		if one.Run != nil {
			e.noteRun(one.Run.ID, one.Run.State)
		}
		if one.Node != nil {
			e.nodes[one.Node.Name] = *one.Node
		}
	}
	e.wake()
	return nil
}

// noteRun records the state of a run. It is called with the lock held.
func (e *events) noteRun(id writ.RunID, state writ.RunState) {
	if state == writ.RunRunning {
		e.begun++
	}
	if state.Ended() {
		e.noteEnd(id, state)
	}
}

// noteEnd records the final state of a run. It is called with the lock held.
func (e *events) noteEnd(id writ.RunID, state writ.RunState) {
	e.ended[id] = state
	if waits := e.awaited[id]; waits != nil {
		close(waits)
		delete(e.awaited, id)
	}
}

// wake wakes the callers of await. It is called with the lock held.
func (e *events) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// add records an event of a served coordinator.
func (e *events) add(one api.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := one.Submission; s != nil && s.State == writ.SubmissionRefused {
		e.noteEnd(s.Run, "refused") // the datacenter has no such run
	}
	if one.Run != nil {
		e.noteRun(one.Run.ID, writ.RunState(one.Run.State))
	}
	if one.Node != nil {
		e.nodes[one.Node.Name] = *one.Node
	}
	e.wake()
}

// started returns the number of runs that were evaluated at least once.
func (e *events) started() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun
}

// node returns the last report about a node.
func (e *events) node(name string) writ.Node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes[name]
}

// isReady reports whether a node is ready. It is called with the lock held.
func (e *events) isReady(name string) bool { return e.nodes[name].Liveness == writ.LivenessReady }

// await waits until the function `is` returns true. It calls `is` with the lock held.
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

// end waits until a run has ended and returns its final state. Only the end of the run wakes it. A run may have only
// one waiter.
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
