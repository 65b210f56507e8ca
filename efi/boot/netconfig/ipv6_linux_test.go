package netconfig

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
)

// On a network with IPv6 only and without DHCP, a card uses an address after duplicate detection. It follows changes of
// nameservers and addresses that its router advertises, and ignores packets from other networks.
//
// Promise: Machines from an image: In a network with IPv6 only, a card gets a unique address, nameservers and next
// hop from its router.
// How: The kernel creates and tests addresses; the first process listens to routers, and a silent family delays no
// start by the other family.
// Also: TestTheFirstProcessPreparesAMachine, TestAMachineJoinsInANetworkWithIPv6Only
//
// Promise: Machines from an image: Packets of another network are not accepted as advertisements, and an unknown host
// adds at most three nameservers and prolongs no wait.
// How: Hop limit and source of each packet are checked as the kernel does; each query has a limit; log lines are
// limited.
// Also: TestAdvertisedNameserversAreBounded, TestAddressesThatOthersHaveAreBounded,
// TestFrequentAddressChangesAreReportedRarely, TestAnswersForOthersProlongNoWait.
func TestACardFollowsItsRouter(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	r := l.routes(advertise("2001:db8:1::/64", nameserver(time.Hour, "2001:db8:1::53", "fe80::1", "ff02::1")))
	l.start()
	l.gets("card 2001:db8:1:0:")
	if got := l.seen[0]; !strings.Contains(got, "/64, gateway fe80::1, advertised by a router for ") {
		t.Errorf("line on the console = %s", got)
	}
	all, err := netlink.AddrList(l.card.link, netlink.FAMILY_V6)
	for _, one := range all {
		if one.Flags&unix.IFA_F_TENTATIVE != 0 {
			t.Errorf("line on the console before the duplicate check of %s", one.IP)
		}
	}
	if err != nil || len(all) != 2 {
		t.Errorf("the card has the addresses %v, %v", all, err)
	}
	if text := l.Network.String(); !strings.Contains(text, " has 2001:db8:1:0:") {
		t.Errorf("page = %s", text)
	}
	l.resolves("2001:db8:1::53", "fe80::1%card")
	r.say(&ndp.RouterAdvertisement{Options: []ndp.Option{nameserver(time.Hour, "2001:db8::bad")}}, &ipv6.ControlMessage{HopLimit: 64, Src: hostLinkLocal.AsSlice(), IfIndex: l.host.Attrs().Index})
	r.says(advertise("2001:db8:2::/64", nameserver(0, "2001:db8:1::53"), nameserver(time.Hour, "2001:db8:2::53")))
	l.gets("card 2001:db8:2:0:")
	l.resolves("2001:db8:2::53", "fe80::1%card")
}

// Routers can advertise any number of nameservers, including invalid ones. Programs get at most three valid ones.
func TestAdvertisedNameserversAreBounded(t *testing.T) {
	now, s := time.Now(), advertised{}
	said := func(options ...ndp.Option) advertisement {
		return advertisement{&ndp.RouterAdvertisement{Options: options}, netip.MustParseAddr("fe80::2%eth0")}
	}
	if !s.hear(said(nameserver(time.Minute, "::", "::1", "ff02::1", "2001:db8::1", "2001:db8::2"), nameserver(time.Hour, "2001:db8::3", "2001:db8::4")), now) || len(s) != serversAtMost {
		t.Errorf("they are %v", s)
	}
	if s.hear(said(nameserver(time.Minute, "2001:db8::1")), now) {
		t.Error("a known nameserver counts as new")
	}
	if !s.forget(now.Add(2*time.Minute)) || len(s) != 2 {
		t.Errorf("after a minute they are %v", s)
	}
	if !s.hear(said(nameserver(0, "2001:db8::3")), now) || len(s) != 1 {
		t.Errorf("when one is taken back they are %v", s)
	}
}

