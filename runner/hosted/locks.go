// Package hosted holds the state of the resources on a node: locks that serialize work on a resource, the states as of
// the last scan, and exits of the processes that serve resources. It changes no resources: the jobs and the keeper of
// the node do.
package hosted

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"writ"
)

// Locks serializes work on each resource in order of arrival: jobs, transfers and the node's keeper.
type Locks struct {
	mu    sync.Mutex
	lines map[writ.ResourceID][]*Lock // the first lock of each line is held
}

// Lock is a held or requested lock of a resource.
type Lock struct {
	locks    *Locks
	resource writ.ResourceID
	by       Holder
	held     chan struct{} // closed when the lock is the first in its line
}

// Holder identifies the holder of a lock: a job, a transfer to another node, or the node's keeper (zero).
type Holder struct {
	Job      writ.JobKey
	Transfer string // ID from the transfer grant
}

// Works describes the holder's work, for a job or transfer that waits for the lock.
func (h Holder) Works(on writ.ResourceID) string {
	switch {
	case h.Transfer != "":
		return fmt.Sprintf("the %s is being copied to another node (copy %s)", on, h.Transfer)
	case h.Job == writ.JobKey{}:
		return fmt.Sprintf("the node still maintains the %s", on)
	}
	return fmt.Sprintf("the job %s still works on the %s", h.Job, on)
}

// Request appends a request to the line of a resource. The caller must call Release, even if Wait fails.
func (l *Locks) Request(resource writ.ResourceID, by Holder) *Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &Lock{locks: l, resource: resource, by: by, held: make(chan struct{})}
	if len(l.lines[resource]) == 0 {
		close(last.held)
	}
	if l.lines == nil {
		l.lines = map[writ.ResourceID][]*Lock{}
	}
	l.lines[resource] = append(l.lines[resource], last)
	return last
}

// Try locks the resource for the keeper if no lock is held or requested. It returns nil otherwise.
func (l *Locks) Try(resource writ.ResourceID) *Lock {
	l.mu.Lock()
	busy := len(l.lines[resource]) > 0
	l.mu.Unlock()
	if busy {
		return nil
	}
	last := l.Request(resource, Holder{})
	select {
	case <-last.held:
		return last
	default: // another request was faster
		last.Release()
		return nil
	}
}

// Wait returns nil when the lock is held, or the cause of ctx's end.
func (k *Lock) Wait(ctx context.Context) error {
	select {
	case <-k.held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Holder returns the current holder of the resource.
func (k *Lock) Holder() Holder {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return k.locks.lines[k.resource][0].by
}

// Release releases the lock, or withdraws the request. It is a no-op on nil.
func (k *Lock) Release() {
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
