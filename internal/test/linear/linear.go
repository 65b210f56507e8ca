// Package linear tests concurrent clients of one store that is closed and reopened in between. It records all requests
// and responses, and checks whether some sequential order of them explains the responses. Without such an order, the
// store has confirmed something twice or lost something. The package does not know the content of the requests.
package linear

import (
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// Model describes how the store responds to sequential requests.
type Model[S comparable, In, Out any] struct {
	Init S
	// Step reports whether out is a valid response to in, and returns the next state.
	Step func(s S, in In, out Out) (S, bool)
	// Maybe returns the next state if the request `in` was executed and its response was lost. The checker also
	// considers that `in` was not executed.
	Maybe func(s S, in In) S
	// Key separates independent parts of the store; nil if there is only one.
	Key func(in In) string
}

// History is the record of requests and responses. The zero value is ready to use. It may be used concurrently.
type History[In, Out any] struct {
	clock atomic.Int64 // numbers starts and ends of requests: only their order matters

	mu  sync.Mutex
	all []porcupine.Operation
}

// lost marks a lost response.
type lost struct{}

// Ask sends a request, records the response and returns it. An error of `ask` means that the outcome is unknown: the
// checker accepts both that the request was executed and that it was not executed.
func (h *History[In, Out]) Ask(client int, in In, ask func() (Out, error)) (Out, error) {
	call := h.clock.Add(1)
	out, err := ask()
	op := porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.clock.Add(1)}
	if err != nil {
		op.Output, op.Return = lost{}, math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, op)
	return out, err
}

// Count returns the numbers of received and of lost responses.
func (h *History[In, Out]) Count() (known, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.all {
		if op.Output == any(lost{}) {
			unknown++
		}
	}
	return len(h.all) - unknown, unknown
}

// checkWithin limits the search for an order.
const checkWithin = time.Minute

// Legal reports whether some order of the requests explains every response. The error means that the search took too
// long.
func Legal[S comparable, In, Out any](m Model[S, In, Out], h *History[In, Out]) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.Init} },
		Step: func(state, input, output any) []any {
			s, in := state.(S), input.(In)
			if output == any(lost{}) {
				return []any{s, m.Maybe(s, in)}
			}
			if next, ok := m.Step(s, in, output.(Out)); ok {
				return []any{next}
			}
			return nil
		},
	}
	if m.Key != nil {
		model.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := make(map[string][]porcupine.Operation)
			for _, op := range history {
				key := m.Key(op.Input.(In))
				byKey[key] = append(byKey[key], op)
			}
			return slices.Collect(maps.Values(byKey))
		}
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), h.all, checkWithin) {
	case porcupine.Ok:
		return true, nil
	case porcupine.Illegal:
		return false, nil
	default:
		return false, errors.New("the search for an order took too long")
	}
}

// Clients runs n clients concurrently and waits for them. Each has its own random source, derived from seed.
func Clients(n int, seed uint64, client func(id int, random *rand.Rand)) {
	var group sync.WaitGroup
	for id := range n {
		group.Go(func() { client(id, rand.New(rand.NewPCG(seed, uint64(id)))) })
	}
	group.Wait()
}

// Store is a store that is closed during requests and reopened.
type Store[T io.Closer] struct {
	Open func() (T, error)

	mu     sync.Mutex
	opened bool
	now    T
}

// Now returns the store. It opens the store if it is closed.
func (s *Store[T]) Now() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return s.now, nil
	}
	var err error
	s.now, err = s.Open()
	s.opened = err == nil
	return s.now, err
}

// Dying closes the store while `do` uses it.
func (s *Store[T]) Dying(do func()) error {
	died := make(chan error, 1)
	go func() { died <- s.Die() }()
	do()
	return <-died
}

// Die closes the store, even while it is in use.
func (s *Store[T]) Die() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return nil
	}
	s.opened = false
	return s.now.Close()
}

// Barrier has a separate barrier for each place. The first Of callers of Wait at a place block until all of them have
// arrived.
type Barrier struct {
	Of int // number of callers

	mu     sync.Mutex
	places map[string]*place
}

type place struct {
	came int
	all  chan struct{}
}

// Wait blocks until enough callers have reached the place.
func (b *Barrier) Wait(at string) {
	b.mu.Lock()
	if b.places == nil {
		b.places = make(map[string]*place)
	}
	p := b.places[at]
	if p == nil {
		p = &place{all: make(chan struct{})}
		b.places[at] = p
	}
	if p.came++; p.came == b.Of {
		close(p.all)
	}
	b.mu.Unlock()
	<-p.all
}
