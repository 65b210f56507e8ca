package memory

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"writ"
	"writ/runner/queue"
)

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
				p.changed.Wake()
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
