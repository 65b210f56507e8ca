//go:build linux

package netdev

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// ICMPv6 message types of RFC 4861.
const (
	routerAdvertisement    = 134
	neighbourAdvertisement = 136
	redirect               = 137
)

// machine acts as a virtual machine: it opens a tap and sends and receives frames.
type machine struct {
	testing.TB
	tap       *os.File
	port      sal.Port
	sent, got int64 // bytes
}

func openTap(t testing.TB, x *fixture, p sal.Port) *machine {
	t.Helper()
	m := &machine{TB: t, port: p}
	testenv.InNetns(t, x.Netns, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(p.Device)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return err
		}
		m.tap = os.NewFile(uintptr(fd), p.Device)
		return nil
	})
	t.Cleanup(func() { m.tap.Close() })
	return m
}

// frame returns an ICMPv6 message as a complete frame.
func frame(to, from []byte, source, target netip.Addr, message ...byte) []byte {
	b := append(append(bytes.Clone(to), from...), 0x86, 0xdd)
	b = append(b, 0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, 255)
	b = append(append(b, source.AsSlice()...), target.AsSlice()...)
	sum := uint32(len(message)) + unix.IPPROTO_ICMPV6
	for _, part := range [][]byte{b[22:54], message} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(message[2:], ^uint16(sum))
	return append(b, message...)
}

func (m *machine) send(b []byte) {
	m.Helper()
	if _, err := m.tap.Write(b); err != nil {
		m.Fatal(err)
	}
	m.sent += int64(len(b))
}

const (
	echoRequest  = 128
	echoReply    = 129
	solicitation = 135
)

// asks sends echo requests to the gateway from its own address until it gets a reply. It answers neighbour
// solicitations.
func (m *machine) asks(gateway []byte) bool {
	m.Helper()
	own, b := m.port.IPv6.Addr(), make([]byte, 2048)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		m.send(frame(gateway, m.port.MAC, own, m.port.Gateway, echoRequest, 0, 0, 0, 0, 7, 0, 1))
		_ = m.tap.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			n, err := m.tap.Read(b)
			if err != nil {
				break
			}
			m.got += int64(n)
			if n < 55 || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_IPV6 || b[20] != unix.IPPROTO_ICMPV6 {
				continue
			}
			switch asked := b[54:n]; {
			case asked[0] == echoReply:
				return true
			case asked[0] == solicitation && bytes.Equal(asked[8:24], own.AsSlice()):
				said := append([]byte{neighbourAdvertisement, 0, 0, 0, 0x60, 0, 0, 0}, own.AsSlice()...)
				m.send(frame(b[6:12], m.port.MAC, own, netip.AddrFrom16([16]byte(b[22:38])), append(append(said, 2, 1), m.port.MAC...)...))
			}
		}
	}
	return false
}

