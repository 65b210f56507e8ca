package netconfig

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/vishvananda/netlink"

	"writ/internal/test/testenv"
)

// acknowledge returns an ACK of a DHCP server.
func acknowledge(t *testing.T, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	ack, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithYourIP(net.ParseIP("10.9.0.7")), dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(60),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

func TestLeaseIsReadAndAnInvalidOneRefused(t *testing.T) {
	l, err := readLease(acknowledge(t, dhcpv4.WithRouter(net.ParseIP("10.9.0.1")), dhcpv4.WithDNS(net.ParseIP("10.9.0.2")),
		dhcpv4.WithOption(dhcpv4.OptHostName("Rack-7")), dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0xaa})))
	if err != nil || l.String() != "10.9.0.7/24, gateway 10.9.0.1" || l.nameservers[0].String() != "10.9.0.2" || l.hostname != "rack-7" || l.mtu != 1450 || l.valid != time.Minute {
		t.Errorf("readLease = %+v, %v", l, err)
	}
	for name, more := range map[string]dhcpv4.Modifier{
		"no address": dhcpv4.WithYourIP(net.IPv4zero),
		"no mask":    dhcpv4.WithoutOption(dhcpv4.OptionSubnetMask),
		"loopback":   dhcpv4.WithYourIP(net.IPv4(127, 0, 0, 1)),
		"a group":    dhcpv4.WithYourIP(net.IPv4(224, 0, 0, 1)),
		"everybody":  dhcpv4.WithYourIP(net.IPv4bcast),
	} {
		if l, err := readLease(acknowledge(t, more)); err == nil {
			t.Errorf("with %s it is %+v", name, l)
		}
	}
	for _, router := range []net.IP{net.IPv4zero, net.IPv4(127, 0, 0, 1), net.IPv4bcast} {
		if l, err := readLease(acknowledge(t, dhcpv4.WithRouter(router))); err != nil || l.gateway.IsValid() {
			t.Errorf("the gateway %s is taken: %+v, %v", router, l, err)
		}
	}
	if l, err := readLease(acknowledge(t, dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 68}))); err != nil || l.mtu != 0 {
		t.Errorf("an MTU that carries no packet is taken: %+v, %v", l, err)
	}
}

func TestNameserversOfTheConfigurationComeFirst(t *testing.T) {
	a, b, c, d := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("2001:db8::1")
	got := resolvers([]netip.Addr{c}, map[source][]netip.Addr{{7, byDHCP}: {b, c}, {2, byRouter}: {d}, {2, byDHCP}: {a}})
	if want := []netip.Addr{c, a, d, b}; !slices.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
}

func TestListIsReadAgainAfterAKernelChange(t *testing.T) {
	calls := 0
	all, err := listed(func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if len(all) != 2 || err != nil {
		t.Errorf("it is %v, %v", all, err)
	}
	if _, err := listed(func() ([]int, error) { return nil, netlink.ErrDumpInterrupted }); err == nil {
		t.Error("a list that never ends is complete")
	}
}

// Frequent address changes, which a stranger can cause, flood neither the console nor the log.
func TestFrequentAddressChangesAreReportedRarely(t *testing.T) {
	said := new(console)
	n := New(said, new(Settings), new(sync.WaitGroup), t.TempDir(), nil)
	told := make(chan int)
	go func() {
		count := 0
		for range n.up {
			count++
		}
		told <- count
	}()
	for i := range 10_000 {
		n.tell(t.Context(), "eth0 2001:db8::%x", i)
		n.tellLost("eth0 has lost 2001:db8::%x", i)
	}
	close(n.up)
	if got, lost := <-told, strings.Count(said.String(), "has lost"); got < changesAtOnce || got > 2*changesAtOnce || lost < changesAtOnce || lost > 2*changesAtOnce {
		t.Errorf("reported %d and %d of 10,000 changes of each kind", got, lost)
	}
}

// A card applies a DHCP lease, renews it, and switches to another address if the server assigns one.
//
// Promise: Machines from an image: A network card keeps its DHCP lease and follows its server to another address.
// How: It renews after half of the time.
// Also: TestCardAppliesItsWholeLeaseOrNothing, TestUnsupportedMTUKeepsTheAddress,
// TestRemovedCardIsForgotten.
func TestACardFollowsItsDHCPServer(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	host := netip.MustParsePrefix("10.9.0.1/24")
	l.hasAddress(host)
	var renewals atomic.Int32
	l.serve(func() (server, error) {
		return server4.NewServer("host", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
			kind, address := dhcpv4.MessageTypeOffer, "10.9.0.7"
			if m.MessageType() == dhcpv4.MessageTypeRequest {
				kind = dhcpv4.MessageTypeAck
				if !m.ClientIPAddr.IsUnspecified() && renewals.Add(1) > 1 {
					address = "10.9.0.8"
				}
			}
			host := net.IP(host.Addr().AsSlice())
			answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP(address)), dhcpv4.WithLeaseTime(2),
				dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(host), dhcpv4.WithDNS(host), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(host)))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), peer)
			}
		})
	})
	l.start()
	l.gets("card 10.9.0.7/24, gateway 10.9.0.1, by DHCP from 10.9.0.1")
	l.gets("card 10.9.0.8/24")
	l.hasOnly(v4, "10.9.0.8/24")
	if routes, err := netlink.RouteList(l.card.link, netlink.FAMILY_V4); len(routes) != 2 {
		t.Errorf("the card has the routes %v, %v", routes, err)
	}
	l.resolves("10.9.0.1")
	l.isCalled("node-")
}

