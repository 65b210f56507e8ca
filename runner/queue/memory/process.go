package memory

import (
	"context"
	"slices"

	"writ"
	"writ/internal/broadcast"
	"writ/runner/queue"
)

// process is the state of one process at the transport. store.mu guards all fields except store.
type process struct {
	store    *store
	changed  broadcast.Signal // wakes when new data for this process arrives
	serves   map[writ.NodeID]bool
	away     bool
	closed   bool
	finished map[*item]bool         // tasks handled during an outage, to be removed from the store afterwards
	read     map[queue.Stream]int64 // number of the last received message of each stream
}

// unread returns at most maxReceived messages that this process has not received yet, including messages that other
// processes received and did not acknowledge. The caller must hold the lock.
func (p *process) unread(streams []queue.Stream) []queue.Message {
	for _, stream := range streams { // from now on the process is notified of new messages there
		if _, known := p.read[stream]; !known {
			p.read[stream] = 0
		}
	}
	var messages []queue.Message
	for _, stream := range streams {
		for _, e := range p.store.streams[stream] {
			if e.number <= p.read[stream] {
				continue
			}
			if len(messages) == maxReceived {
				return messages
			}
			p.read[stream] = e.number
			messages = append(messages, e.message)
		}
	}
	return messages
}

// do calls `change` with the store. If this process is disconnected, it returns QUEUE_UNAVAILABLE instead.
func (p *process) do(ctx context.Context, change func(s *store)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if p.away || p.closed {
		return writ.Errorf(writ.CodeQueueUnavailable, "the queue in memory is unavailable")
	}
	change(p.store)
	return nil
}

// next waits for a task and returns it as active. It returns nil when ctx ends.
func (p *process) next(ctx context.Context, node writ.NodeID, began *bool) *item {
	for {
		p.store.mu.Lock()
		var t *item
		if !p.away && !p.closed && ctx.Err() == nil {
			if !*began {
				p.takeOver(node)
				*began, p.serves[node] = true, true
			}
			t = p.take(node)
		}
		changed := p.changed.Next()
		p.store.mu.Unlock()
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

// takeOver returns the active tasks of other processes to the queue. Only one Serve runs per node, so those processes
// have ended. The caller must hold the lock.
func (p *process) takeOver(node writ.NodeID) {
	s := p.store
	var back []*item
	s.active[node] = slices.DeleteFunc(s.active[node], func(t *item) bool {
		if t.by != p {
			back = append(back, t)
		}
		return t.by != p
	})
	s.waiting[node] = append(back, s.waiting[node]...)
}

// take makes the oldest waiting task active and returns it, or returns nil if no task waits. The caller must hold the
// lock.
func (p *process) take(node writ.NodeID) *item {
	s := p.store
	if len(s.waiting[node]) == 0 {
		return nil
	}
	t := s.waiting[node][0]
	t.by = p
	s.waiting[node] = s.waiting[node][1:]
	s.active[node] = append(s.active[node], t)
	return t
}

// finish removes a handled task. If the transport is unreachable, the task is removed when it is reachable again.
func (p *process) finish(t *item) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.finished[t] = true
	p.removeFinished()
}

// removeFinished removes handled tasks if the transport is reachable. The caller must hold the lock.
func (p *process) removeFinished() {
	if p.away || p.closed || len(p.finished) == 0 {
		return
	}
	for node, tasks := range p.store.active {
		p.store.active[node] = slices.DeleteFunc(tasks, func(t *item) bool { return p.finished[t] })
	}
	clear(p.finished)
}
