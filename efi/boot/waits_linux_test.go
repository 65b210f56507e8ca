package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beevik/ntp"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"

	"writ/efi/progress"
)

// isOver fails the test unless the wait ends exactly at its limit, and the page shows one second left just before.
func (p *paged) isOver(over *atomic.Bool, l progress.Limit) {
	p.t.Helper()
	began := time.Now()
	p.wait(l.Most - time.Second)
	if over.Load() {
		p.t.Fatalf("the wait is over after %s, and the page says %s", time.Since(began), l.Most)
	}
	p.shows()
	p.showStages()
	synctest.Wait()
	flat := strings.Join(strings.Fields(p.shows()), " ")
	if want := fmt.Sprintf("%.0f s of %.0f s, then %s", (l.Most - time.Second).Seconds(), l.Most.Seconds(), l.Then); !strings.Contains(flat, want) {
		p.t.Errorf("the page does not say %q:\n%s", want, flat)
	}
	p.wait(time.Second)
	if !over.Load() {
		p.t.Errorf("the wait goes on after its limit of %s", l.Most)
	}
}

func TestAServiceIsAwaitedForAsLongAsThePageSays(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		p.starts(usualConfig, Service{Name: "containerd"})
		p.stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		p.stage(progress.StageClock, "2026-11-26T04:52:51Z")
		var over atomic.Bool
		m.work.Go(func() {
			if m.becomesReady(p.t.Context(), Service{Name: "containerd", Socket: filepath.Join(p.t.TempDir(), "none")}) {
				t.Error("a service that does not run is ready")
			}
			over.Store(true)
		})
		p.isOver(&over, readyLimit)
	})
}

// Slow time servers delay a start at most as long as the page shows, even if each attempt fails in another way. The
// start continues, so it is not held.
func TestTimeServersAreAwaitedForAsLongAsThePageSays(t *testing.T) {
	awaitTimeServers(t, "i/o timeout")
	awaitTimeServers(t, "no route", "i/o timeout", "refused")
}

func awaitTimeServers(t *testing.T, ways ...string) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		p.starts(usualConfig)
		p.stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		c := clockOf(nil)
		c.servers = []string{"10.77.0.1", "10.77.0.2"}
		c.ask = func(string) (*ntp.Response, error) {
			time.Sleep(askMostOf) // virtual time
			ways = append(ways[1:], ways[0])
			return nil, errors.New(ways[0])
		}
		var over atomic.Bool
		m.work.Go(func() {
			if err := m.correctClock(ctx, c); err != nil {
				t.Error(err)
			}
			over.Store(true)
		})
		p.isOver(&over, c.limit())
		if p.hold.held() {
			t.Error("the start goes on, and is held")
		}
	})
}

func TestAClockThatCannotBeRightWaitsWithoutALimitAndThePageSaysWhy(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		p.starts(usualConfig)
		p.stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		c := clockOf(func() (time.Duration, error) { return 0, errors.New("no answer") })
		c.now = time.Now // virtual time begins in the year 2000
		var over atomic.Bool
		m.work.Go(func() { _ = m.correctClock(ctx, c); over.Store(true) })
		p.wait(10 * time.Minute)
		p.want(0, "This machine is held at clock", "  held clock       2.4    1.0  asks for the time: ntp.example.org: no limit,\n                               without the time no certificate can be verified\n",
			"    goes on      it asks every 30s\n")
		if over.Load() {
			t.Error("the start goes on with a clock that cannot be right")
		}
	})
}

func TestARunnerIsLeftAloneForAsLongAsThePageSays(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		p.begin()
		p.end("ended with exit code 1")
		p.end("ended with exit code 1")
		var over atomic.Bool
		m.work.Go(func() {
			_ = m.status.pauses(p.t.Context(), progress.Limit{Most: heldPause, Then: "the runner starts again"})
			over.Store(true)
		})
		p.wait(heldPause - time.Second)
		if p.shows(); over.Load() {
			t.Error("the runner starts early")
		}
		p.showPage()
		p.want(1, "This machine is held", "    goes on      299 s of 300 s, then the runner starts again\n")
		p.wait(time.Second)
		if !over.Load() {
			t.Error("the runner does not start")
		}
	})
}

// Machines in a rack have many cards and one cable. Cards without a cable come last, with one line each.
func TestCardsWithACableComeFirstOnThePage(t *testing.T) {
	n := new(network)
	if got := n.waiting(); len(got) != 1 || got[0].String() != "no network card was found: no limit, it looks for cards every 1 s" {
		t.Errorf("without a card the page says %v", got)
	}
	n.init(nil, new(Config), new(sync.WaitGroup), t.TempDir(), nil)
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
	for _, one := range n.waiting() {
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

// The library's timeout, which follows from its options, equals the one that the page shows.
func TestADHCPServerIsAskedForAsLongAsThePageSays(t *testing.T) {
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
			t.Errorf("it asks %d times within %s, and the page says %s", network.asked.Load(), took, askLimit.Most)
		}
	})
}

// A shutdown that does not complete is forced.
//
// Promise: Machines from an image: A machine shuts down within two minutes of the request, also with a stuck program
// or disk.
// How: The first process forces the shutdown; if it cannot run, the watchdog restarts the machine.
func TestTheEndOfAMachineHasALimit(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		var ended atomic.Bool
		stop := m.atLast(func() { ended.Store(true) })
		p.wait(offWithin - time.Second)
		stop()
		p.wait(time.Hour)
		if ended.Load() {
			t.Error("a machine that has come to its end is ended once more")
		}
		m.atLast(func() { ended.Store(true) })
		p.wait(offWithin + showWithin)
		p.want(0, "off      the shutdown did not complete within 2m0s: it is turned off by force\n")
		if !ended.Load() {
			t.Error("a machine that does not come to its end stays on")
		}
	})
}
