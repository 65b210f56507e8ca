package boot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beevik/ntp"

	"writ/efi/boot/clock"
	"writ/efi/progress"
)

// isOver fails the test unless the wait ends exactly at its limit, and the page shows one second left just before.
func (p *paged) isOver(over *atomic.Bool, l progress.Limit) {
	p.t.Helper()
	began := time.Now()
	p.wait(l.Most - time.Second)
	if over.Load() {
		p.t.Fatalf("the wait ended after %s, the page shows %s", time.Since(began), l.Most)
	}
	p.shows()
	p.showStages()
	synctest.Wait()
	flat := strings.Join(strings.Fields(p.shows()), " ")
	if want := fmt.Sprintf("%.0f s of %.0f s, then %s", (l.Most - time.Second).Seconds(), l.Most.Seconds(), l.Then); !strings.Contains(flat, want) {
		p.t.Errorf("the page lacks %q:\n%s", want, flat)
	}
	p.wait(time.Second)
	if !over.Load() {
		p.t.Errorf("the wait continues after its limit of %s", l.Most)
	}
}

func TestServiceIsAwaitedForTheTimeOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		p.starts(usualConfig, Service{Name: "containerd"})
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		p.Stage(progress.StageClock, "2026-11-26T04:52:51Z")
		var over atomic.Bool
		m.work.Go(func() {
			if m.services.becomesReady(p.t.Context(), Service{Name: "containerd", Socket: filepath.Join(p.t.TempDir(), "none")}) {
				t.Error("a service that does not run is ready")
			}
			over.Store(true)
		})
		p.isOver(&over, readyLimit)
	})
}

// Slow time servers delay a start at most as long as the page shows, even if each attempt fails in another way. The
// start continues, so it is not held.
func TestTimeServersAreAwaitedForTheTimeOnThePage(t *testing.T) {
	awaitTimeServers(t, "i/o timeout")
	awaitTimeServers(t, "no route", "i/o timeout", "refused")
}

func awaitTimeServers(t *testing.T, ways ...string) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		p.starts(usualConfig)
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		c := clockOf(nil)
		c.Servers = []string{"10.77.0.1", "10.77.0.2"}
		c.Ask = func(string) (*ntp.Response, error) {
			time.Sleep((c.Limit().Most - clock.AskAgain) / 4) // of virtual time: two rounds with two servers
			ways = append(ways[1:], ways[0])
			return nil, errors.New(ways[0])
		}
		var over atomic.Bool
		m.work.Go(func() {
			if err := m.clock.correct(ctx, c); err != nil {
				t.Error(err)
			}
			over.Store(true)
		})
		p.isOver(&over, c.Limit())
		if p.node.hold.held() {
			t.Error("the start continues although it is held")
		}
	})
}

func TestImplausibleClockWaitsWithoutLimitAndThePageSaysWhy(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		ctx, stop := context.WithCancel(p.t.Context())
		defer func() { stop(); m.work.Wait() }()
		p.starts(usualConfig)
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		c := clockOf(func() (time.Duration, error) { return 0, errors.New("no answer") })
		c.Now = time.Now // virtual time begins in the year 2000
		var over atomic.Bool
		m.work.Go(func() { _ = m.clock.correct(ctx, c); over.Store(true) })
		p.wait(10 * time.Minute)
		p.want(0, "This machine is held at clock", "  held clock       2.4    1.0  asks for the time: ntp.example.org: no limit,\n                               without the time no certificate can be verified\n",
			"    goes on      it asks every 30s\n")
		if over.Load() {
			t.Error("the start continues with an impossible clock")
		}
	})
}

func TestHeldRunnerRestartsAtTheTimeOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		m, _ := heldMachine(p)
		p.begin()
		p.end("ended with exit code 1")
		p.end("ended with exit code 1")
		var over atomic.Bool
		m.work.Go(func() {
			_ = awaitRetry(p.t.Context(), m.status, progress.Limit{Most: heldPause, Then: "the runner starts again"})
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
			t.Error("an ended machine is ended again")
		}
		m.atLast(func() { ended.Store(true) })
		p.wait(offWithin + showWithin)
		p.want(0, "off      the shutdown did not complete within 2m0s: it is turned off by force\n")
		if !ended.Load() {
			t.Error("a machine that does not come to its end stays on")
		}
	})
}
