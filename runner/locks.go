package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"writ"
)

// locks lets jobs on one resource act one after the other, in order of arrival.
type locks struct {
	mu    sync.Mutex
	lines map[writ.ResourceID][]*lock // the first of each line holds the resource
}

// lock is the lock of a resource, or a request for it.
type lock struct {
	locks    *locks
	resource writ.ResourceID
	by       holder
	held     chan struct{} // closed when it is first in its line
}

// holder is who holds a lock: a job, a transfer to another node, or the node itself, which looks after the resource.
type holder struct {
	job      writ.JobKey
	transfer string // as its transfer grant has it
}

// works says what the holder does, for the message to a job that waits for it.
func (h holder) works(on writ.ResourceID) string {
	switch {
	case h.transfer != "":
		return fmt.Sprintf("the %s is being kept for another node, for the copy %s", on, h.transfer)
	case h.job == writ.JobKey{}:
		return fmt.Sprintf("the node is still looking after the %s", on)
	}
	return fmt.Sprintf("the job %s still works on the %s", h.job, on)
}

// request puts a holder at the end of the line.
func (l *locks) request(resource writ.ResourceID, by holder) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &lock{locks: l, resource: resource, by: by, held: make(chan struct{})}
	if len(l.lines[resource]) == 0 {
		close(last.held)
	}
	if l.lines == nil {
		l.lines = map[writ.ResourceID][]*lock{}
	}
	l.lines[resource] = append(l.lines[resource], last)
	return last
}

// try takes the lock at once, for no job, if the line is empty; nil if it is not.
func (l *locks) try(resource writ.ResourceID) *lock {
	l.mu.Lock()
	busy := len(l.lines[resource]) > 0
	l.mu.Unlock()
	if busy {
		return nil
	}
	last := l.request(resource, holder{})
	select {
	case <-last.held:
		return last
	default: // another request came in between
		last.release()
		return nil
	}
}

// wait returns when the lock is held, or with the cause of ctx's end.
func (k *lock) wait(ctx context.Context) error {
	select {
	case <-k.held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holder returns who holds the resource now.
func (k *lock) holder() holder {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return k.locks.lines[k.resource][0].by
}

// release gives the lock back, or the request for it up. A nil lock is none.
func (k *lock) release() {
	if k == nil {
		return
	}
	l := k.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[k.resource]
	i := slices.Index(line, k)
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(l.lines, k.resource)
		return
	}
	l.lines[k.resource] = line
	if i == 0 {
		close(line[0].held)
	}
}
