package takeover_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"writ/internal/test/testenv"
	"writ/supervisor/journal"
	"writ/supervisor/takeover"
)

// road forwards connections to a server until it is closed. Then it ends all of them and refuses new ones.
type road struct {
	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func newRoad(t *testing.T, address string) (*road, string) {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r, server := new(road), u.Host
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			r.mu.Lock()
			if err != nil || r.closed {
				from.Close()
				r.mu.Unlock()
				continue
			}
			r.conns = append(r.conns, from, to)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
			go func() { _, _ = io.Copy(to, from); to.Close() }()
		}
	}()
	u.Host = l.Addr().String()
	return r, u.String()
}

func (r *road) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.conns {
		c.Close()
	}
}

// TestSupervisorWithoutLeaseLeavesMessages cuts a supervisor off from PostgreSQL, but not from Redis. It must stop reading
// the messages of nodes before a standby has the lease: otherwise it takes messages that the standby needs.
//
// Promise: Recovery: A supervisor without its journal's database takes no message of a node from its successor.
func TestSupervisorWithoutLeaseLeavesMessages(t *testing.T) {
	testenv.Nightly(t, "TestLeaseIsHeldForLessThanItsTime")
	t.Parallel()
	address := testenv.Postgres(t).Store()
	way, behind := newRoad(t, address)
	old, err := journal.Open(t.Context(), behind)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	epoch, err := old.BeginEpoch(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lease := &takeover.Lease{Journal: old, Epoch: epoch, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- lease.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the lease ended with %v", err)
		}
	}()
	time.Sleep(time.Second)
	if !lease.Held() {
		t.Error("the supervisor does not hold its lease")
	}
	way.close()
	next, err := journal.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		held := lease.Held()
		_, err := next.BeginEpoch(t.Context(), time.Now())
		if err == nil {
			if held {
				t.Error("the supervisor holds the lease that the standby takes")
			}
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}
