package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/runner/queue"
)

// node is the node of most cases.
const node = writ.NodeID("0192f6c2-0000-7000-8000-000000000001")

// guard limits a wait for an event. Implementations need a fraction of it.
const guard = 60 * time.Second

// endBy has milliseconds, which must be preserved.
var endBy = time.UnixMilli(1_900_000_000_123)

func task(id string) queue.Task {
	return queue.Task{ID: id, Body: []byte("body of " + id), EndBy: endBy}
}

func tasks(prefix string, n int) []queue.Task {
	all := make([]queue.Task, n)
	for i := range all {
		all[i] = task(fmt.Sprintf("%s-%04d", prefix, i))
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// from receives from c, or fails the test.
func from[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(guard)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// delivery is a task in its handler, which waits for the test.
type delivery struct {
	queue.Task
	ctx    context.Context
	finish func() // makes the handler return
}

// serving is a running Serve.
type serving struct {
	t      *testing.T
	came   chan delivery
	cancel context.CancelFunc
	done   chan error
}

// serve runs Serve with a handler that passes each task to the test and waits for its finish.
func serve(t *testing.T, q queue.Queue, slots int) *serving {
	t.Helper()
	s := &serving{t: t, came: make(chan delivery, 1000)}
	s.start(q, slots, func(ctx context.Context, task queue.Task) {
		release := make(chan struct{})
		s.came <- delivery{task, ctx, sync.OnceFunc(func() { close(release) })}
		<-release
	})
	return s
}

// serveAll runs Serve with a handler that passes each task to the test and returns.
func serveAll(t *testing.T, q queue.Queue, slots int) *serving {
	t.Helper()
	s := &serving{t: t, came: make(chan delivery, 1000)}
	s.start(q, slots, func(ctx context.Context, task queue.Task) { s.came <- delivery{task, ctx, func() {}} })
	return s
}

func (s *serving) start(q queue.Queue, slots int, handle queue.Handler) {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- q.Serve(ctx, node, slots, handle) }()
	s.t.Cleanup(func() {
		cancel()
		s.finishAll()
	})
}

// finishAll makes handlers return until Serve has returned, so that a failed test also ends.
func (s *serving) finishAll() {
	timer := time.NewTimer(guard)
	defer timer.Stop()
	for {
		select {
		case d := <-s.came:
			d.finish()
		case err := <-s.done:
			s.done <- err
			return
		case <-timer.C:
			s.t.Error("Serve does not return")
			return
		}
	}
}

// next returns the next delivery. It fails the test if the delivery is not task(id) with its body and EndBy.
func (s *serving) next(id string) delivery {
	s.t.Helper()
	d := from(s.t, s.came, "task "+id)
	if want := task(id); d.ID != want.ID || string(d.Body) != string(want.Body) || !d.EndBy.Equal(want.EndBy) {
		d.finish()
		s.t.Fatalf("task %q %q %v came, want %q %q %v", d.ID, d.Body, d.EndBy, want.ID, want.Body, want.EndBy)
	}
	return d
}

// two returns the next two deliveries by ID. It fails the test if they are not a and b, in any order.
func (s *serving) two(a, b string) map[string]delivery {
	s.t.Helper()
	both := map[string]delivery{}
	for range 2 {
		d := from(s.t, s.came, "task "+a+" or "+b)
		both[d.ID] = d
	}
	for _, id := range []string{a, b} {
		if _, ok := both[id]; !ok {
			for _, d := range both {
				d.finish()
			}
			s.t.Fatalf("task %q did not come", id)
		}
	}
	return both
}

// nothing checks that no task was delivered.
func (s *serving) nothing() {
	s.t.Helper()
	select {
	case d := <-s.came:
		d.finish()
		s.t.Fatalf("task %q came, want none", d.ID)
	default:
	}
}

// stop ends Serve and waits for it. Handlers must have returned, or return soon.
func (s *serving) stop() {
	s.t.Helper()
	s.cancel()
	s.returned()
}

// returned waits for the end of Serve.
func (s *serving) returned() {
	s.t.Helper()
	err := from(s.t, s.done, "the end of Serve")
	s.done <- err
	if err != nil {
		s.t.Fatalf("Serve = %v", err)
	}
}

// texts returns the bodies of messages.
func texts(messages []queue.Message) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m.Body)
	}
	return all
}

// collect receives n messages. It ignores QUEUE_UNAVAILABLE in between, because the transport may be recovering.
func collect(t *testing.T, q queue.Queue, n int, streams ...queue.Stream) []queue.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	var all []queue.Message
	for len(all) < n {
		messages, err := q.Receive(ctx, guard, streams...)
		if ctx.Err() != nil {
			t.Fatalf("%d messages came, want %d: %q", len(all), n, texts(all))
		}
		if err != nil && writ.CodeOf(err) != writ.CodeQueueUnavailable {
			t.Fatal(err)
		}
		all = append(all, messages...)
	}
	return all
}

// eventually calls `do` until it succeeds, like a caller whose transport is recovering.
func eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := do()
		if err == nil {
			return
		}
		if writ.CodeOf(err) != writ.CodeQueueUnavailable || time.Since(began) > guard {
			t.Fatalf("%s: %v", what, err)
		}
		_ = sleep.For(t.Context(), 10*time.Millisecond)
	}
}
