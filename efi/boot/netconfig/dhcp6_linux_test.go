package netconfig

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"

	"writ/internal/test/testenv"
)

// dhcpv6Server is a scripted DHCPv6 server that records the messages it receives.
type dhcpv6Server struct {
	mu    sync.Mutex
	asked []*dhcpv6.Message
}

// answersDHCPv6 starts a server on the host. answers returns the replies to the n-th message of each type.
func (l *lan) answersDHCPv6(answers func(n int, asked *dhcpv6.Message) []*dhcpv6.Message) *dhcpv6Server {
	l.Helper()
	s := &dhcpv6Server{}
	l.serve(func() (server, error) {
		return server6.NewServer("host", nil, func(conn net.PacketConn, peer net.Addr, d dhcpv6.DHCPv6) {
			m, ok := d.(*dhcpv6.Message)
			if !ok {
				return
			}
			s.mu.Lock()
			s.asked = append(s.asked, m)
			n := s.count(m.MessageType)
			s.mu.Unlock()
			for _, reply := range answers(n, m) {
				_, _ = conn.WriteTo(reply.ToBytes(), peer)
			}
		})
	})
	return s
}

// count returns the number of received messages of a type. The caller holds mu.
func (s *dhcpv6Server) count(kind dhcpv6.MessageType) (n int) {
	for _, m := range s.asked {
		if m.MessageType == kind {
			n++
		}
	}
	return n
}

// had reports whether a message of a type was received.
func (s *dhcpv6Server) had(kind dhcpv6.MessageType) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(kind) > 0
}

var hostDUID = &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}

// answerTo builds the reply to a client's message, with options in addition to the required ones.
func answerTo(m *dhcpv6.Message, options ...dhcpv6.Option) *dhcpv6.Message {
	reply := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: m.TransactionID}
	if m.MessageType == dhcpv6.MessageTypeSolicit {
		reply.MessageType = dhcpv6.MessageTypeAdvertise
	}
	for _, o := range append([]dhcpv6.Option{dhcpv6.OptClientID(m.Options.ClientID()), dhcpv6.OptServerID(hostDUID)}, options...) {
		reply.AddOption(o)
	}
	return reply
}

// leaseOf returns an address option. Times are in seconds.
func leaseOf(address string, renew, rebind, preferred, valid time.Duration) *dhcpv6.OptIANA {
	o := &dhcpv6.OptIANA{T1: renew * time.Second, T2: rebind * time.Second}
	o.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(address), PreferredLifetime: preferred * time.Second, ValidLifetime: valid * time.Second})
	return o
}

// managed returns an advertisement that requests DHCPv6 for addresses.
func managed() *ndp.RouterAdvertisement {
	return &ndp.RouterAdvertisement{RouterLifetime: time.Hour, ManagedConfiguration: true}
}

// A card requests an address by DHCPv6 if its router announces it. It skips a server without free addresses, renews its
// address, accepts a new one, and asks all servers if its own does not answer. An expired address is removed.
//
// Promise: Machines from an image: A card gets an address by DHCPv6 if its router announces it, renews it, uses other
// servers, and declines an occupied address.
// How: DHCPv6 with renew, rebind and decline.
// Also: TestDuplicateDHCPv6AddressIsDeclined, TestNameserversAreAskedForByDHCPv6,
// TestDHCPv6LeaseIsReadAndAnInvalidOneRefused.
func TestACardFollowsItsDHCPv6Server(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.settings.Nameservers = []netip.Addr{netip.MustParseAddr("2001:db8::54")}
	dns := dhcpv6.OptDNS(net.ParseIP("2001:db8::53"))
	s := l.answersDHCPv6(func(n int, m *dhcpv6.Message) []*dhcpv6.Message {
		first := answerTo(m, leaseOf("2001:db8::7", 1, 2, 3, 60), dns)
		dhcpv6.WithFQDN(0, "Rack-7.example.org")(first)
		switch {
		case m.MessageType == dhcpv6.MessageTypeSolicit:
			other := answerTo(m, &dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail, StatusMessage: "none left"})
			dhcpv6.WithServerID(&dhcpv6.DUIDEN{EnterpriseNumber: 1})(other)
			return []*dhcpv6.Message{other, first}
		case m.MessageType == dhcpv6.MessageTypeRequest:
			return []*dhcpv6.Message{first}
		case m.MessageType == dhcpv6.MessageTypeRenew && n == 1:
			return []*dhcpv6.Message{answerTo(m, leaseOf("2001:db8::8", 1, 1, 2, 2), dns)}
		}
		return nil
	})
	l.routes(managed())
	l.start()
	l.gets("card 2001:db8::7/128, gateway fe80::1, by DHCPv6 for 1m0s")
	l.resolves("2001:db8::54", "2001:db8::53")
	l.isCalled("rack-7")
	l.gets("card 2001:db8::8/128, gateway fe80::1, by DHCPv6 for ")
	l.hasOnly(v6, "2001:db8::8/128")
	l.says("card has lost 2001:db8::8/128")
	l.resolves("2001:db8::54")
	if !s.had(dhcpv6.MessageTypeRebind) {
		t.Error("no other server is asked for the address")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.asked {
		id, ok := m.Options.ClientID().(*dhcpv6.DUIDLL)
		if !ok || !slices.Equal(id.LinkLayerAddr, l.card.link.Attrs().HardwareAddr) {
			t.Errorf("client id of the machine = %s", m.Options.ClientID())
		}
		toAll := m.MessageType == dhcpv6.MessageTypeSolicit || m.MessageType == dhcpv6.MessageTypeRebind
		if to := m.Options.ServerID(); toAll != (to == nil) || to != nil && !to.Equal(hostDUID) {
			t.Errorf("a message is to another server than it should be: %s", m)
		}
	}
}

