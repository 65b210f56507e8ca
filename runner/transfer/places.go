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
	// crowdedEvery is how often it is said that strangers keep places.
	crowdedEvery = time.Minute
)

var (
	errCrowded = errors.New("too many others are connected who have not shown a transfer grant")
	errAgain   = errors.New("the other node has asked again on another connection")
)

// places are who is connected. Whoever comes gets one. If that is one too many, who has come first of those from the address that has the
// most goes: somebody who keeps many makes room for others by it, and for nobody's transfer grant. A transfer grant has one place.
type places struct {
	mu        sync.Mutex
	strangers []*guest          // in the order in which they came
	transfers map[string]*guest // by what their transfer grants call them
	told      time.Time         // that strangers keep places
}

// guest is a connection.
type guest struct {
	places   *places
	conn     net.Conn
	from     netip.Prefix
	cancel   context.CancelCauseFunc // of all that is done for it
	transfer string                  // "" until it has shown a transfer grant
	before   *guest                  // that had its place
	left     chan struct{}           // closed when nothing is done for it any more, nor for those before
}

// enter gives a connection a place; cancel ends what is done for it. crowded is who had to go, if somebody should be told.
func (p *places) enter(conn net.Conn, cancel context.CancelCauseFunc) (g, crowded *guest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = &guest{places: p, conn: conn, from: networkOf(conn.RemoteAddr()), cancel: cancel, left: make(chan struct{})}
	p.strangers = append(p.strangers, g)
	if len(p.strangers) <= maxStrangers {
		return g, nil
	}
	last := p.greediest()
	p.strangers = slices.DeleteFunc(p.strangers, func(other *guest) bool { return other == last })
	last.end(errCrowded)
	if now := time.Now(); now.Sub(p.told) >= crowdedEvery {
		p.told, crowded = now, last
	}
	return g, crowded
}

// greediest is the first of the strangers from where most are.
func (p *places) greediest() *guest {
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

// admit gives a stranger that has shown a transfer grant the place of that transfer. Whoever has it goes: a node that asks again has given up the
// connection on which it asked before, whether that is known here or not. One that is done needs no stream, and is never one too many: what is
// kept for it goes.
func (g *guest) admit(transfer string, done bool) error {
	p := g.places
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

// alone returns when nothing is done any more for whoever had the place before, or with the cause of ctx's end.
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

// leave gives up the place of a connection for which nothing is done any more.
func (g *guest) leave() {
	p := g.places
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
