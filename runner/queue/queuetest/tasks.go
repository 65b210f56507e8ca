package queuetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/runner/queue"
)

func tasksComeInOrder(t *testing.T, transport Transport) {
	q := transport.Open(t)
	all := tasks("t", 150)
	must(t, q.Push(t.Context(), node, all[:1]...))
	must(t, q.Push(t.Context(), node, all[1:]...))
	must(t, q.Push(t.Context(), node)) // a Push without tasks succeeds
	s := serveAll(t, transport.Open(t), 1)
	for _, want := range all {
		s.next(want.ID)
	}
}

func taskIsPushedOnce(t *testing.T, transport Transport) {
	q := transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a"), task("a")))
	other := task("a")
	other.Body = []byte("another body")
	must(t, q.Push(t.Context(), node, other, task("b")))
	s := serve(t, transport.Open(t), 2)
	both := s.two("a", "b")
	a, b := both["a"], both["b"]
	must(t, q.Push(t.Context(), node, task("a"), task("c"))) // a is in its handler
	b.finish()
	c := s.next("c")
	a.finish()
	c.finish()
	must(t, q.Push(t.Context(), node, task("d")))
	s.next("d").finish()
}

func slotsBoundTheHandlers(t *testing.T, transport Transport) {
	const slots, n = 3, 30
	q := transport.Open(t)
	must(t, q.Push(t.Context(), node, tasks("t", n)...))
	var now, most atomic.Int32
	full, came := make(chan struct{}), make(chan struct{}, n)
	s := &serving{t: t, came: make(chan delivery)}
	s.start(transport.Open(t), slots, func(context.Context, queue.Task) {
		if running := now.Add(1); running > most.Load() {
			most.Store(running)
			if running == slots {
				close(full)
			}
		}
		<-full
		now.Add(-1)
		came <- struct{}{}
	})
	for range n {
		from(t, came, "a task")
	}
	if got := most.Load(); got != slots {
		t.Errorf("%d handlers ran at once, want %d", got, slots)
	}
	s.stop()
}

func nodesHaveQueuesOfTheirOwn(t *testing.T, transport Transport) {
	q := transport.Open(t)
	must(t, q.Push(t.Context(), "0192f6c2-0000-7000-8000-000000000002", task("a")))
	must(t, q.Push(t.Context(), node, task("b")))
	missing, err := q.Missing(t.Context(), node, "a", "b")
	if err != nil || !cmp.Equal(missing, []string{"a"}) {
		t.Errorf("Missing = %q, %v; want the other node's task", missing, err)
	}
	serveAll(t, transport.Open(t), 1).next("b")
}

func panicEndsOneTask(t *testing.T, transport Transport) {
	q := transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a"), task("b")))
	s := &serving{t: t, came: make(chan delivery, 10)}
	s.start(transport.Open(t), 1, func(ctx context.Context, task queue.Task) {
		s.came <- delivery{task, ctx, func() {}}
		if task.ID == "a" {
			panic("part of the suite")
		}
	})
	s.next("a")
	s.next("b")
	s.stop()
	s.nothing()
	missing, err := q.Missing(t.Context(), node, "a", "b")
	if err != nil || !cmp.Equal(missing, []string{"a", "b"}) {
		t.Errorf("Missing = %q, %v; want both: a handler that panicked has returned", missing, err)
	}
}

func missingTellsWhatIsHeld(t *testing.T, transport Transport) {
	q := transport.Open(t)
	missing := func(want ...string) {
		t.Helper()
		got, err := q.Missing(t.Context(), node, "a", "b", "c")
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("Missing: %v %s", err, diff)
		}
	}
	missing("a", "b", "c")
	must(t, q.Push(t.Context(), node, task("a"), task("b")))
	missing("c")
	s := serve(t, transport.Open(t), 1)
	a := s.next("a")
	missing("c") // a is in its handler, b waits
	a.finish()
	b := s.next("b")
	missing("a", "c")
	b.finish()
	s.stop()
	missing("a", "b", "c")
	must(t, q.Push(t.Context(), node, task("a")))
	transport.Flush(t)
	missing("a", "b", "c")
	if got, err := q.Missing(t.Context(), node); err != nil || len(got) != 0 {
		t.Errorf("Missing without ids = %q, %v", got, err)
	}
}

