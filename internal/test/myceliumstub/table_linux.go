package myceliumstub

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// Over QUIC, a packet of tooLarge bytes does not fit into a datagram. The real daemon then drops the peer and retries
// after dropFor.
const (
	tooLarge = 1388
	dropFor  = 5 * time.Second
)

const (
	greetEvery = 200 * time.Millisecond
	deadAfter  = 10 * greetEvery
	infinite   = 1 << 10 // metric of an unreachable range; each hop adds 10
)

// peer is a neighbour in the overlay.
type peer struct {
	kind           string // static, inbound, linkLocalDiscovery
	proto          string // tcp, quic, tls
	heard          time.Time
	dropped        time.Time // time when it was dropped
	sent, received int64
}

// mark returns the flag for messages to the peer.
func (p *peer) mark() byte {
	if p.proto == "quic" {
		return byQUIC
	}
	return 0
}

func (p *peer) state() string {
	switch {
	case time.Since(p.dropped) < dropFor:
		return "dead"
	case p.heard.IsZero():
		return "connecting"
	case time.Since(p.heard) > deadAfter:
		return "dead"
	default:
		return "alive"
	}
}

// route is the route to a /64.
type route struct {
	via    netip.AddrPort
	metric int
	heard  time.Time
}

// table holds the peers and routes of a daemon.
type table struct {
	subnet netip.Addr // of the daemon
	noQUIC bool

	mu     sync.Mutex // guards the following fields
	peers  map[netip.AddrPort]*peer
	routes map[netip.Addr]route
}

func newTable(subnet netip.Addr, noQUIC bool) *table {
	return &table{subnet: subnet, noQUIC: noQUIC, peers: map[netip.AddrPort]*peer{}, routes: map[netip.Addr]route{}}
}

// add adds a peer and reports whether it was unknown.
func (t *table) add(at netip.AddrPort, p peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers[at] != nil {
		return false
	}
	t.peers[at] = &p
	return true
}

// remove removes a peer and reports whether it was known.
func (t *table) remove(at netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.peers[at]
	delete(t.peers, at)
	return known
}

// copies returns the current peers and routes.
func (t *table) copies() (map[netip.AddrPort]peer, map[netip.Addr]route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	peers := map[netip.AddrPort]peer{}
	for at, p := range t.peers {
		peers[at] = *p
	}
	return peers, maps.Clone(t.routes)
}

// silent reports whether the peer gets no messages. TLS is only for private networks, which the stub does not support.
func (t *table) silent(p *peer) bool {
	return p.proto == "tls" || p.proto == "quic" && t.noQUIC || time.Since(p.dropped) < dropFor
}

// greetings returns a message for each peer with the ranges behind this daemon. It drops routes that were not announced
// for a while.
func (t *table) greetings() map[netip.AddrPort][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.routes, func(_ netip.Addr, r route) bool { return time.Since(r.heard) > deadAfter })
	all := map[netip.AddrPort][]byte{}
	for at, p := range t.peers {
		if t.silent(p) {
			continue
		}
		text := entry([]byte{saysGreeting | p.mark()}, t.subnet, 0)
		for subnet, r := range t.routes {
			if r.via != at { // split horizon
				text = entry(text, subnet, r.metric)
			}
		}
		all[at] = text
	}
	return all
}

func entry(text []byte, subnet netip.Addr, metric int) []byte {
	a := subnet.As16()
	return binary.BigEndian.AppendUint16(append(text, a[:8]...), uint16(metric))
}

// hear records a message from a peer, which may be unknown so far, and applies the routes of a greeting. It ignores a
// message from a silent peer and returns false.
func (t *table) hear(at netip.AddrPort, proto string, message []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[at]
	if p == nil {
		p = &peer{kind: "inbound", proto: proto}
		t.peers[at] = p
	}
	if t.silent(p) {
		return false
	}
	p.heard = time.Now()
	p.received += int64(len(message))
	if message[0] == saysGreeting {
		t.learn(at, message[1:])
	}
	return true
}

// learn applies the routes that a peer announces. A route replaces a longer route, and any earlier route by the same
// peer. The caller must hold mu.
func (t *table) learn(at netip.AddrPort, text []byte) {
	for ; len(text) >= 10; text = text[10:] {
		var a [16]byte
		copy(a[:8], text)
		subnet, metric := netip.AddrFrom16(a), int(binary.BigEndian.Uint16(text[8:]))+10
		if subnet == t.subnet || metric >= infinite {
			continue
		}
		if known, ok := t.routes[subnet]; !ok || known.via == at || metric < known.metric {
			t.routes[subnet] = route{at, metric, time.Now()}
		}
	}
}

// hop returns the peer for a packet and the flag of its messages. If a peer uses QUIC and the packet has tooLarge bytes
// or more, hop drops the peer and sets dropped.
func (t *table) hop(to netip.Addr, size int) (via netip.AddrPort, mark byte, known, dropped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, known := t.routes[subnetOf(to)]
	p := t.peers[r.via]
	if p == nil {
		return r.via, 0, known, false
	}
	p.sent += int64(size)
	mark = p.mark()
	if known && mark != 0 && size >= tooLarge {
		p.dropped = time.Now()
		maps.DeleteFunc(t.routes, func(_ netip.Addr, other route) bool { return other.via == r.via })
		return r.via, mark, true, true
	}
	return r.via, mark, known, false
}
