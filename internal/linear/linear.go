// Package linear is for tests of what several clients ask of one store at the same time, with stores that die in between. It records who
// asked what and was answered what, and looks whether the answers could have been given one after the other: if no order of them fits the
// model, something was promised to two, or forgotten. It knows nothing of what is asked.
package linear

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// Model says how a thing answers whoever asks one after the other.
type Model[S comparable, In, Out any] struct {
	Init S
	// Step reports whether out may be the answer to in, and what the thing is then.
	Step func(s S, in In, out Out) (S, bool)
	// Maybe says what the thing is if in took place and its answer was lost. That it did not take place is always possible, too.
	Maybe func(s S, in In) S
	// Key tells things apart that have nothing to do with each other; nil if there is only one.
	Key func(in In) string
}

// History is what was asked and answered. The zero value is empty and ready; it may be used by many clients at once.
type History[In, Out any] struct {
	clock atomic.Int64 // counts what begins and ends: the order matters, not the time

	mu  sync.Mutex
	all []porcupine.Operation
}

// lost is the answer that nobody got.
type lost struct{}

// Ask asks, notes the answer, and returns it. An error of ask says that nobody knows whether it took place: later answers may fit either.
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

// Count returns how many answers there are, and how many were lost.
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

// checkWithin bounds the search for an order.
const checkWithin = time.Minute

// Legal reports whether some order of what was asked explains every answer. It is an error if that was not found out in time.
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
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		}
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), h.all, checkWithin) {
	case porcupine.Ok:
		return true, nil
	case porcupine.Illegal:
		return false, nil
	default:
		return false, errors.New("no order was found in time, and it was not found out that there is none")
	}
}

// Clients runs n clients side by side, each with random numbers of its own that follow from the seed, and waits for them.
func Clients(n int, seed uint64, client func(id int, random *rand.Rand)) {
	var group sync.WaitGroup
	for id := range n {
		group.Go(func() { client(id, rand.New(rand.NewPCG(seed, uint64(id)))) })
	}
	group.Wait()
}

// Store is a store that dies: it is closed in the middle of what is asked of it, and opened again.
type Store[T io.Closer] struct {
	Open func() (T, error)

	mu     sync.Mutex
	opened bool
	now    T
}

// Now returns the store, opened.
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

// Dying closes the store while do uses it.
func (s *Store[T]) Dying(do func()) error {
	died := make(chan error, 1)
	go func() { died <- s.Die() }()
	do()
	return <-died
}

// Die closes the store under whoever uses it.
func (s *Store[T]) Die() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return nil
	}
	s.opened = false
	return s.now.Close()
}

// Meeting lets the first so many who come to a place wait for each other: each has looked there before one of them goes on.
type Meeting struct {
	Of int // how many

	mu     sync.Mutex
	places map[string]*place
}

type place struct {
	came int
	all  chan struct{}
}

// Wait waits at a place.
func (m *Meeting) Wait(at string) {
	m.mu.Lock()
	if m.places == nil {
		m.places = make(map[string]*place)
	}
	p := m.places[at]
	if p == nil {
		p = &place{all: make(chan struct{})}
		m.places[at] = p
	}
	if p.came++; p.came == m.Of {
		close(p.all)
	}
	m.mu.Unlock()
	<-p.all
}