func withdrawnTaskDoesNotRun(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	withdraw := func(want []string, ids ...string) {
		t.Helper()
		got, err := q.Withdraw(t.Context(), node, ids...)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("Withdraw(%q): %v %s", ids, err, diff)
		}
	}
	withdraw(nil, "a") // the task and the node are unknown
	withdraw(nil)
	must(t, q.Push(t.Context(), node, task("a"), task("b"), task("c")))
	s := serve(t, worker, 1)
	a := s.next("a")
	withdraw([]string{"b"}, "a", "b", "x") // a is in its handler, x is unknown
	transport.Kill(t, worker)              // the process that handles a
	s.cancel()
	a.finish()
	s.returned()

	again := serve(t, transport.Open(t), 1)
	a = again.next("a")
	withdraw([]string{"c"}, "a", "c", "b")
	must(t, q.Push(t.Context(), node, task("d")))
	a.finish()
	again.next("d").finish()
	again.stop()
	transport.Flush(t)
	withdraw(nil, "d")
	must(t, q.Push(t.Context(), node, task("e")))
	withdraw([]string{"e"}, "e")
}

// A task of a dead process was in a handler before it returned to the queue: only the node has its outcome.
func takenTaskIsNotWithdrawn(t *testing.T, transport Transport) {
	q, dying := transport.Open(t), transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a"), task("b"), task("c")))
	s := serve(t, dying, 2)
	both := s.two("a", "b")
	transport.Kill(t, dying)
	s.cancel()
	both["a"].finish()
	both["b"].finish()
	s.returned()

	again := serve(t, transport.Open(t), 1)
	a := again.next("a")
	got, err := q.Withdraw(t.Context(), node, "a", "b", "c") // b waits again
	if err != nil || !cmp.Equal(got, []string{"c"}) {
		t.Errorf("Withdraw = %q, %v; want c alone: handlers have seen the others", got, err)
	}
	a.finish()
	again.next("b").finish()
	again.stop()
}

func serveStopsWhenItsHandlersReturned(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a"), task("b")))
	s := serve(t, worker, 1)
	a := s.next("a")
	if a.ctx.Err() != nil {
		t.Error("the handler's context ended before the context of Serve")
	}
	s.cancel()
	from(t, a.ctx.Done(), "the end of the handler's context")
	select {
	case err := <-s.done:
		t.Fatalf("Serve = %v while a handler runs", err)
	default:
	}
	a.finish()
	s.returned()
	s.nothing()

	next := serveAll(t, transport.Open(t), 1)
	next.next("b")
	next.stop()
	next.nothing() // a was handled
}

func taskOfADeadProcessComesAgain(t *testing.T, transport Transport) {
	q, dying := transport.Open(t), transport.Open(t)
	must(t, q.Push(t.Context(), node, tasks("t", 4)...))
	s := serve(t, dying, 2)
	both := s.two("t-0000", "t-0001")
	transport.Kill(t, dying) // later actions of this process have no effect
	if missing, err := q.Missing(t.Context(), node, "t-0000", "t-0001"); err != nil || len(missing) != 0 {
		t.Errorf("Missing = %q, %v; want none: they will come again", missing, err)
	}
	s.cancel()
	both["t-0000"].finish()
	both["t-0001"].finish()
	s.returned()

	next := serveAll(t, transport.Open(t), 1)
	for _, want := range tasks("t", 4) {
		next.next(want.ID)
	}
}

