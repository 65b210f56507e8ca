package runner

import (
	"context"
	"slices"
	"sync"

	"writ"
)

// turns lets jobs on one resource act one after the other, in order of arrival.
type turns struct {
	mu    sync.Mutex
	lines map[writ.ResourceID][]*turn // the first of each line has its turn
}

// turn is a job's place in the line of its resource.
type turn struct {
	turns    *turns
	resource writ.ResourceID
	key      writ.JobKey
	come     chan struct{} // closed when it is first
}

// join puts a job at the end of the line.
func (t *turns) join(resource writ.ResourceID, key writ.JobKey) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := &turn{turns: t, resource: resource, key: key, come: make(chan struct{})}
	if len(t.lines[resource]) == 0 {
		close(place.come)
	}
	if t.lines == nil {
		t.lines = map[writ.ResourceID][]*turn{}
	}
	t.lines[resource] = append(t.lines[resource], place)
	return place
}

// take has the turn at once, for no job, if nobody else is in the line; nil if somebody is.
func (t *turns) take(resource writ.ResourceID) *turn {
	t.mu.Lock()
	busy := len(t.lines[resource]) > 0
	t.mu.Unlock()
	if busy {
		return nil
	}
	place := t.join(resource, writ.JobKey{})
	select {
	case <-place.come:
		return place
	default: // somebody came in between
		place.leave()
		return nil
	}
}

// wait returns when the turn has come, or with the cause of ctx's end.
func (p *turn) wait(ctx context.Context) error {
	select {
	case <-p.come:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holder returns the job whose turn it is, the zero value if the node itself looks after the resource.
func (p *turn) holder() writ.JobKey {
	p.turns.mu.Lock()
	defer p.turns.mu.Unlock()
	return p.turns.lines[p.resource][0].key
}

// leave gives the place up, whether the turn has come or not. A nil turn has no place.
func (p *turn) leave() {
	if p == nil {
		return
	}
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[p.resource]
	i := slices.Index(line, p)
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(t.lines, p.resource)
		return
	}
	t.lines[p.resource] = line
	if i == 0 {
		close(line[0].come)
	}
}
