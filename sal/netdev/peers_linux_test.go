package netdev

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// A network on the range of the supervisor would cut the node off, although only the default route leads there.
//
// Promise: Networks and containers: A network takes no range with a nameserver of its node or a host that the node is
// connected to.
// How: The driver compares the range of a new network with the nameservers and with the open TCP connections.
func TestRangesOfNeededHostsAreRefused(t *testing.T) {
	t.Parallel()
	x := front(t)
	x.Nameservers = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.61.0.53")} }
	ip := uplinks(t, x.Netns)
	other := testenv.Netns(t)
	ip("link set left-peer netns " + other)
	for _, line := range [][]string{
		{"ip", "link", "set", "lo", "up"}, {"ip", "link", "set", "left-peer", "up"},
		{"ip", "address", "add", "192.0.2.1/24", "dev", "left-peer"}, {"ip", "address", "add", "10.60.0.5/32", "dev", "lo"},
	} {
		run(t, other, line...)
	}
	var server net.Listener
	testenv.InNetns(t, other, func() (err error) {
		server, err = net.Listen("tcp", "10.60.0.5:7443")
		return err
	})
	defer server.Close()
	var client net.Conn
	testenv.InNetns(t, x.Netns, func() (err error) {
		client, err = net.Dial("tcp", "10.60.0.5:7443")
		return err
	})
	for _, taken := range []string{"10.60.0.0/24", "10.61.0.0/16"} {
		if _, err := x.do("network.create", "back", map[string]any{"ipv4": taken}); writ.CodeOf(err) != writ.CodeResourceConflict {
			t.Errorf("%s: %v", taken, err)
		}
	}
	x.must("network.create", "side", map[string]any{"ipv4": "10.62.0.0/24"})
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Fatal(err)
	}
}