func taskHandledWhileAwayIsNotHandledAgain(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a")))
	s := serve(t, worker, 1)
	a := s.next("a")
	transport.Cut(t)
	a.finish() // the transport cannot be told that a is handled
	s.stop()
	transport.Restore(t)

	again := serveAll(t, worker, 1) // the same process
	eventually(t, "Push", func() error { return q.Push(t.Context(), node, task("b")) })
	again.next("b")
	again.stop()
	again.nothing()
}

func workGoesOnAfterFlush(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	s := serve(t, worker, 2)
	must(t, q.Push(t.Context(), node, task("a")))
	a := s.next("a")
	out := queue.Stream{Node: node, Direction: queue.Out}
	must(t, worker.Send(t.Context(), out, []byte("1")))
	collect(t, q, 1, out)

	transport.Flush(t)
	must(t, worker.Send(t.Context(), out, []byte("2")))
	if diff := cmp.Diff([]string{"2"}, texts(collect(t, q, 1, out))); diff != "" {
		t.Error(diff)
	}
	must(t, q.Push(t.Context(), node, task("b")))
	s.next("b").finish()
	a.finish()
	must(t, q.Push(t.Context(), node, task("c")))
	s.next("c").finish()
	s.stop()
}

func workGoesOnAfterAbsence(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	out := queue.Stream{Node: node, Direction: queue.Out}
	s := serve(t, worker, 2)
	must(t, q.Push(t.Context(), node, task("a")))
	a := s.next("a")
	must(t, worker.Send(t.Context(), out, []byte("1")))
	first := collect(t, q, 1, out)
	must(t, worker.Send(t.Context(), out, []byte("2")))

	transport.Cut(t)
	for name, do := range map[string]func() error{
		"Push":          func() error { return q.Push(t.Context(), node, task("x")) },
		"Push of many":  func() error { return q.Push(t.Context(), node, tasks("x", 3)...) },
		"Withdraw":      func() error { _, err := q.Withdraw(t.Context(), node, "a"); return err },
		"Missing":       func() error { _, err := q.Missing(t.Context(), node, "a"); return err },
		"Send":          func() error { return q.Send(t.Context(), out, []byte("x")) },
		"Receive":       func() error { _, err := q.Receive(t.Context(), guard, out); return err },
		"Acknowledge":   func() error { return q.Acknowledge(t.Context(), first...) },
		"Generation":    func() error { _, err := q.Generation(t.Context()); return err },
		"SetGeneration": func() error { return q.SetGeneration(t.Context(), "m") },
	} {
		if err := do(); writ.CodeOf(err) != writ.CodeQueueUnavailable {
			t.Errorf("%s without transport = %v, want QUEUE_UNAVAILABLE", name, err)
		}
	}
	transport.Restore(t)

	eventually(t, "Push", func() error { return q.Push(t.Context(), node, task("b")) })
	s.next("b").finish()
	a.finish()
	// Message 1 is not acknowledged and may come again before message 2.
	if got := texts(collect(t, q, 1, out)); got[len(got)-1] != "2" {
		collect(t, q, 1, out)
	}
	eventually(t, "Acknowledge", func() error { return q.Acknowledge(t.Context(), first...) })
	s.stop()
	s.nothing()
}

func serveBeginsWithoutTransport(t *testing.T, transport Transport) {
	q, worker := transport.Open(t), transport.Open(t)
	must(t, q.Push(t.Context(), node, task("a")))
	transport.Cut(t)
	s := serveAll(t, worker, 2)
	if _, err := q.Generation(t.Context()); writ.CodeOf(err) != writ.CodeQueueUnavailable {
		t.Errorf("Generation without transport = %v, want QUEUE_UNAVAILABLE", err)
	}
	transport.Restore(t)
	s.next("a")
	s.stop()

	transport.Cut(t)
	again := serveAll(t, worker, 2)
	again.stop() // Serve must end although the transport is cut
	transport.Restore(t)
}
