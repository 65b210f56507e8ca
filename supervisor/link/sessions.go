package link

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/broadcast"
	"writ/internal/limit"
)

// comingsAtOnce is the number of connects or disconnects of a peer that are each logged before the rate limit applies.
const comingsAtOnce = 20

// sessions holds the newest session of each datacenter. The zero value is ready to use.
type sessions struct {
	comings limit.Lines // rate-limited log of connects and disconnects

	mu      sync.Mutex
	newest  map[writ.DatacenterID]*Session
	left    map[writ.DatacenterID]time.Time // end of the last session, for each datacenter that had one
	desks   map[writ.DatacenterID]*desk
	changed broadcast.Signal // wakes when a session is ready
	base    context.Context
	stop    context.CancelCauseFunc // ends base and everything under it
	serving sync.WaitGroup          // sessions and handlers of their requests
}

// open initializes the sessions at their first use. The caller holds mu.
func (c *sessions) open() {
	if c.base != nil {
		return
	}
	c.base, c.stop = context.WithCancelCause(context.Background())
	c.comings.AtOnce = comingsAtOnce
	c.newest = map[writ.DatacenterID]*Session{}
	c.left = map[writ.DatacenterID]time.Time{}
	c.desks = map[writ.DatacenterID]*desk{}
}

// close ends all sessions, refuses new sessions, and returns when all of their goroutines have ended.
func (c *sessions) close(cause error) {
	c.mu.Lock()
	c.open()
	c.stop(cause)
	c.mu.Unlock()
	c.serving.Wait()
}

// enter counts a new link in serving and returns the context of links. That is not the context of the HTTP request,
// because the server forgets hijacked connections.
func (c *sessions) enter() (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open()
	if c.base.Err() != nil {
		return nil, context.Cause(c.base)
	}
	c.serving.Add(1)
	return c.base, nil
}

// claim makes s the session of its datacenter. It returns the previous session and the desk of the datacenter. It
// refuses a supervisor if a supervisor with a higher epoch of the same journal is connected. The refused supervisor is
// fenced and has not noticed it yet.
func (c *sessions) claim(s *Session, log *slog.Logger) (before *Session, d *desk, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dc := s.Hello.Datacenter
	before = c.newest[dc]
	if before != nil && before.Hello.Journal == s.Hello.Journal && before.Hello.Epoch > s.Hello.Epoch {
		return nil, nil, writ.Errorf(writ.CodeConflict,
			"another supervisor, with epoch %d, serves the datacenter; this one has epoch %d", before.Hello.Epoch, s.Hello.Epoch)
	}
	if c.desks[dc] == nil {
		c.desks[dc] = newDesk(&c.serving, log.With("dc", dc))
	}
	c.newest[dc] = s
	return before, c.desks[dc], nil
}

// announce makes s available to requests.
func (c *sessions) announce(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ready = true
	c.changed.Wake()
}

// release removes s, unless another session has replaced it.
func (c *sessions) release(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest[s.Hello.Datacenter] == s {
		delete(c.newest, s.Hello.Datacenter)
		c.left[s.Hello.Datacenter] = time.Now()
	}
}

// Left returns when the last session of a datacenter ended. It is zero if this process has ended no session of the
// datacenter.
func (c *sessions) Left(datacenter writ.DatacenterID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left[datacenter]
}

// Session returns the session of a datacenter, if it is connected.
func (c *sessions) Session(datacenter writ.DatacenterID) (*Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.newest[datacenter]
	return s, s != nil && s.ready
}

// Sessions returns all established sessions, ordered by datacenter.
func (c *sessions) Sessions() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Session
	for _, s := range c.newest {
		if s.ready {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.Hello.Datacenter, b.Hello.Datacenter) })
	return all
}

// successor waits for the next session of s's datacenter.
func (c *sessions) successor(ctx context.Context, s *Session) (*Session, bool) {
	ctx, cancel := context.WithTimeout(ctx, resumeWithin)
	defer cancel()
	for {
		c.mu.Lock()
		next, changed := c.newest[s.Hello.Datacenter], c.changed.Next()
		ready := next != nil && next != s && next.ready
		c.mu.Unlock()
		if ready {
			return next, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}
