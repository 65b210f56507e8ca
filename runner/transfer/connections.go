package transfer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"writ"
)

const (
	// maxUnauthenticated bounds the connections that have not shown a transfer grant yet.
	maxUnauthenticated = 64
	// maxTransfers bounds those that have and wait for a stream or have one.
	maxTransfers = 64
	// crowdedEvery is how often it is logged that too many are unauthenticated.
	crowdedEvery = time.Minute
)

var (
	errCrowded = errors.New("too many others are connected who have not shown a transfer grant")
	errAgain   = errors.New("the other node has asked again on another connection")
)

// connections are those of other nodes, and of anything else that connects. A new one is always admitted. If that is one too many, the oldest of the address that has most of them is closed:
// an address that holds many loses its own connections, and never one with a transfer grant. A transfer grant has one connection.
type connections struct {
	mu              sync.Mutex
	unauthenticated []*client          // in the order in which they came
	transfers       map[string]*client // by what their transfer grants call them
	logged          time.Time          // that too many are unauthenticated
}

// client is the other end of a connection.
type client struct {
	all      *connections
	conn     net.Conn
	from     netip.Prefix
	cancel   context.CancelCauseFunc // of all that is done for it
	transfer string                  // "" until it has shown a transfer grant
	before   *client                 // the connection that had its transfer
	left     chan struct{}           // closed when nothing is done for it any more, nor for those before
}

// enter adds a connection; cancel ends what is done for it. crowded is the one that was closed for it, if that is to be logged.
func (p *connections) enter(conn net.Conn, cancel context.CancelCauseFunc) (g, crowded *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = &client{all: p, conn: conn, from: networkOf(conn.RemoteAddr()), cancel: cancel, left: make(chan struct{})}
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

// mostFrom is the first of the strangers from where most are.
func (p *connections) mostFrom() *client {
	count, most := make(map[netip.Prefix]int), p.unauthenticated[0]
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

// networkOf is from where a connection comes: who has one address of version 6 has at least 2^64 of them (RFC 4291, section 2.5.1).
func networkOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// admit gives a connection that has shown a transfer grant that transfer. The connection that has it is closed: a node that asks again has given up the
// connection on which it asked before, whether that is known here or not. One that is done needs no stream, and is never one too many: what is
// kept for it goes.
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
		return writ.Errorf(writ.CodeResourceBusy, "it gives %d archives to other nodes already, or has them waiting", maxTransfers)
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

// alone returns when nothing is done any more for the connection that had the transfer before, or with the cause of ctx's end.
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

// leave removes a connection for which nothing is done any more.
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