// While servers refuse a card, its reason keeps the same text, so that the repeated failure counts as one.
func TestRefusedCardShowsTheReasonWhileItRetries(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("10.9.0.1/24"))
	said := make(chan string, 64)
	var attempts atomic.Int32
	l.serve(func() (server, error) {
		return server4.NewServer("host", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
			kind := dhcpv4.MessageTypeNak
			if m.MessageType() == dhcpv4.MessageTypeDiscover {
				kind = dhcpv4.MessageTypeOffer
				if attempts.Add(1) > 1 {
					said <- l.Network.String()
				}
			}
			answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.IPv4(10, 9, 0, 7)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 9, 0, 1))))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), peer)
			}
		})
	})
	var solicits atomic.Int32
	l.answersDHCPv6(func(_ int, m *dhcpv6.Message) []*dhcpv6.Message {
		if m.MessageType == dhcpv6.MessageTypeSolicit {
			if solicits.Add(1) > 1 {
				said <- l.Network.String()
			}
			return []*dhcpv6.Message{answerTo(m, leaseOf("2001:db8::7", 100, 200, 300, 300))}
		}
		return []*dhcpv6.Message{answerTo(m, &dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail, StatusMessage: "none left"})}
	})
	l.routes(managed())
	l.start()
	l.eventually("both servers are asked again", func() bool { return attempts.Load() > 1 && solicits.Load() > 1 })
	for _, family := range []string{"got no address by DHCP: ", "got no address by DHCPv6: "} {
		l.eventually(family, func() bool { return strings.Contains(<-said, family) })
	}
	if text := l.Network.String(); strings.Contains(text, "asks for an address") {
		t.Errorf("page during a renewal = %s", text)
	}
}

// An MTU that the card does not support does not cost the address.
func TestUnsupportedMTUKeepsTheAddress(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	for range 3 { // like renewals
		if err := l.Network.apply(l.card, byDHCP, lease{address: netip.MustParsePrefix("10.9.0.7/24"), mtu: 1 << 20}); err != nil {
			t.Error(err)
		}
	}
	l.hasOnly(v4, "10.9.0.7/24")
	l.says("error: set the MTU 1048576 of card from DHCP: ")
	if said := l.said.String(); strings.Count(said, "MTU") > 1 {
		t.Errorf("the error is repeated:\n%s", said)
	}
}

// An unplugged card is removed, with its nameservers.
func TestRemovedCardIsForgotten(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("10.9.0.1/24"))
	l.serve(func() (server, error) {
		return server4.NewServer("host", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
			kind := dhcpv4.MessageTypeOffer
			if m.MessageType() == dhcpv4.MessageTypeRequest {
				kind = dhcpv4.MessageTypeAck
			}
			host := net.IPv4(10, 9, 0, 1)
			answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.IPv4(10, 9, 0, 7)), dhcpv4.WithLeaseTime(2), dhcpv4.WithDNS(host),
				dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(host)))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), peer)
			}
		})
	})
	l.start()
	l.gets("card 10.9.0.7/24")
	l.resolves("10.9.0.1")
	if err := netlink.LinkDel(l.card.link); err != nil {
		t.Fatal(err)
	}
	l.says("card is gone")
	l.resolves()
	if text := l.Network.String(); text != "no network card was found" {
		t.Errorf("page = %s", text)
	}
}

// Some clouds assign a /32 with a gateway outside it. If a lease cannot be applied, no part of it remains.
func TestCardAppliesItsWholeLeaseOrNothing(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("10.9.0.1/24"))
	var requests atomic.Int32
	l.serve(func() (server, error) {
		return server4.NewServer("host", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
			// An address cannot be its own gateway.
			kind, address, router := dhcpv4.MessageTypeOffer, net.IPv4(10, 9, 0, 6), net.IPv4(10, 9, 0, 6)
			if m.MessageType() == dhcpv4.MessageTypeRequest {
				kind = dhcpv4.MessageTypeAck
				requests.Add(1)
			}
			if requests.Load() > 1 || kind == dhcpv4.MessageTypeOffer && requests.Load() == 1 {
				address, router = net.IPv4(10, 9, 0, 7), net.IPv4(10, 9, 0, 1)
			}
			answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(address), dhcpv4.WithLeaseTime(60),
				dhcpv4.WithNetmask(net.CIDRMask(32, 32)), dhcpv4.WithRouter(router), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 9, 0, 1))))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), peer)
			}
		})
	})
	l.start()
	l.gets("card 10.9.0.7/32, gateway 10.9.0.1, by DHCP from 10.9.0.1")
	l.hasOnly(v4, "10.9.0.7/32")
	if routes, err := netlink.RouteList(l.card.link, netlink.FAMILY_V4); err != nil || len(routes) != 1 || !routes[0].Gw.Equal(net.IPv4(10, 9, 0, 1)) {
		t.Errorf("the card has the routes %v, %v", routes, err)
	}
}
