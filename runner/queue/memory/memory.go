// Package memory implements the queue without a server, for simulations in virtual time: it has no sockets and works in
// a testing/synctest bubble. All data is in this process. It can simulate a loss of all data (Flush), an old snapshot
// (Save, Restore) and an outage (Cut). It does not depend on the content of the data.
package memory

import (
	"context"
	"log/slog"
	"time"

	"writ"
	"writ/runner/queue"
)

// maxReceived limits the messages of one Receive, as package queue specifies.
const maxReceived = 100

// Queue is one process's access to a transport in memory. Make it with New or Attach.
type Queue struct {
	// Log receives the panics of handlers; may be nil. Set it before Serve.
	Log *slog.Logger

	*process
}

var _ queue.Queue = (*Queue)(nil)

// New returns the queue of the first process at a new, empty transport.
func New() *Queue {
	s := &store{processes: map[*process]bool{}}
	s.empty()
	return s.attach(nil)
}

// Attach returns the queue of another process at the same transport.
func (q *Queue) Attach() *Queue {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	return q.store.attach(q.Log)
}

// Flush deletes all data of the transport, like FLUSHALL.
func (q *Queue) Flush() {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.store.empty()
	q.store.wake()
}

// Save returns a snapshot of the transport.
func (q *Queue) Save() Saved {
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	saved := Saved{
		waiting: map[writ.NodeID][]queue.Task{}, streams: map[queue.Stream][]queue.Message{}, generation: s.generation,
	}
	for _, tasks := range []map[writ.NodeID][]*item{s.active, s.waiting} {
		for node, items := range tasks {
			for _, i := range items {
				saved.waiting[node] = append(saved.waiting[node], i.task)
			}
		}
	}
	for stream, entries := range s.streams {
		for _, e := range entries {
			saved.streams[stream] = append(saved.streams[stream], e.message)
		}
	}
	return saved
}

// Restore resets the transport to a snapshot, like a server that restarts with an old snapshot. Data that was delivered
// since the snapshot is delivered again, and data that was sent since then is lost.
func (q *Queue) Restore(saved Saved) {
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty()
	s.generation = saved.generation
	for node, tasks := range saved.waiting {
		for _, t := range tasks {
			s.waiting[node] = append(s.waiting[node], &item{task: t})
		}
	}
	for stream, messages := range saved.streams {
		for _, m := range messages {
			s.sent++
			m.ID = messageID(s.sent)
			s.streams[stream] = append(s.streams[stream], entry{s.sent, m})
		}
	}
	s.wake()
}

// Cut makes the transport unreachable for this process if away is set, otherwise reachable again. The data stays.
func (q *Queue) Cut(away bool) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.away = away
	q.removeFinished()
	q.changed.Wake()
}

// Close disconnects this process permanently, as if it had been killed: the next process receives the active tasks of
// this process again.
func (q *Queue) Close() error {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.closed = true
	delete(q.store.processes, q.process)
	q.changed.Wake()
	return nil
}

// Generation implements queue.Queue.
func (q *Queue) Generation(ctx context.Context) (mark string, err error) {
	err = q.do(ctx, func(s *store) { mark = s.generation })
	return mark, err
}

// SetGeneration implements queue.Queue.
func (q *Queue) SetGeneration(ctx context.Context, mark string) error {
	return q.do(ctx, func(s *store) { s.generation = mark })
}

// Send implements queue.Queue.
func (q *Queue) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	return q.do(ctx, func(s *store) {
		s.sent++
		m := queue.Message{Stream: stream, ID: messageID(s.sent), Body: append([]byte(nil), body...)}
		s.streams[stream] = append(s.streams[stream], entry{s.sent, m})
		for p := range s.processes {
			if _, reads := p.read[stream]; reads {
				p.changed.Wake()
			}
		}
	})
}

// Receive implements queue.Queue.
func (q *Queue) Receive(ctx context.Context, wait time.Duration, streams ...queue.Stream) ([]queue.Message, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		var messages []queue.Message
		var changed <-chan struct{}
		err := q.do(ctx, func(*store) {
			messages, changed = q.unread(streams), q.changed.Next()
		})
		if err != nil || len(messages) > 0 {
			return messages, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Acknowledge implements queue.Queue.
func (q *Queue) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	return q.do(ctx, func(s *store) {
		for _, m := range messages {
			entries := s.streams[m.Stream]
			for i, e := range entries {
				if e.message.ID == m.ID {
					s.streams[m.Stream] = append(entries[:i:i], entries[i+1:]...)
					break
				}
			}
		}
	})
}
