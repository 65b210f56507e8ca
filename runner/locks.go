package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"writ"
)

// locks serializes jobs on one resource in order of arrival.
type locks struct {
	mu    sync.Mutex
	lines map[writ.ResourceID][]*lock // the first of each line holds the resource
}

// lock is a held or requested lock of a resource.
type lock struct {
	locks    *locks
	resource writ.ResourceID
	by       holder
	held     chan struct{} // closed when it is first in its line
}

// holder identifies the holder of a lock: a job, a transfer to another node, or the node's keeper (zero).
type holder struct {
	job      writ.JobKey
	transfer string // ID from the transfer grant
}

// works describes the holder's work, for a job that waits for it.
func (h holder) works(on writ.ResourceID) string {
	switch {
	case h.transfer != "":
		return fmt.Sprintf("the %s is being copied to another node (copy %s)", on, h.transfer)
	case h.job == writ.JobKey{}:
		return fmt.Sprintf("the node still maintains the %s", on)
	}
	return fmt.Sprintf("the job %s still works on the %s", h.job, on)
}

// request appends a request to the line.
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

// try locks the resource for the keeper if the line is empty. It returns nil otherwise.
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
	default: // another request was faster
		last.release()
		return nil
	}
}

// wait returns nil when the lock is held, or the cause of ctx's end.
func (k *lock) wait(ctx context.Context) error {
	select {
	case <-k.held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holder returns the current holder of the resource.
func (k *lock) holder() holder {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return k.locks.lines[k.resource][0].by
}

// release releases the lock, or withdraws the request. It is a no-op on nil.
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
