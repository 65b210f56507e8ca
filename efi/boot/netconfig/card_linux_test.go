package netconfig

import (
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
)

// Machines in a rack have many cards and one cable. Cards without a cable come last, with one line each.
func TestCardsWithACableComeFirstOnThePage(t *testing.T) {
	n := New(nil, new(Settings), new(sync.WaitGroup), t.TempDir(), nil)
	if got := n.Waiting(); len(got) != 1 || got[0].String() != "no network card was found: no limit, it looks for cards every 1 s" {
		t.Errorf("page without a card = %v", got)
	}
	for i, name := range []string{"eth0", "eth1", "eth2"} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Index, attrs.HardwareAddr = name, i+2, net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, byte(i)}
		c, _ := n.find(&netlink.Dummy{LinkAttrs: attrs}, true)
		switch name {
		case "eth0":
			n.waits(c, v4, cableLimit, noCarrier)
			n.waits(c, v6, otherCards, "receives no IPv6 router advertisement")
		case "eth1":
			n.waits(c, v4, askLimit, "asks for an address by DHCP")
			n.waits(c, v6, otherCards, "receives no IPv6 router advertisement")
		}
	}
	var got []string
	for _, one := range n.Waiting() {
		got = append(got, one.String())
	}
	if want := []string{
		"eth1 (52:54:00:77:00:01) asks for an address by DHCP: 0 s of 15 s, then it asks again",
		"eth1 receives no IPv6 router advertisement: no limit, the first address of any card counts",
		"eth2 (52:54:00:77:00:02) was found: no limit, the first address of any card counts",
		"eth0 (52:54:00:77:00:00) has no carrier: no limit, it continues when a cable is plugged in",
	}; !slices.Equal(got, want) {
		t.Errorf("the page says\n%s", strings.Join(got, "\n"))
	}
}

// deaf is a network on which no server answers.
type deaf struct {
	net.PacketConn
	closed chan struct{}
	asked  atomic.Int32
}

func (d *deaf) ReadFrom([]byte) (int, net.Addr, error)    { <-d.closed; return 0, nil, net.ErrClosed }
func (d *deaf) WriteTo(b []byte, _ net.Addr) (int, error) { d.asked.Add(1); return len(b), nil }
func (d *deaf) Close() error                              { close(d.closed); return nil }

// The timeout of the library, which follows from its options, equals the limit on the page.
func TestDHCPIsTriedForTheTimeOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &deaf{closed: make(chan struct{})}
		client, err := nclient4.NewWithConn(network, net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, 0x50}, asking...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		began := time.Now()
		if _, err := client.Request(t.Context()); err == nil {
			t.Error("it has a lease")
		}
		if took := time.Since(began); took != askLimit.Most || network.asked.Load() != askTimes {
			t.Errorf("%d requests within %s, the page shows %s", network.asked.Load(), took, askLimit.Most)
		}
	})
}
