package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// processes runs what depends on each other in one process: each begins when those before it are ready, and they are stopped in
// reverse order, so that nothing is missing to anything while it ends.
type processes struct {
	mu      sync.Mutex
	running []*process
	ended   chan struct{} // closed when one ended by itself
	once    sync.Once
}

type process struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // once done
}

func newProcesses() *processes { return &processes{ended: make(chan struct{})} }

// start starts a process and returns when it is ready. run must call ready once, serve until its context ends, and return nil then.
func (p *processes) start(ctx context.Context, name string, run func(ctx context.Context, ready func()) error) error {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &process{name: name, stop: stop, done: make(chan struct{})}
	p.mu.Lock()
	p.running = append(p.running, one)
	p.mu.Unlock()
	ready := make(chan struct{})
	go func() {
		one.err = run(own, sync.OnceFunc(func() { close(ready) }))
		close(one.done)
		if own.Err() == nil {
			p.once.Do(func() { close(p.ended) })
		}
	}()
	select {
	case <-ready:
		return nil
	case <-one.done:
		if one.err == nil {
			return fmt.Errorf("start %s: it ended at once", name)
		}
		return one.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wait returns when ctx ends or a process ended by itself.
func (p *processes) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.ended:
	}
}

// stop stops all processes, the last one first, and returns what went wrong with any.
func (p *processes) stop() error {
	p.mu.Lock()
	running := p.running
	p.running = nil
	p.mu.Unlock()
	var failed error
	for i := len(running) - 1; i >= 0; i-- {
		one := running[i]
		one.stop()
		<-one.done
		if one.err != nil && !errors.Is(one.err, context.Canceled) {
			failed = errors.Join(fmt.Errorf("%s: %w", one.name, one.err), failed)
		}
	}
	return failed
}