// An address that another machine uses is declined, and the next one is used.
func TestDuplicateDHCPv6AddressIsDeclined(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.hasAddress(netip.MustParsePrefix("2001:db8::7/64"))
	var s *dhcpv6Server
	s = l.answersDHCPv6(func(_ int, m *dhcpv6.Message) []*dhcpv6.Message {
		if s.had(dhcpv6.MessageTypeDecline) {
			return []*dhcpv6.Message{answerTo(m, leaseOf("2001:db8::8", 100, 200, 300, 300))}
		}
		return []*dhcpv6.Message{answerTo(m, leaseOf("2001:db8::7", 100, 200, 300, 300))}
	})
	l.routes(managed())
	l.start()
	l.gets("card 2001:db8::8/128, gateway fe80::1, by DHCPv6 for 5m0s")
	l.says("error: card does not use 2001:db8::7: another machine on its network uses this address")
	l.hasOnly(v6, "2001:db8::8/128")
}

// If routers assign addresses and set the O flag, DHCPv6 is used for nameservers only.
func TestNameserversAreAskedForByDHCPv6(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	s := l.answersDHCPv6(func(_ int, m *dhcpv6.Message) []*dhcpv6.Message {
		return []*dhcpv6.Message{answerTo(m, dhcpv6.OptDNS(net.ParseIP("2001:db8::53")))}
	})
	a := advertise("2001:db8:1::/64", nameserver(time.Hour, "2001:db8:1::53"))
	a.OtherConfiguration = true
	l.routes(a)
	l.start()
	l.gets("card 2001:db8:1:0:")
	l.resolves("2001:db8:1::53", "2001:db8::53")
	if s.had(dhcpv6.MessageTypeSolicit) {
		t.Error("the server is asked for an address")
	}
}

// Answers for other clients, which any machine on the network can send, do not extend the timeout.
func TestAnswersForOthersProlongNoWait(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	if err := netlink.LinkSetUp(l.card.link); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	l.serve(func() (server, error) {
		return server6.NewServer("host", nil, func(conn net.PacketConn, peer net.Addr, d dhcpv6.DHCPv6) {
			asked, ok := d.(*dhcpv6.Message)
			if !ok {
				return
			}
			answer := answerTo(asked, leaseOf("2001:db8::7", 100, 200, 300, 300))
			dhcpv6.WithClientID(&dhcpv6.DUIDEN{EnterpriseNumber: 1})(answer)
			for {
				select {
				case <-ended:
					return
				case <-time.After(10 * time.Millisecond):
					_, _ = conn.WriteTo(answer.ToBytes(), peer)
				}
			}
		})
	})
	l.Cleanup(func() { close(ended) }) // before the server is closed
	var client *dhcpv6Client
	l.eventually("the card has an address of its link", func() (ok bool) {
		var err error
		client, err = newDHCPv6(l.card, "")
		return err == nil
	})
	defer client.Close()
	client.most = 100 * time.Millisecond
	asking, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if _, err := client.request(asking); !errors.Is(err, errNoAnswer) || asking.Err() != nil {
		t.Errorf("it waits until %v", err)
	}
}

func TestDHCPv6LeaseIsReadAndAnInvalidOneRefused(t *testing.T) {
	read := func(options ...dhcpv6.Option) (lease6, error) {
		return readLease6(answerTo(&dhcpv6.Message{MessageType: dhcpv6.MessageTypeRequest, Options: dhcpv6.MessageOptions{Options: dhcpv6.Options{dhcpv6.OptClientID(hostDUID)}}}, options...))
	}
	servers := dhcpv6.OptDNS(net.ParseIP("2001:db8::53"), net.ParseIP("ff02::1"), net.ParseIP("2001:db8::54"), net.ParseIP("2001:db8::55"), net.ParseIP("2001:db8::56"))
	for name, c := range map[string]struct {
		given         *dhcpv6.OptIANA
		renew, rebind time.Duration
	}{
		"its times":           {leaseOf("2001:db8::7", 1000, 2000, 3000, 4000), 1000, 2000},
		"no times":            {leaseOf("2001:db8::7", 0, 0, 3000, 4000), 1500, 3200},
		"times that are over": {leaseOf("2001:db8::7", 5000, 9000, 3000, 4000), 1500, 3200},
		"no end":              {leaseOf("2001:db8::7", 1<<32-1, 1<<32-1, 1<<32-1, 1<<32-1), 12 * 3600, 1<<32 - 1},
	} {
		l, err := read(c.given, servers)
		if err != nil || l.renew != c.renew*time.Second || l.rebind != c.rebind*time.Second || l.address.String() != "2001:db8::7/128" || len(l.nameservers) != 3 {
			t.Errorf("with %s it is %+v, %v", name, l, err)
		}
	}
	refused := leaseOf("2001:db8::7", 0, 0, 3000, 4000)
	refused.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoBinding, StatusMessage: "who are you?"})
	for says, options := range map[string][]dhcpv6.Option{
		"gave no address":      {servers},
		"gave ff02::1":         {leaseOf("ff02::1", 0, 0, 3000, 4000)},
		"gave fe80::1":         {leaseOf("fe80::1", 0, 0, 3000, 4000)},
		"gave 10.0.0.1":        {leaseOf("10.0.0.1", 0, 0, 3000, 4000)},
		"for 0s":               {leaseOf("2001:db8::7", 0, 0, 0, 0)},
		"for 4s":               {leaseOf("2001:db8::7", 0, 0, 5, 4)},
		`"who are you?"`:       {refused},
		`NoAddrsAvail: "none"`: {&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail, StatusMessage: "none"}},
	} {
		if l, err := read(options...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it is %+v, %v; want %q", l, err, says)
		}
	}
}
