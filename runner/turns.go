package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"writ"
)

// turns lets jobs on one resource act one after the other, in order of arrival.
type turns struct {
	mu    sync.Mutex
	lines map[writ.ResourceID][]*turn // the first of each line has its turn
}

// turn is a place in the line of its resource.
type turn struct {
	turns    *turns
	resource writ.ResourceID
	by       holder
	come     chan struct{} // closed when it is first
}

// holder is who has a turn: a job, a transfer to another node, or the node itself, which looks after the resource.
type holder struct {
	job      writ.JobKey
	transfer string // as its transfer grant has it
}

// works says what the holder does, to whoever waits for it.
func (h holder) works(on writ.ResourceID) string {
	switch {
	case h.transfer != "":
		return fmt.Sprintf("the %s is being kept for another node, for the copy %s", on, h.transfer)
	case h.job == writ.JobKey{}:
		return fmt.Sprintf("the node is still looking after the %s", on)
	}
	return fmt.Sprintf("the job %s still works on the %s", h.job, on)
}

// join puts somebody at the end of the line.
func (t *turns) join(resource writ.ResourceID, by holder) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := &turn{turns: t, resource: resource, by: by, come: make(chan struct{})}
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
	place := t.join(resource, holder{})
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

// holder returns whose turn it is.
func (p *turn) holder() holder {
	p.turns.mu.Lock()
	defer p.turns.mu.Unlock()
	return p.turns.lines[p.resource][0].by
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
