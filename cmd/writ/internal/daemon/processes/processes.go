// Package processes starts parts of a program one after another, and stops them in reverse order. A part that ends early
// stops all.
package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Group runs dependent processes inside this one. Each starts when the earlier ones are ready. They stop in reverse
// order, so that no process loses a dependency while it ends. Peers are independent and stop at the same time, each
// within its whole grace.
type Group struct {
	mu      sync.Mutex
	running [][]*process       // the processes of one element are peers
	peers   bool               // the last element accepts more peers
	end     context.CancelFunc // of the shared context: called when a process ends by itself
}

type process struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // valid when done is closed
}

// New returns an empty group, and a context that ends with ctx or when a process ends by itself. Use this context to
// wait for processes.
func New(ctx context.Context) (*Group, context.Context) {
	ctx, end := context.WithCancel(ctx)
	return &Group{end: end}, ctx
}

// Start starts a process and returns when it is ready. run must call `ready` once, serve until its context ends, and
// then return nil.
func (p *Group) Start(ctx context.Context, name string, run func(ctx context.Context, ready func()) error) error {
	return p.launch(ctx, name, false, run)
}

// StartPeer starts a peer of the processes that earlier calls of StartPeer started since the last call of Start.
func (p *Group) StartPeer(
	ctx context.Context, name string, run func(ctx context.Context, ready func()) error,
) error {
	return p.launch(ctx, name, true, run)
}

func (p *Group) launch(
	ctx context.Context, name string, peer bool, run func(ctx context.Context, ready func()) error,
) error {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &process{name: name, stop: stop, done: make(chan struct{})}
	p.mu.Lock()
	if last := len(p.running) - 1; peer && p.peers {
		p.running[last] = append(p.running[last], one)
	} else {
		p.running = append(p.running, []*process{one})
	}
	p.peers = peer
	p.mu.Unlock()
	ready := make(chan struct{})
	go func() {
		one.err = run(own, sync.OnceFunc(func() { close(ready) }))
		close(one.done)
		if own.Err() == nil {
			p.end()
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

// Stop stops all processes, the last one first, and returns their errors.
func (p *Group) Stop() error {
	p.end()
	p.mu.Lock()
	running := p.running
	p.running, p.peers = nil, false
	p.mu.Unlock()
	var failed error
	for _, peers := range slices.Backward(running) {
		for _, one := range peers {
			one.stop()
		}
		for _, one := range peers {
			<-one.done
			if one.err != nil && !errors.Is(one.err, context.Canceled) {
				failed = errors.Join(fmt.Errorf("%s: %w", one.name, one.err), failed)
			}
		}
	}
	return failed
}

// Service is a part that serves until its context ends.
type Service interface {
	Run(ctx context.Context) error
}

// Build returns a function for Start that builds a service and runs it. The service calls `ready` when it serves.
func Build[S Service](build func(ready func()) (S, error)) func(ctx context.Context, ready func()) error {
	return func(ctx context.Context, ready func()) error {
		service, err := build(ready)
		if err != nil {
			return err
		}
		return service.Run(ctx)
	}
}
