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
	// maxStrangers bounds the connections that have not shown a transfer grant yet.
	maxStrangers = 64
	// maxTransfers bounds those that have and wait for a stream or have one.
	maxTransfers = 64
	// crowdedEvery is how often it is logged that too many strangers are connected.
	crowdedEvery = time.Minute
)

var (
	errCrowded = errors.New("too many others are connected who have not shown a transfer grant")
	errAgain   = errors.New("the other node has asked again on another connection")
)

// guests are the connections. A new one is always admitted. If that is one too many, the oldest of the address that has most of them is closed:
// an address that holds many loses its own connections, and never one with a transfer grant. A transfer grant has one connection.
type guests struct {
	mu        sync.Mutex
	strangers []*guest          // in the order in which they came
	transfers map[string]*guest // by what their transfer grants call them
	logged    time.Time         // that too many strangers are connected
}

// guest is a connection.
type guest struct {
	guests   *guests
	conn     net.Conn
	from     netip.Prefix
	cancel   context.CancelCauseFunc // of all that is done for it
	transfer string                  // "" until it has shown a transfer grant
	before   *guest                  // the connection that had its transfer
	left     chan struct{}           // closed when nothing is done for it any more, nor for those before
}

// enter adds a connection; cancel ends what is done for it. crowded is the one that was closed for it, if that is to be logged.
func (p *guests) enter(conn net.Conn, cancel context.CancelCauseFunc) (g, crowded *guest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = &guest{guests: p, conn: conn, from: networkOf(conn.RemoteAddr()), cancel: cancel, left: make(chan struct{})}
	p.strangers = append(p.strangers, g)
	if len(p.strangers) <= maxStrangers {
		return g, nil
	}
	last := p.greediest()
	p.strangers = slices.DeleteFunc(p.strangers, func(other *guest) bool { return other == last })
	last.end(errCrowded)
	if now := time.Now(); now.Sub(p.logged) >= crowdedEvery {
		p.logged, crowded = now, last
	}
	return g, crowded
}

// greediest is the first of the strangers from where most are.
func (p *guests) greediest() *guest {
	count, most := make(map[netip.Prefix]int), p.strangers[0]
	for _, g := range p.strangers {
		count[g.from]++
	}
	for _, g := range p.strangers {
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

// admit gives a stranger that has shown a transfer grant that transfer. The connection that has it is closed: a node that asks again has given up the
// connection on which it asked before, whether that is known here or not. One that is done needs no stream, and is never one too many: what is
// kept for it goes.
func (g *guest) admit(transfer string, done bool) error {
	p := g.guests
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.strangers, g)
	if i < 0 {
		return errCrowded
	}
	before := p.transfers[transfer]
	if before == nil && !done && len(p.transfers) >= maxTransfers {
		return writ.Errorf(writ.CodeResourceBusy, "it gives %d archives to other nodes already, or has them waiting", maxTransfers)
	}
	p.strangers = slices.Delete(p.strangers, i, i+1)
	if before != nil {
		before.end(errAgain)
	}
	if p.transfers == nil {
		p.transfers = map[string]*guest{}
	}
	g.transfer, g.before = transfer, before
	p.transfers[transfer] = g
	return nil
}

// alone returns when nothing is done any more for the connection that had the transfer before, or with the cause of ctx's end.
func (g *guest) alone(ctx context.Context) error {
	if g.before == nil {
		return nil
	}
	select {
	case <-g.before.left:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end closes a connection.
func (g *guest) end(why error) {
	g.cancel(why)
	_ = g.conn.Close()
}

// leave removes a connection for which nothing is done any more.
func (g *guest) leave() {
	p := g.guests
	p.mu.Lock()
	p.strangers = slices.DeleteFunc(p.strangers, func(other *guest) bool { return other == g })
	if p.transfers[g.transfer] == g {
		delete(p.transfers, g.transfer)
	}
	p.mu.Unlock()
	g.end(nil)
	if g.before != nil {
		<-g.before.left
		g.before = nil
	}
	close(g.left)
}
