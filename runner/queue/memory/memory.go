// Package memory implements the queue without a server, for simulations in virtual time: it has no sockets and works in
// a testing/synctest bubble. All data is in this process. It can simulate a loss of all data (Flush), an old snapshot
// (Save, Restore) and an outage (Cut). It does not know the content of the data.
package memory

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"writ"
	"writ/runner/queue"
)

// maxReceived limits the messages of one Receive, as package queue specifies.
const maxReceived = 100

// Queue is one process's access to a transport in memory. Make it with New or Attach.
type Queue struct {
	// Log gets the panics of handlers; may be nil. Set it before Serve.
	Log *slog.Logger

	store *store
	// The following fields are guarded by store.mu.
	changed  chan struct{} // closed and replaced when new data for this process arrives
	serves   map[writ.NodeID]bool
	away     bool
	closed   bool
	finished map[*item]bool         // handled during an outage, to be removed afterwards
	read     map[queue.Stream]int64 // the last received message of each stream
}

var _ queue.Queue = (*Queue)(nil)

// store corresponds to the Redis of other implementations: it survives the processes that use it.
type store struct {
	mu         sync.Mutex
	processes  map[*Queue]bool // open ones
	waiting    map[writ.NodeID][]*item
	active     map[writ.NodeID][]*item
	streams    map[queue.Stream][]entry
	sent       int64 // number of messages ever sent, so that IDs are never reused
	generation string
}

// item is a waiting or active task.
type item struct {
	task queue.Task
	by   *Queue // the process that took it last, or nil
}

type entry struct {
	number  int64
	message queue.Message
}

// New returns the queue of the first process at a new, empty transport.
func New() *Queue {
	s := &store{processes: map[*Queue]bool{}}
	s.empty()
	return s.attach(nil)
}

// Attach returns the queue of another process at the same transport.
func (q *Queue) Attach() *Queue {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	return q.store.attach(q.Log)
}

// attach adds a process. The caller must hold the lock if there are other processes.
func (s *store) attach(log *slog.Logger) *Queue {
	q := &Queue{
		Log: log, store: s, changed: make(chan struct{}), serves: map[writ.NodeID]bool{}, finished: map[*item]bool{},
		read: map[queue.Stream]int64{},
	}
	s.processes[q] = true
	return q
}

// Flush deletes all data of the transport, like FLUSHALL.
func (q *Queue) Flush() {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.store.empty()
	q.store.wake()
}

// Saved is a snapshot of a transport.
type Saved struct {
	waiting    map[writ.NodeID][]queue.Task
	streams    map[queue.Stream][]queue.Message
	generation string
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

// Restore resets the transport to a snapshot, like a server that restarts with an old one: data delivered since then
// comes again, and data sent since then is lost.
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

// Cut makes the transport unreachable for this process, or reachable again. Its data stays.
func (q *Queue) Cut(away bool) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.away = away
	q.removeFinished()
	q.wake()
}

// Close cuts the process off permanently. Its active tasks are delivered again to the next process, as if it had been
// killed.
func (q *Queue) Close() error {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	q.closed = true
	delete(q.store.processes, q)
	q.wake()
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
				p.wake()
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
			messages, changed = q.unread(streams), q.changed
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

// unread returns messages that this process has not received yet, even if other processes have. The caller must hold
// the lock.
func (q *Queue) unread(streams []queue.Stream) []queue.Message {
	for _, stream := range streams { // from now on the process is notified of new messages there
		if _, known := q.read[stream]; !known {
			q.read[stream] = 0
		}
	}
	var messages []queue.Message
	for _, stream := range streams {
		for _, e := range q.store.streams[stream] {
			if e.number <= q.read[stream] {
				continue
			}
			if len(messages) == maxReceived {
				return messages
			}
			q.read[stream] = e.number
			messages = append(messages, e.message)
		}
	}
	return messages
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

// do calls change with the store, unless this process is cut off.
func (q *Queue) do(ctx context.Context, change func(s *store)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	if q.away || q.closed {
		return writ.Errorf(writ.CodeQueueUnavailable, "the queue in memory is unavailable")
	}
	change(q.store)
	return nil
}

// empty deletes everything. The caller must hold the lock.
func (s *store) empty() {
	s.waiting = map[writ.NodeID][]*item{}
	s.active = map[writ.NodeID][]*item{}
	s.streams = map[queue.Stream][]entry{}
	s.generation = ""
}

// wake notifies every process of a change. The caller must hold the lock.
func (s *store) wake() {
	for q := range s.processes {
		q.wake()
	}
}

// wake notifies waiting callers in this process of a change. The caller must hold the lock.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}
