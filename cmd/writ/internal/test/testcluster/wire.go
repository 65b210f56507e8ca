package testcluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Wire is a proxy between two processes that can simulate network faults.
type Wire struct {
	Addr string // "127.0.0.1:port"; connections here reach the other end

	proxy *toxiproxy.Proxy
	heal  func()
}

// Spoil is a network fault.
type Spoil string

// The faults.
const (
	Late     Spoil = "late"      // each direction is delayed by 100 to 700 ms
	Cut      Spoil = "cut"       // connections are reset at their first byte
	HalfOpen Spoil = "half-open" // connections stay open, but no byte passes
	Slow     Spoil = "slow"      // one byte per second
	Flapping Spoil = "flapping"  // alternating seconds without and with connections
)

// Spoils lists all faults except Narrow.
var Spoils = []Spoil{Late, Cut, HalfOpen, Slow, Flapping}

// Narrow limits each direction to 4 MiB/s. The wire and the sockets at its ends buffer up to 16 MiB, so a larger
// transfer can be interrupted in the middle.
const Narrow Spoil = "narrow"

// toxics holds the faults that the proxy implements.
var toxics = map[Spoil]string{
	Late:     `"type": "latency", "attributes": {"latency": 400, "jitter": 300}`,
	Cut:      `"type": "reset_peer", "attributes": {"timeout": 0}`,
	HalfOpen: `"type": "timeout", "attributes": {"timeout": 0}`,
	Slow:     `"type": "slicer", "attributes": {"average_size": 1, "size_variation": 0, "delay": 1000000}`,
	Narrow:   `"type": "bandwidth", "attributes": {"rate": 4096}`,
}

// NewWire starts a wire to an address, until the test ends.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &Wire{proxy: toxiproxy.NewProxy(server, "", "127.0.0.1:0", to)}
	if err := w.proxy.Start(); err != nil {
		t.Fatalf("lay a wire to %s: %v", to, err)
	}
	w.Addr = w.proxy.Listen // the assigned port, reused by later starts
	t.Cleanup(func() { w.Heal(); w.proxy.Stop() })
	return w
}

// Spoil applies a fault to existing and new connections until Heal.
func (w *Wire) Spoil(t testing.TB, how Spoil) {
	t.Helper()
	if how == Flapping {
		w.flap(t)
		return
	}
	for _, stream := range []string{"upstream", "downstream"} {
		if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"stream": %q, %s}`, stream, toxics[how]))); err != nil {
			t.Fatal(err)
		}
	}
	w.heal = func() { w.proxy.Toxics.ResetToxics(t.Context()) }
}

func (w *Wire) flap(t testing.TB) {
	stop := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for on := true; ; on = !on {
			if on {
				w.proxy.Stop()
			} else if err := w.proxy.Start(); err != nil {
				t.Error(err)
			}
			select {
			case <-tick.C:
			case <-stop:
				if on {
					if err := w.proxy.Start(); err != nil {
						t.Error(err)
					}
				}
				return
			}
		}
	})
	w.heal = func() { close(stop); flapping.Wait() }
}

// Heal ends the fault. Data in transit is lost with its connections, unless it was only delayed.
func (w *Wire) Heal() {
	if w.heal != nil {
		w.heal()
		w.heal = nil
	}
}