func TestMachineCannotSpoofThroughItsTap(t *testing.T) {
	t.Parallel()
	x := front(t)
	vm := ownerOf("vm")
	ports, err := x.tap("vm")
	if err != nil {
		t.Fatal(err)
	}
	m := openTap(t, x, ports[0])
	l, err := linkAt(x, saltest.Resource(writ.KindNetwork, "front").HostName())
	if err != nil {
		t.Fatal(err)
	}
	if !m.asks(l) {
		t.Fatal("the gateway does not answer")
	}
	received, sent, err := x.Traffic(t.Context(), vm)
	if err != nil || sent != m.sent || received < m.got {
		t.Errorf("it received %d bytes of at least %d and sent %d of %d, %v", received, m.got, sent, m.sent, err)
	}

	p := ports[0]
	all := netip.MustParseAddr("ff02::1")
	everybody := []byte{0x33, 0x33, 0, 0, 0, 1}
	own, other := p.IPv6.Addr(), p.IPv6.Addr().Next()
	advertisement := func(kind byte, of netip.Addr) []byte {
		return append(append(append([]byte{kind, 0, 0, 0, 0x20, 0, 0, 0}, of.AsSlice()...), 2, 1), p.MAC...)
	}
	arp := func(mac, ip []byte) []byte {
		b := append(append(bytes.Repeat([]byte{0xff}, 6), p.MAC...), 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1)
		return append(append(append(b, mac...), ip...), make([]byte, 10)...)
	}
	udp := func(from uint16, version, protocolAt int, header []byte) []byte {
		kind := map[int][]byte{4: {0x08, 0x00}, 6: {0x86, 0xdd}}[version]
		header[protocolAt] = unix.IPPROTO_UDP
		b := append(append(append(bytes.Clone(everybody), p.MAC...), kind...), header...)
		return append(binary.BigEndian.AppendUint16(b, from), 0, 68, 0, 8, 0, 0)
	}
	ip4 := slices.Concat([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 0, 0, 0}, p.IPv4.Addr().AsSlice(), []byte{255, 255, 255, 255})
	ip6 := slices.Concat([]byte{0x60, 0, 0, 0, 0, 8, 0, 64}, netip.MustParseAddr("fe80::1").AsSlice(), all.AsSlice())
	for what, b := range map[string][]byte{
		"it gives out IPv4 addresses":          udp(67, 4, 9, slices.Clone(ip4)),
		"it gives out addresses":               udp(547, 6, 6, slices.Clone(ip6)),
		"another's hardware address":           frame(l, l, own, p.Gateway, echoRequest, 0, 0, 0, 0, 7, 0, 2),
		"another's address":                    frame(l, p.MAC, other, p.Gateway, echoRequest, 0, 0, 0, 0, 7, 0, 2),
		"it is the gateway":                    frame(everybody, p.MAC, own, all, advertisement(neighbourAdvertisement, p.Gateway)...),
		"it is the gateway, from the wire":     frame(everybody, p.MAC, netip.MustParseAddr("fe80::1"), all, advertisement(neighbourAdvertisement, p.Gateway)...),
		"it is a router":                       frame(everybody, p.MAC, netip.MustParseAddr("fe80::1"), all, routerAdvertisement, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0),
		"there is a better way":                frame(everybody, p.MAC, netip.MustParseAddr("fe80::1"), all, advertisement(redirect, own)...),
		"it has the router's IPv4 address":     arp(p.MAC, p.Router.AsSlice()),
		"another has its IPv4 address":         arp(l, p.IPv4.Addr().AsSlice()),
		"something that is neither IP nor ARP": append(append(bytes.Clone(everybody), p.MAC...), 0x88, 0xcc, 1, 2, 3, 4),
	} {
		before := x.droppedAt(vm)
		m.send(b)
		if after := x.droppedAt(vm); after.Spoofed != before.Spoofed+1 {
			t.Errorf("%s: %+v before, %+v after", what, before, after)
		}
	}
	for what, b := range map[string][]byte{
		"it asks for an IPv4 address": udp(68, 4, 9, slices.Clone(ip4)),
		"it asks for an address":      udp(546, 6, 6, slices.Clone(ip6)),
		"its own name":                frame(everybody, p.MAC, own, all, advertisement(neighbourAdvertisement, own)...),
		"a name on the wire":          frame(everybody, p.MAC, netip.MustParseAddr("fe80::2"), all, advertisement(neighbourAdvertisement, netip.MustParseAddr("fe80::2"))...),
		"its own IPv4 address":        arp(p.MAC, p.IPv4.Addr().AsSlice()),
		"nobody yet":                  arp(p.MAC, make([]byte, 4)),
	} {
		before := x.droppedAt(vm)
		m.send(b)
		if after := x.droppedAt(vm); after != before {
			t.Errorf("%s: %+v before, %+v after", what, before, after)
		}
	}
}

// linkAt returns the hardware address of a link on a host.
func linkAt(x *fixture, name string) ([]byte, error) {
	kernel, closeKernel, err := handleAt(x.Netns)
	if err != nil {
		return nil, err
	}
	defer closeKernel()
	l, err := kernel.LinkByName(name)
	if err != nil {
		return nil, err
	}
	return l.Attrs().HardwareAddr, nil
}
