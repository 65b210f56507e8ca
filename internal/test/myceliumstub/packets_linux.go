package myceliumstub

import (
	"context"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Messages between peers: a byte for the kind, then either an IPv6 packet, or the ranges that the sender can route to,
// each with 8 bytes and a metric of 2 bytes, its own first.
const (
	saysPacket   = 0
	saysGreeting = 1
	byQUIC       = 0x80 // flag of messages over QUIC
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
	infinite   = 1 << 10 // metrics: a peer has 10
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

// silent reports whether the peer gets no messages. TLS is only for private networks, which the stub does not support.
func (d *daemon) silent(p *peer) bool {
	return p.proto == "tls" || p.proto == "quic" && d.noQUIC || time.Since(p.dropped) < dropFor
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

// greet regularly announces the ranges behind this node to all peers, and drops routes that were not announced for a
// while.
func (d *daemon) greet(ctx context.Context) {
	tick := time.NewTicker(greetEvery)
	defer tick.Stop()
	for {
		d.mu.Lock()
		maps.DeleteFunc(d.routes, func(_ netip.Addr, r route) bool { return time.Since(r.heard) > deadAfter })
		greetings := map[netip.AddrPort][]byte{}
		for at, p := range d.peers {
			if d.silent(p) {
				continue
			}
			text := entry([]byte{saysGreeting | p.mark()}, subnetOf(d.address), 0)
			for subnet, r := range d.routes {
				if r.via != at { // split horizon
					text = entry(text, subnet, r.metric)
				}
			}
			greetings[at] = text
		}
		d.mu.Unlock()
		for at, text := range greetings {
			_, _ = d.wire.WriteToUDPAddrPort(text, at) // a missing peer gets the next greeting
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func entry(text []byte, subnet netip.Addr, metric int) []byte {
	a := subnet.As16()
	return binary.BigEndian.AppendUint16(append(text, a[:8]...), uint16(metric))
}

// fromWire receives messages of peers until the socket is closed.
func (d *daemon) fromWire() {
	b := make([]byte, 64<<10)
	for {
		n, at, err := d.wire.ReadFromUDPAddrPort(b)
		if err != nil {
			if d.closed(err) {
				return
			}
			continue // an ICMP error, because a peer is missing
		}
		at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		proto := "tcp"
		if n > 0 && b[0]&byQUIC != 0 {
			b[0], proto = b[0]&^byQUIC, "quic"
		}
		if n == 0 || proto == "quic" && d.noQUIC {
			continue
		}
		d.mu.Lock()
		p := d.peers[at]
		if p == nil {
			p = &peer{kind: "inbound", proto: proto}
			d.peers[at] = p
		}
		if d.silent(p) {
			d.mu.Unlock()
			continue
		}
		p.heard = time.Now()
		p.received += int64(n)
		if b[0] == saysGreeting {
			d.learn(at, b[1:n])
		}
		d.mu.Unlock()
		if b[0] == saysPacket {
			d.forward(slices.Clone(b[1:n]), false)
		}
	}
}

// learn adds announced routes that are shorter than the known ones.
func (d *daemon) learn(at netip.AddrPort, text []byte) {
	for ; len(text) >= 10; text = text[10:] {
		var a [16]byte
		copy(a[:8], text)
		subnet, metric := netip.AddrFrom16(a), int(binary.BigEndian.Uint16(text[8:]))+10
		if subnet == subnetOf(d.address) || metric >= infinite {
			continue
		}
		if known, ok := d.routes[subnet]; !ok || known.via == at || metric < known.metric {
			d.routes[subnet] = route{at, metric, time.Now()}
		}
	}
}

// fromTun receives packets of the host until the interface is closed.
func (d *daemon) fromTun() {
	b := make([]byte, 64<<10)
	for {
		n, err := d.tun.Read(b)
		if err != nil {
			return
		}
		if n >= 40 && b[0]>>4 == 6 {
			d.forward(slices.Clone(b[:n]), true)
		}
	}
}

// overlay is the address range of the overlay.
var overlay = netip.MustParsePrefix("400::/7")

// forward routes a packet. A packet of this host without a route is answered with an ICMP error.
func (d *daemon) forward(packet []byte, own bool) {
	if len(packet) < 40 {
		return
	}
	from, to := netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
	switch {
	case own && !overlay.Contains(from):
		d.answer(packet, unreachable, sourcePolicy)
		return
	case own && subnetOf(to) == subnetOf(d.address):
		d.answer(packet, unreachable, addressUnreachable)
		return
	case subnetOf(to) == subnetOf(d.address):
		d.toHost(packet)
		return
	}
	d.mu.Lock()
	r, ok := d.routes[subnetOf(to)]
	mark := byte(0)
	if p := d.peers[r.via]; p != nil {
		p.sent += int64(len(packet))
		if mark = p.mark(); ok && mark != 0 && len(packet) >= tooLarge {
			p.dropped = time.Now()
			maps.DeleteFunc(d.routes, func(_ netip.Addr, other route) bool { return other.via == r.via })
			d.log.Error("datagram too large", "peer", r.via, "bytes", len(packet))
			d.mu.Unlock()
			return
		}
	}
	d.mu.Unlock()
	switch {
	case !ok && own:
		d.answer(packet, unreachable, noRoute)
	case ok && (own || packet[7] > 1):
		if !own {
			packet[7]-- // prevents endless loops
		}
		_, _ = d.wire.WriteToUDPAddrPort(append([]byte{saysPacket | mark}, packet...), r.via) // packets may be lost
	}
}

func (d *daemon) toHost(packet []byte) {
	if d.tun != nil {
		_, _ = d.tun.Write(packet) // packets may be lost
	}
}

// Numbers of ICMPv6, RFC 4443.
const (
	unreachable        = 1
	noRoute            = 0
	addressUnreachable = 3
	sourcePolicy       = 5
)

// answer sends an ICMP error to the sender of a packet.
func (d *daemon) answer(packet []byte, kind, code byte) {
	if packet[6] == 58 && len(packet) > 40 && packet[40] < 128 {
		return // no errors about errors
	}
	said := packet[:min(len(packet), 1280-48)]
	body := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, said...)
	source := d.address.As16()
	reply := make([]byte, 40, 40+len(body))
	reply[0], reply[6], reply[7] = 0x60, 58, 64
	binary.BigEndian.PutUint16(reply[4:], uint16(len(body)))
	copy(reply[8:], source[:])
	copy(reply[24:], packet[8:24])
	binary.BigEndian.PutUint16(body[2:], checksum(reply[8:40], body))
	d.toHost(append(reply, body...))
}

// checksum returns the checksum of an ICMPv6 message.
func checksum(addresses, body []byte) uint16 {
	sum := uint32(len(body)) + 58
	for _, part := range [][]byte{addresses, body} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
		if len(part)%2 == 1 {
			sum += uint32(part[len(part)-1]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
