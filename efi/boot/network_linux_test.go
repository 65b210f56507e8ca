package boot

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/vishvananda/netlink"

	"writ/internal/testenv"
)

// acknowledge is what a DHCP server says.
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

func TestALeaseIsReadAndOneThatIsNoneRefused(t *testing.T) {
	l, err := readLease(acknowledge(t, dhcpv4.WithRouter(net.ParseIP("10.9.0.1")), dhcpv4.WithDNS(net.ParseIP("10.9.0.2")),
		dhcpv4.WithOption(dhcpv4.OptHostName("Rack-7")), dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0xaa})))
	if err != nil || l.String() != "10.9.0.7/24, gateway 10.9.0.1" || l.nameservers[0].String() != "10.9.0.2" || l.hostname != "rack-7" || l.mtu != 1450 || l.valid != time.Minute {
		t.Errorf("readLease = %+v, %v", l, err)
	}
	for name, more := range map[string]dhcpv4.Modifier{
		"no address": dhcpv4.WithYourIP(net.IPv4zero),
		"no mask":    dhcpv4.WithoutOption(dhcpv4.OptionSubnetMask),
	} {
		if l, err := readLease(acknowledge(t, more)); err == nil {
			t.Errorf("with %s it is %+v", name, l)
		}
	}
	if l, err := readLease(acknowledge(t, dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0, 68}))); err != nil || l.mtu != 0 {
		t.Errorf("an MTU that carries no packet is taken: %+v, %v", l, err)
	}
}

func TestNameserversOfTheConfigurationComeFirst(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	got := resolvers([]netip.Addr{c}, map[int][]netip.Addr{7: {b, c}, 2: {a}})
	if len(got) != 3 || got[0] != c || got[1] != a || got[2] != b {
		t.Errorf("they are %v", got)
	}
}

func TestOnlyThePowerButtonTurnsOff(t *testing.T) {
	pressed := append(make([]byte, 16), 1, 0, 116, 0, 1, 0, 0, 0)
	if !isPowerPressed(pressed) {
		t.Error("the button does not count")
	}
	for name, event := range map[string][]byte{
		"released": append(make([]byte, 16), 1, 0, 116, 0, 0, 0, 0, 0), "another key": append(make([]byte, 16), 1, 0, 30, 0, 1, 0, 0, 0),
		"no key": append(make([]byte, 16), 0, 0, 116, 0, 1, 0, 0, 0), "cut": pressed[:20],
	} {
		if isPowerPressed(event) {
			t.Errorf("an event that is %s turns the machine off", name)
		}
	}
}

// A card gets what a DHCP server gives, renews it, and gets the next address when the server gives another one.
func TestACardFollowsItsDHCPServer(t *testing.T) {
	t.Parallel()
	space := testenv.Netns(t)
	var ours netlink.Link
	var server *server4.Server
	var renewals atomic.Int32
	host := net.ParseIP("10.9.0.1")
	testenv.InNetns(t, space, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card"}, PeerName: "host"}); err != nil {
			return err
		}
		peer, err := netlink.LinkByName("host")
		if err != nil {
			return err
		}
		if ours, err = netlink.LinkByName("card"); err != nil {
			return err
		}
		for _, err := range []error{netlink.AddrAdd(peer, &netlink.Addr{IPNet: &net.IPNet{IP: host, Mask: net.CIDRMask(24, 32)}}), netlink.LinkSetUp(peer), netlink.LinkSetUp(ours)} {
			if err != nil {
				return err
			}
		}
		server, err = server4.NewServer("host", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
			kind, address := dhcpv4.MessageTypeOffer, "10.9.0.7"
			if m.MessageType() == dhcpv4.MessageTypeRequest {
				kind = dhcpv4.MessageTypeAck
				if !m.ClientIPAddr.IsUnspecified() && renewals.Add(1) > 1 {
					address = "10.9.0.8"
				}
			}
			answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP(address)), dhcpv4.WithLeaseTime(2),
				dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(host), dhcpv4.WithDNS(host), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(host)))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), peer)
			}
		})
		return err
	})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve() }()
	t.Cleanup(func() { server.Close(); <-served })

	var said bytes.Buffer
	m := &machine{consoles: consoles{since: func() time.Duration { return 0 }}}
	m.add(&said)
	etc, named := t.TempDir(), make(chan string, 16)
	m.network.init(etc, func(name []byte) error { named <- string(name); return nil })
	m.network.cards[ours.Attrs().Index] = &card{link: ours}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go testenv.InNetns(t, space, func() error { ended <- m.leases(ctx, ours); return nil })
	for _, want := range []string{"card 10.9.0.7/24, gateway 10.9.0.1, by DHCP from 10.9.0.1", "card 10.9.0.8/24"} {
		select {
		case got := <-m.network.up:
			if !strings.HasPrefix(got, want) {
				t.Errorf("the card has %s, want %s", got, want)
			}
		case err := <-ended:
			t.Fatalf("the card is not served any more: %v", err)
		case <-time.After(time.Minute):
			t.Fatalf("the card does not get %s", want)
		}
	}
	testenv.InNetns(t, space, func() error {
		addresses, err := netlink.AddrList(ours, netlink.FAMILY_V4)
		if len(addresses) != 1 || addresses[0].IPNet.String() != "10.9.0.8/24" {
			t.Errorf("the card has the addresses %v", addresses)
		}
		routes, _ := netlink.RouteList(ours, netlink.FAMILY_V4)
		if len(routes) != 2 {
			t.Errorf("the card has the routes %v", routes)
		}
		return err
	})
	if text, err := os.ReadFile(filepath.Join(etc, "resolv.conf")); err != nil || string(text) != "nameserver 10.9.0.1\n" {
		t.Errorf("resolv.conf is %q, %v", text, err)
	}
	if name := <-named; !strings.HasPrefix(name, "node-") {
		t.Errorf("the machine is called %s", name)
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it ends without a reason")
	}
}
