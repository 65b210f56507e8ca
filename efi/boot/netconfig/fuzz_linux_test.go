package netconfig

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/mdlayher/ndp"
)

// Any machine on the network can send these packets to the first process. If it crashes, the machine goes down.

func FuzzAdvertisement(f *testing.F) {
	for _, a := range []*ndp.RouterAdvertisement{managed(), advertise("2001:db8::/64", nameserver(time.Hour, "2001:db8::53", "fe80::1")), advertise("::/0", nameserver(0, "::"))} {
		text, err := ndp.MarshalMessage(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ndp.ParseMessage(text)
		said, ok := m.(*ndp.RouterAdvertisement)
		if err != nil || !ok {
			return
		}
		a, s := advertisement{said, netip.MustParseAddr("fe80::2%eth0")}, advertised{}
		s.hear(a, time.Now())
		if len(s) > serversAtMost {
			t.Errorf("programs get %v", s)
		}
		if a.use() > forAddresses || a.givesAddresses() && len(a.Options) == 0 {
			t.Errorf("it means %d", a.use())
		}
	})
}

func FuzzDHCPv6(f *testing.F) {
	asked := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeRequest, Options: dhcpv6.MessageOptions{Options: dhcpv6.Options{dhcpv6.OptClientID(hostDUID)}}}
	whole := answerTo(asked, leaseOf("2001:db8::7", 1, 2, 3, 4), dhcpv6.OptDNS(net.ParseIP("2001:db8::53")), &dhcpv6.OptStatusCode{StatusMessage: "fine"})
	dhcpv6.WithFQDN(0, "rack-7.example.org")(whole)
	f.Add(whole.ToBytes())
	f.Add(answerTo(asked, leaseOf("ff02::1", 0, 0, 1<<32-1, 1<<32-1)).ToBytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := dhcpv6.MessageFromBytes(text)
		if err != nil {
			return
		}
		_, _, _ = m.Options.InformationRefreshTime(informAtMost), hostname6(m), m.Options.ClientID()
		l, err := readLease6(m)
		if err == nil && (!l.address.Addr().IsGlobalUnicast() || l.renew < answerIn || l.rebind > l.valid || len(l.nameservers) > serversAtMost) {
			t.Errorf("it is read as %+v", l)
		}
	})
}
