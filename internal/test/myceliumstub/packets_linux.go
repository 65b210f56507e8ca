package myceliumstub

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"

	"writ/internal/sleep"
)

// A message between peers begins with a byte for its kind. An IPv6 packet follows, or the ranges that the sender can
// route to, its own range first. A range has 8 bytes and a metric of 2 bytes.
const (
	saysPacket   = 0
	saysGreeting = 1
	byQUIC       = 0x80 // flag of messages over QUIC
)

// greet regularly announces the ranges behind this node to all peers.
func (d *daemon) greet(ctx context.Context) {
	sleep.Every(ctx, greetEvery, func(context.Context) {
		for at, text := range d.table.greetings() {
			_, _ = d.wire.WriteToUDPAddrPort(text, at) // a missing peer gets the next greeting
		}
	})
}

// fromWire receives messages of peers until the socket is closed.
func (d *daemon) fromWire() {
	b := make([]byte, 64<<10)
	for {
		n, at, err := d.wire.ReadFromUDPAddrPort(b)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
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
		if d.table.hear(at, proto, b[:n]) && b[0] == saysPacket {
			d.forward(slices.Clone(b[1:n]), false)
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
		d.answer(packet, sourcePolicy)
		return
	case own && subnetOf(to) == subnetOf(d.address):
		d.answer(packet, addressUnreachable)
		return
	case subnetOf(to) == subnetOf(d.address):
		d.toHost(packet)
		return
	}
	via, mark, known, dropped := d.table.hop(to, len(packet))
	switch {
	case dropped:
		d.log.Error("datagram too large", "peer", via, "bytes", len(packet))
	case !known && own:
		d.answer(packet, noRoute)
	case known && (own || packet[7] > 1):
		if !own {
			packet[7]-- // prevents endless loops
		}
		_, _ = d.wire.WriteToUDPAddrPort(append([]byte{saysPacket | mark}, packet...), via) // packets may be lost
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

// answer sends an ICMP error to the sender of a packet. It does not answer ICMP errors.
func (d *daemon) answer(packet []byte, code byte) {
	if packet[6] != 58 || len(packet) <= 40 || packet[40] >= 128 {
		d.toHost(unreachableError(d.address, packet, code))
	}
}

// unreachableError returns an IPv6 packet with an ICMP error about the given packet.
func unreachableError(source netip.Addr, packet []byte, code byte) []byte {
	body := append([]byte{unreachable, code, 0, 0, 0, 0, 0, 0}, packet[:min(len(packet), 1280-48)]...)
	from := source.As16()
	reply := make([]byte, 40, 40+len(body))
	reply[0], reply[6], reply[7] = 0x60, 58, 64
	binary.BigEndian.PutUint16(reply[4:], uint16(len(body)))
	copy(reply[8:], from[:])
	copy(reply[24:], packet[8:24])
	binary.BigEndian.PutUint16(body[2:], checksum(reply[8:40], body))
	return append(reply, body...)
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
