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

// Wire is a way between two processes that can be spoiled: a proxy on loopback.
type Wire struct {
	Addr string // "127.0.0.1:port"; what connects here reaches the other end

	proxy *toxiproxy.Proxy
	heal  func()
}

// Spoil is a way to spoil a wire.
type Spoil string

// The ways.
const (
	Late     Spoil = "late"      // everything comes 100 to 700 ms late, each way
	Cut      Spoil = "cut"       // connections are reset with their first byte
	HalfOpen Spoil = "half-open" // connections stand, and no byte comes through
	Slow     Spoil = "slow"      // a byte a second
	Flapping Spoil = "flapping"  // a second without, a second with connections
)

// Spoils are all ways.
var Spoils = []Spoil{Late, Cut, HalfOpen, Slow, Flapping}

// Narrow lets 4 MiB through in a second, each way: something of more than 16 MiB, which is what the wire and the sockets at its ends may hold,
// has a middle.
const Narrow Spoil = "narrow"

// toxics are the ways that are one of the proxy's own.
var toxics = map[Spoil]string{
	Late:     `"type": "latency", "attributes": {"latency": 400, "jitter": 300}`,
	Cut:      `"type": "reset_peer", "attributes": {"timeout": 0}`,
	HalfOpen: `"type": "timeout", "attributes": {"timeout": 0}`,
	Slow:     `"type": "slicer", "attributes": {"average_size": 1, "size_variation": 0, "delay": 1000000}`,
	Narrow:   `"type": "bandwidth", "attributes": {"rate": 4096}`,
}

// NewWire lays a wire to an address, until the test ends.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &Wire{proxy: toxiproxy.NewProxy(server, "", "127.0.0.1:0", to)}
	if err := w.proxy.Start(); err != nil {
		t.Fatalf("lay a wire to %s: %v", to, err)
	}
	w.Addr = w.proxy.Listen // the port that it got, also for the next start
	t.Cleanup(func() { w.Heal(); w.proxy.Stop() })
	return w
}

// Spoil spoils the wire until Heal, for what is connected and for what connects.
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

// Heal makes the wire as good as new. What was on it is lost with its connections, except where it was only late or slow.
func (w *Wire) Heal() {
	if w.heal != nil {
		w.heal()
		w.heal = nil
	}
}
