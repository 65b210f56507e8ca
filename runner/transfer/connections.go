package transfer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/limit"
)

const (
	// maxUnauthenticated limits the connections without a transfer grant.
	maxUnauthenticated = 64
	// maxTransfers limits the connections with a transfer grant, streaming or waiting.
	maxTransfers = 64
	// crowdedEvery is the interval between log lines about too many unauthenticated connections.
	crowdedEvery = time.Minute
)

var (
	errCrowded = errors.New("too many connections have not shown a transfer grant")
	errAgain   = errors.New("the other node has reconnected")
)

// connections holds all connections to the transfer endpoint. A new connection is always accepted. If more than
// maxUnauthenticated connections then have no transfer grant, one of these is closed: the oldest from the network that
// has the most. Therefore an attacker with many connections loses only its own, and a connection with a transfer grant
// is never closed to make room. Each transfer has at most one connection.
type connections struct {
	mu              sync.Mutex
	unauthenticated []*client          // in order of arrival
	transfers       map[string]*client // by transfer ID of their grants
	logged          time.Time          // time of the last log line about the limit
}

// client is the other end of a connection.
type client struct {
	all      *connections
	conn     net.Conn
	from     string                  // network of the client
	cancel   context.CancelCauseFunc // cancels all work for the connection
	transfer string                  // ID of the transfer; "" until the client has shown a transfer grant
	before   *client                 // previous connection of the same transfer
	left     chan struct{}           // closed when the work for the connection and its predecessors has ended
}

// enter adds a connection; cancel must end its work. crowded is the connection that was closed to make room, if this
// should be logged; otherwise nil.
func (p *connections) enter(conn net.Conn, cancel context.CancelCauseFunc) (g, crowded *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = &client{all: p, conn: conn, from: limit.NetworkOf(conn.RemoteAddr().String()), cancel: cancel, left: make(chan struct{})}
	p.unauthenticated = append(p.unauthenticated, g)
	if len(p.unauthenticated) <= maxUnauthenticated {
		return g, nil
	}
	last := p.mostFrom()
	p.unauthenticated = slices.DeleteFunc(p.unauthenticated, func(other *client) bool { return other == last })
	last.end(errCrowded)
	if now := time.Now(); now.Sub(p.logged) >= crowdedEvery {
		p.logged, crowded = now, last
	}
	return g, crowded
}

// mostFrom returns the oldest unauthenticated connection from the network with the most unauthenticated connections.
func (p *connections) mostFrom() *client {
	count, most := make(map[string]int), p.unauthenticated[0]
	for _, g := range p.unauthenticated {
		count[g.from]++
	}
	for _, g := range p.unauthenticated {
		if count[g.from] > count[most.from] {
			most = g
		}
	}
	return most
}

// admit assigns a transfer to a connection that has shown its grant. A previous connection of the transfer is closed:
// the other node no longer uses it, even if this node has not noticed. done is set for a request that only releases a
// snapshot: it needs no stream, so maxTransfers does not apply.
func (c *client) admit(transfer string, done bool) error {
	p := c.all
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.unauthenticated, c)
	if i < 0 {
		return errCrowded
	}
	before := p.transfers[transfer]
	if before == nil && !done && len(p.transfers) >= maxTransfers {
		return writ.Errorf(writ.CodeResourceBusy, "it already sends %d archives to other nodes, or has them waiting",
			maxTransfers)
	}
	p.unauthenticated = slices.Delete(p.unauthenticated, i, i+1)
	if before != nil {
		before.end(errAgain)
	}
	if p.transfers == nil {
		p.transfers = map[string]*client{}
	}
	c.transfer, c.before = transfer, before
	p.transfers[transfer] = c
	return nil
}

// alone waits until the work for the previous connection of the transfer has ended. If ctx ends first, alone returns
// the cause.
func (c *client) alone(ctx context.Context) error {
	if c.before == nil {
		return nil
	}
	select {
	case <-c.before.left:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end closes a connection.
func (c *client) end(why error) {
	c.cancel(why)
	_ = c.conn.Close()
}

// leave closes and removes a connection whose work has ended. It waits until the work for its predecessors has ended.
func (c *client) leave() {
	p := c.all
	p.mu.Lock()
	p.unauthenticated = slices.DeleteFunc(p.unauthenticated, func(other *client) bool { return other == c })
	if p.transfers[c.transfer] == c {
		delete(p.transfers, c.transfer)
	}
	p.mu.Unlock()
	c.end(nil)
	if c.before != nil {
		<-c.before.left
		c.before = nil
	}
	close(c.left)
}
