package health

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"writ"
	"writ/sal/catalog"
)

// State is the health of a container. A driver stores it, so that a restarted runner begins with it.
type State struct {
	Container string `json:"container"`       // ID of the container at its runtime: a replacement begins without a state
	Word      string `json:"word"`            // catalog.HealthStarting, HealthHealthy or HealthUnhealthy
	Cause     string `json:"cause,omitempty"` // the failure that made it unhealthy, or a later failure with another cause
}

// Subject is a container with a check.
type Subject struct {
	Resource  writ.ResourceID
	Container string // its ID at the runtime
	Check     Check
}

// retryPause is the pause after a probe that was impossible or interrupted. It is limited by the interval of the check.
const retryPause = time.Second

// Book holds the health of containers. Run probes them. The zero value is empty. All methods may be called at any time
// by any goroutine.
type Book struct {
	mu      sync.Mutex
	entries map[writ.ResourceID]*entry
	news    chan struct{} // holds a token if Run must compute its next probe again; nil before the first use
}

// entry is one container.
type entry struct {
	Subject
	state    State
	fault    string    // Failure.Cause of state.Cause
	began    time.Time // when its process was started, or this runner first saw it
	due      time.Time // of its next probe
	failures int       // consecutive failures, without failures during the start time
	run      int       // number of starts, to drop the results for earlier processes

	cancel context.CancelFunc // ends the probe in progress; nil if no probe runs
	ended  chan struct{}      // closed after that probe
}

// Watch adds a running container with its stored state. saved may be nil or belong to another container. If the
// container is known, Watch updates only its check.
func (b *Book) Watch(s Subject, saved *State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[s.Resource]; e != nil && e.Container == s.Container {
		e.Check = s.Check
		return
	}
	e := b.begin(s)
	if saved != nil && saved.Container == s.Container {
		e.state = *saved
		// A restarted runner must not probe all containers at the same moment.
		e.due = e.due.Add(rand.N(s.Check.Interval))
	}
}

// Began records that a process of the container was started: its health is starting again.
func (b *Book) Began(s Subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(s)
}

// Passed records that an operation has found the container healthy.
func (b *Book) Passed(s Subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[s.Resource]
	if e == nil || e.Container != s.Container {
		e = b.begin(s)
	}
	e.Check, e.due = s.Check, time.Now().Add(s.Check.Interval)
	e.pass()
}

// begin sets the entry of a container to starting. The caller holds mu.
func (b *Book) begin(s Subject) *entry {
	if b.entries == nil {
		b.entries = map[writ.ResourceID]*entry{}
	}
	e := b.entries[s.Resource]
	if e == nil {
		e = new(entry)
		b.entries[s.Resource] = e
	}
	e.Subject, e.state = s, State{Container: s.Container, Word: catalog.HealthStarting}
	e.began = time.Now()
	e.due, e.failures, e.fault = e.began, 0, ""
	e.run++
	b.notify()
	return e
}

// Forget removes a container. A probe of it may still run: see Interrupt.
func (b *Book) Forget(resource writ.ResourceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, resource)
}

// State returns the health of a container, if it is known.
func (b *Book) State(resource writ.ResourceID, container string) (s State, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[resource]
	if e == nil || e.Container != container {
		return State{}, false
	}
	return e.state, true
}

// Interrupt ends the probe of a container that is in progress, and waits for its end. Its result is dropped.
func (b *Book) Interrupt(resource writ.ResourceID) {
	b.mu.Lock()
	var ended chan struct{}
	if e := b.entries[resource]; e != nil && e.cancel != nil {
		e.cancel()
		ended = e.ended
	}
	b.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Run probes all containers until ctx ends, and returns after the last probe. It calls probe concurrently for different
// containers. If probe returns an error other than *Failure, the health is unchanged. Run calls changed after a probe
// that changed State.Word. During that call, the container may be probed again.
func (b *Book) Run(
	ctx context.Context, probe func(context.Context, Subject) error, changed func(context.Context, Subject),
) {
	b.mu.Lock()
	b.notify()
	news := b.news
	b.mu.Unlock()
	var probes sync.WaitGroup
	defer probes.Wait()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-next.C:
		}
		if ctx.Err() == nil {
			next.Reset(b.startDue(ctx, probe, changed, &probes))
		}
	}
}

// idle is the pause of Run without containers.
const idle = time.Hour

// startDue starts the probes that are due, and returns the pause before the next probe.
func (b *Book) startDue(
	ctx context.Context, probe func(context.Context, Subject) error, changed func(context.Context, Subject),
	probes *sync.WaitGroup,
) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, pause := time.Now(), idle
	for _, e := range b.entries {
		if e.cancel != nil {
			continue // its end notifies Run
		}
		if e.due.After(now) {
			pause = min(pause, e.due.Sub(now))
			continue
		}
		probing, cancel := context.WithCancel(ctx)
		e.cancel, e.ended = cancel, make(chan struct{})
		s, run, ended := e.Subject, e.run, e.ended
		probes.Go(func() {
			err := probe(probing, s)
			isChanged := b.apply(e, run, now, err, probing.Err() != nil)
			cancel()
			close(ended)
			if isChanged {
				changed(ctx, s)
			}
		})
	}
	return pause
}

// apply records the result of a probe that began at `at`, and reports whether it changed State.Word.
func (b *Book) apply(e *entry, run int, at time.Time, err error, interrupted bool) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.notify()
	e.cancel = nil
	if e.run != run {
		return false
	}
	before := e.state.Word
	failure, failed := errors.AsType[*Failure](err)
	switch {
	case interrupted || err != nil && !failed:
		e.due = time.Now().Add(min(retryPause, e.Check.Interval))
		return false
	case failed:
		e.fail(failure)
	default:
		e.pass()
	}
	pause := e.Check.Interval
	if e.state.Word == catalog.HealthStarting {
		pause = e.Check.startPause(time.Since(e.began))
	}
	e.due = at.Add(pause)
	return e.state.Word != before
}

func (e *entry) pass() {
	e.failures, e.fault = 0, ""
	e.state = State{Container: e.Container, Word: catalog.HealthHealthy}
}

func (e *entry) fail(f *Failure) {
	if e.state.Word == catalog.HealthStarting && time.Since(e.began) < e.Check.Start {
		return
	}
	if e.failures++; e.failures < e.Check.Retries && e.state.Word != catalog.HealthUnhealthy || f.Cause == e.fault {
		return
	}
	e.fault = f.Cause
	e.state = State{Container: e.Container, Word: catalog.HealthUnhealthy, Cause: f.Error()}
}

// notify makes Run compute its next probe again. The caller holds mu.
func (b *Book) notify() {
	if b.news == nil {
		b.news = make(chan struct{}, 1)
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
}
