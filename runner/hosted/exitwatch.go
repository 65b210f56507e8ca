package hosted

import (
	"context"
	"log/slog"
	"sync"

	"writ"
	"writ/internal/wake"
	"writ/sal"
)

// ExitWatch waits until the processes that serve resources exit, with one goroutine per process. The keeper reacts to
// an exit immediately, not at its next scan. The driver decides when to restart a process: it backs off if processes
// exit repeatedly.
type ExitWatch struct {
	log *slog.Logger

	ctx  context.Context // for all goroutines
	stop context.CancelFunc
	wg   sync.WaitGroup
	Wake wake.Signal // holds a token while dead is not empty

	mu      sync.Mutex
	watched map[writ.ResourceID]bool // resources with a goroutine
	dead    map[writ.ResourceID]sal.Served
	// postponed holds exits that the keeper could not handle, because a job held the resource. After that job, Watch
	// reports them again.
	postponed map[writ.ResourceID]bool
}

// NewExitWatch returns an ExitWatch without resources. Call Close to stop it.
func NewExitWatch(log *slog.Logger) *ExitWatch {
	w := &ExitWatch{
		log: log, Wake: wake.New(), watched: make(map[writ.ResourceID]bool),
		dead: make(map[writ.ResourceID]sal.Served), postponed: make(map[writ.ResourceID]bool),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Close stops all goroutines and waits for them. Calls of Watch after Close are ignored.
func (w *ExitWatch) Close() {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.wg.Wait()
}

// Watch starts to wait for the exit of the process that serves a resource, unless it is watched already. It is called
// after each scan of the resource and after each job on it. Resources without a process are ignored.
func (w *ExitWatch) Watch(d sal.Driver, resource writ.ResourceID) {
	served, ok := d.(sal.Served)
	if !ok || !w.begin(served, resource) {
		return
	}
	p, err := served.Process(w.ctx, resource)
	if err != nil {
		w.log.WarnContext(w.ctx, "watch the process of a resource", "resource", resource.String(), "err", err)
	}
	if err != nil || p == nil {
		w.end(resource)
		w.wg.Done()
		return
	}
	go func() {
		defer w.wg.Done()
		defer p.Close()
		err := p.Wait(w.ctx)
		w.end(resource)
		if err == nil {
			w.report(served, resource)
		}
	}()
}

// begin reserves the only goroutine of a resource and adds it to wg. It returns false if the resource already has a
// goroutine, or if Close was called. It also reports a postponed exit of the resource.
func (w *ExitWatch) begin(d sal.Served, resource writ.ResourceID) bool {
	w.mu.Lock()
	postponed := w.postponed[resource]
	delete(w.postponed, resource)
	free := w.ctx.Err() == nil && !w.watched[resource]
	if free {
		w.watched[resource] = true
		w.wg.Add(1)
	}
	w.mu.Unlock()
	if postponed {
		w.report(d, resource)
	}
	return free
}

// end allows a new goroutine for a resource.
func (w *ExitWatch) end(resource writ.ResourceID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watched, resource)
}

// report queues an exit for the keeper.
func (w *ExitWatch) report(d sal.Served, resource writ.ResourceID) {
	w.mu.Lock()
	w.dead[resource] = d
	w.mu.Unlock()
	w.Wake.Raise()
}

// Postpone holds an exit back until the job on the resource has ended.
func (w *ExitWatch) Postpone(resource writ.ResourceID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.postponed[resource] = true
}

// Take returns the exits reported since the last call.
func (w *ExitWatch) Take() map[writ.ResourceID]sal.Served {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := w.dead
	w.dead = make(map[writ.ResourceID]sal.Served)
	return dead
}
