package coord

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ/internal/testenv"
	"writ/ledger/sqlstore"
	"writ/supervisor/nodes"
)

const (
	manyVersions = 10_000
	manyCallers  = 200
	maxGrowth    = 64 << 20 // bytes of memory for all callers together
)

// Strangers ask a coordinator and a node API for all of 10,000 versions of the roster, again and again, from every version on. The memory of the
// process grows by 64 MiB at most. What an honest command takes meanwhile is printed.
func TestManyStrangersCostBoundedMemory(t *testing.T) {
	testenv.Nightly(t, "TestStrangersShareOneRosterPage of package coord, TestCallersShareARosterPage of package supervisor/nodes")
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := start(t, func(c *Coordinator) { c.Ledger, c.RequestsPerSecond = store, 1_000_000 })
	roster, err := p.rosters.newest(t.Context(), p.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	for range manyVersions {
		if _, err := p.AddRoster(t.Context(), signedRoster(t, successor(t, roster, nothing))); err != nil {
			t.Fatal(err)
		}
		if roster, err = p.rosters.newest(t.Context(), p.Coordinator); err != nil {
			t.Fatal(err)
		}
	}
	api := httptest.NewServer(nodes.Handler(rosterBackend{from: p.Coordinator}, rosterBackend{from: p.Coordinator}, slog.New(slog.DiscardHandler)))
	defer api.Close()
	addresses := []string{p.PublicURL + "/v1/roster?after=", api.URL + "/v1/rosters?after="}
	quiet := p.commandTime()

	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var callers sync.WaitGroup
	var answers atomic.Int64
	end := make(chan struct{})
	for n := range manyCallers {
		callers.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := n; ; i += 37 {
				select {
				case <-end:
					return
				default:
				}
				response, err := client.Get(addresses[i%2] + fmt.Sprint(i%manyVersions))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				answers.Add(1)
			}
		})
	}
	var most uint64
	for answers.Load() < 20*manyCallers && !t.Failed() {
		time.Sleep(10 * time.Millisecond) // a sample of the memory; nothing waits for it
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse+now.StackInuse)
	}
	loaded := p.commandTime()
	close(end)
	callers.Wait()
	if start := before.HeapInuse + before.StackInuse; most > start+maxGrowth {
		t.Errorf("%d callers made the memory grow from %d to %d MiB", manyCallers, start>>20, most>>20)
	} else {
		t.Logf("%d callers: memory from %d to %d MiB; a command took %s, and %s meanwhile", manyCallers, start>>20, most>>20, quiet, loaded)
	}
}

// commandTime returns how long the change of a roster takes.
func (p *fixture) commandTime() time.Duration {
	began := time.Now()
	roster, err := p.rosters.newest(p.t.Context(), p.Coordinator)
	if err != nil {
		p.t.Fatal(err)
	}
	if status, body := p.post("/v1/roster", signedRoster(p.t, successor(p.t, roster, nothing))); status != http.StatusOK {
		p.t.Fatalf("status %d, %s", status, body)
	}
	return time.Since(began)
}

// rosterBackend gives the rosters of a coordinator as a supervisor gives its own.
type rosterBackend struct {
	nodes.Backend
	nodes.Members
	from *Coordinator
}

func (b rosterBackend) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return b.from.rosters.current.Load().Path(after, rosterText(ctx, b.from.Ledger))
}

func (b rosterBackend) RosterPage(after int) (start, newest int) {
	roster := b.from.rosters.current.Load()
	return roster.PageStart(after), roster.Version
}