// A card gets all configured addresses except one that another machine uses, which it reports. It ignores routers.
//
// Promise: Machines from an image: A card with `writ.address` has exactly these addresses, also when routers
// advertise others; an occupied address is shown on the console.
// How: The kernel ignores router advertisements.
// Also: TestPageReportsADuplicateAddress.
func TestACardHasTheAddressesOfTheSettings(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("2001:db8::5/64"))
	for _, one := range []string{"10.9.0.4/24", "2001:db8::4/64", "2001:db8::5/64"} {
		l.settings.Addresses = append(l.settings.Addresses, netip.MustParsePrefix(one))
	}
	l.settings.Gateways = []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fe80::1")}
	l.settings.Nameservers = []netip.Addr{netip.MustParseAddr("2001:db8::53")}
	r := l.routes(advertise("2001:db8:1::/64", nameserver(time.Hour, "2001:db8:1::53")))
	l.start()
	l.gets("card 10.9.0.4/24, gateway 10.9.0.1, as configured")
	l.gets("card 2001:db8::4/64, gateway fe80::1, as configured")
	l.says("error: card does not use 2001:db8::5: another machine on its network uses this address")
	r.says(advertise("2001:db8:1::/64"))
	l.eventually("the kernel has an advertisement", func() bool { return counted(t, "Icmp6InRouterAdvertisements") > 0 })
	l.hasOnly(v4, "10.9.0.4/24")
	l.hasOnly(v6, "2001:db8::4/64", "2001:db8::5/64") // the kernel keeps the duplicate but does not use it
	routes, err := netlink.RouteList(l.card.link, netlink.FAMILY_V6)
	var gateways []net.IP
	for _, one := range routes {
		if one.Gw != nil {
			gateways = append(gateways, one.Gw)
		}
	}
	if err != nil || len(gateways) != 1 || gateways[0].String() != "fe80::1" {
		t.Errorf("the gateways are %v, %v", gateways, err)
	}
	if text := l.Network.String(); !strings.HasSuffix(text, " has 10.9.0.4/24, 2001:db8::4/64") {
		t.Errorf("page = %s", text)
	}
	l.resolves("2001:db8::53")
}

// If the only address of a card is a duplicate, the page shows that.
func TestPageReportsADuplicateAddress(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("2001:db8::5/64"))
	l.settings.Addresses = []netip.Prefix{netip.MustParsePrefix("2001:db8::5/64")}
	l.start()
	l.says("error: card does not use 2001:db8::5: another machine on its network uses this address")
	l.eventually("the page says so", func() bool {
		return strings.HasSuffix(l.Network.String(), " does not use 2001:db8::5: another machine on its network uses this address")
	})
}

// A stranger can claim every address that it advertises. The number of reports is limited.
func TestAddressesThatOthersHaveAreBounded(t *testing.T) {
	said := new(console)
	s := &ipv6Watch{
		Network: &Network{Host: said}, card: &card{link: &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}},
		twice: map[netip.Addr]bool{},
	}
	for i := range 1000 {
		s.hasAnother(*ipNet(netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i >> 8), 15: byte(i)}), 64)))
	}
	if n := strings.Count(said.String(), "error: "); n != takenTold || len(s.twice) != takenTold {
		t.Errorf("reported %d occupied addresses, remembered %d", n, len(s.twice))
	}
}

// The kernel ends the subscription of a slow subscriber. Renewing it closes the old socket.
func TestASubscriptionReplacesTheOneBefore(t *testing.T) {
	s := &ipv6Watch{done: make(chan struct{})}
	if err := s.subscribe(); err != nil {
		t.Fatal(err)
	}
	first := s.addresses
	if err := s.subscribe(); err != nil {
		t.Fatal(err)
	}
	for late := time.After(patience); ; {
		select {
		case _, open := <-first:
			if open {
				continue
			}
		case <-late:
			t.Error("the first one continues")
		}
		break
	}
	s.close()
}

// counted returns an IPv6 packet counter of this network namespace.
func counted(t *testing.T, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/snmp6")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == name {
			n, _ = strconv.Atoi(fields[1])
		}
	}
	return n
}
