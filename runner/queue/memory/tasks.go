package memory

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"writ"
	"writ/runner/queue"
)

func messageID(number int64) string { return strconv.FormatInt(number, 10) }

// Push implements queue.Queue.
func (q *Queue) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	return q.do(ctx, func(s *store) {
		for _, t := range tasks {
			if !s.holds(node, t.ID) {
				t.Body = append([]byte(nil), t.Body...)
				s.waiting[node] = append(s.waiting[node], &item{task: t})
			}
		}
		for p := range s.processes {
			if p.serves[node] {
				p.wake()
			}
		}
	})
}

// Withdraw implements queue.Queue.
func (q *Queue) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) (withdrawn []string, err error) {
	err = q.do(ctx, func(s *store) {
		s.waiting[node] = slices.DeleteFunc(s.waiting[node], func(t *item) bool {
			if t.by != nil || !slices.Contains(ids, t.task.ID) {
				return false
			}
			withdrawn = append(withdrawn, t.task.ID)
			return true
		})
	})
	return withdrawn, err
}

// Missing implements queue.Queue.
func (q *Queue) Missing(ctx context.Context, node writ.NodeID, ids ...string) (missing []string, err error) {
	err = q.do(ctx, func(s *store) {
		for _, id := range ids {
			if !s.holds(node, id) {
				missing = append(missing, id)
			}
		}
	})
	return missing, err
}

// holds reports whether a task is waiting or active. The caller must hold the lock.
func (s *store) holds(node writ.NodeID, id string) bool {
	has := func(t *item) bool { return t.task.ID == id }
	return slices.ContainsFunc(s.waiting[node], has) || slices.ContainsFunc(s.active[node], has)
}

// Serve implements queue.Queue. Tasks that a previous process took come first.
func (q *Queue) Serve(ctx context.Context, node writ.NodeID, slots int, handle queue.Handler) error {
	log := cmp.Or(q.Log, slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, max(slots, 1))
	for began := false; ; {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		t := q.next(ctx, node, &began)
		if t == nil {
			return nil
		}
		running.Go(func() {
			defer func() { <-free }()
			handle.Handle(ctx, log, t.task)
			q.finish(t)
		})
	}
}

// next waits for a task and takes it. It returns nil when ctx ends.
func (q *Queue) next(ctx context.Context, node writ.NodeID, began *bool) *item {
	for {
		q.store.mu.Lock()
		var t *item
		if !q.away && !q.closed && ctx.Err() == nil {
			if !*began {
				q.takeOver(node)
				*began, q.serves[node] = true, true
			}
			t = q.take(node)
		}
		changed := q.changed
		q.store.mu.Unlock()
		if t != nil {
			return t
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// takeOver returns the tasks of other processes to the queue: there is one Serve per node, so those processes have
// ended. The caller must hold the lock.
func (q *Queue) takeOver(node writ.NodeID) {
	s := q.store
	var back []*item
	s.active[node] = slices.DeleteFunc(s.active[node], func(t *item) bool {
		if t.by != q {
			back = append(back, t)
		}
		return t.by != q
	})
	s.waiting[node] = append(back, s.waiting[node]...)
}

// take takes the oldest task, or returns nil. The caller must hold the lock.
func (q *Queue) take(node writ.NodeID) *item {
	s := q.store
	if len(s.waiting[node]) == 0 {
		return nil
	}
	t := s.waiting[node][0]
	t.by = q
	s.waiting[node] = s.waiting[node][1:]
	s.active[node] = append(s.active[node], t)
	return t
}

// finish removes a handled task, during an outage afterwards.
func (q *Queue) finish(t *item) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.finished[t] = true
	q.removeFinished()
}

// removeFinished removes handled tasks if the transport is reachable. The caller must hold the lock.
func (q *Queue) removeFinished() {
	if q.away || q.closed || len(q.finished) == 0 {
		return
	}
	for node, tasks := range q.store.active {
		q.store.active[node] = slices.DeleteFunc(tasks, func(t *item) bool { return q.finished[t] })
	}
	clear(q.finished)
}
