package limit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ/internal/test/testenv"
)

func TestAddressBudgetsAreSeparateAndBounded(t *testing.T) {
	l := Addresses{PerSecond: 1}
	now := time.Now()
	for range 3 {
		l.Take("192.0.2.1:1", 1, now)
	}
	if l.Take("192.0.2.1:2", 1, now) == 0 || l.Take("192.0.2.2:1", 1, now) != 0 {
		t.Error("ports share an allowance, addresses do not")
	}
	for range 3 {
		l.Take("[2001:db8::1]:1", 1, now)
	}
	if l.Take("[2001:db8::ffff]:1", 1, now) == 0 || l.Take("[2001:db8:0:1::1]:1", 1, now) != 0 {
		t.Error("a host of IPv6 has all addresses of its network")
	}
	if l.Take("192.0.2.1:1", 1, now.Add(2*time.Second)) != 0 {
		t.Error("time gives the allowance back")
	}
	for i := range 3 * maxSeen {
		l.Take(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), 1, now)
	}
	if len(l.rates.all) > maxSeen {
		t.Errorf("%d visitors are remembered", len(l.rates.all))
	}
}

// Promise: Load and attackers: One address uses at most three quarters of a coordinator's event streams and live
// pages.
// How: Places are counted by address; an IPv6 /64 is one address; a new address gets one place.
// Also: TestAddressBudgetsAreSeparateAndBounded, TestOneAddressLeavesStreamsForOthers.
func TestThereIsAPlaceForOtherNetworks(t *testing.T) {
	s := &Shares{Size: 256}
	var leaves []func()
	for range 300 {
		if leave, ok := s.Enter("192.0.2.1:1"); ok {
			leaves = append(leaves, leave)
		}
	}
	if len(leaves) != 192 || s.Taken() != 192 {
		t.Fatalf("one network has %d places of 256, want three quarters", len(leaves))
	}
	other, ok := s.Enter("192.0.2.2:1")
	if !ok {
		t.Fatal("no place for another address")
	}
	other()
	for _, leave := range leaves {
		leave()
		leave()
	}
	if s.Taken() != 0 || len(s.has) != 0 {
		t.Errorf("%d places are taken after all have left", s.Taken())
	}
}

func TestRepeatedLineIsLoggedOncePerInterval(t *testing.T) {
	var l Lines
	now, said, counted := time.Now(), 0, 0
	for range 1000 {
		for _, kind := range []string{"a", "b"} {
			if times, say := l.Say(kind, now); say {
				said++
				counted += times
			}
		}
		now = now.Add(25 * time.Millisecond)
	}
	if said != 6 || counted < 1500 {
		t.Errorf("two kinds in 25 s: logged %d times, %d in total; want 6, at least 1500", said, counted)
	}
}

func TestFirstLinesOfAKindMayBeSeveral(t *testing.T) {
	l := Lines{AtOnce: 20}
	now, said := time.Now(), 0
	for range 1000 {
		if _, say := l.Say("", now); say {
			said++
		}
		now = now.Add(25 * time.Millisecond)
	}
	if said != 22 {
		t.Errorf("%d lines in 25 s, want 22", said)
	}
}

// A client that does not speak TLS causes only a few log lines.
func TestStrangersMakeAFewLinesOfAServer(t *testing.T) {
	log := new(testenv.Log)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = ErrorLog(log.Logger())
	server.StartTLS()
	defer server.Close()
	for range 1000 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	if lines := log.Lines(""); lines == 0 || lines > 3 {
		t.Errorf("a thousand strangers make %d lines", lines)
	}
}

func TestCallerOverItsRateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Names{PerSecond: 100}
		wait := func(name string) time.Duration {
			t.Helper()
			began := time.Now()
			if again, err := l.Wait(t.Context(), name, 1, 5*time.Second); err != nil || again != 0 {
				t.Fatalf("%s is to come again in %s, %v", name, again, err)
			}
			return time.Since(began)
		}
		began := time.Now()
		for range 201 { // the burst is twice the rate
			if wait("busy") != 0 {
				t.Fatal("it waits before its rate is used up")
			}
		}
		for range 300 {
			wait("busy")
		}
		if took := time.Since(began); took < 2990*time.Millisecond || took > 3010*time.Millisecond {
			t.Errorf("300 more took %s, want 3 s", took)
		}
		if took := wait("other"); took != 0 {
			t.Errorf("another one waits %s", took)
		}
		var all sync.WaitGroup
		var refused atomic.Int32
		for range 600 { // 500 of them get their turn within 5 s
			all.Go(func() {
				if again, err := l.Wait(t.Context(), "busy", 1, 5*time.Second); err != nil || again > 5*time.Second {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n < 99 || n > 101 {
			t.Errorf("%d of 600 were refused, want 100", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Wait(ctx, "busy", 1, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled wait: %v", err)
		}
	})
}

// Concurrent requests beyond the limit consume no budget.
func TestRefusedCallerUsesNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Names{PerSecond: 20}
		var all sync.WaitGroup
		for range 4000 {
			all.Go(func() { _, _ = l.Wait(t.Context(), "busy", 30, 2*time.Second) })
		}
		synctest.Wait()
		if again, err := l.Wait(t.Context(), "busy", 1, 3*time.Second); err != nil || again > 0 {
			t.Errorf("wait after the queue was served = %s, %v", again, err)
		}
		all.Wait()
	})
}

// Two callers that reserve several places at once do not interleave: the first gets all of its places.
func TestPlacesReservedTogetherFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Names{PerSecond: 100, AtOnce: 1}
		costs := make([]int, 300)
		for i := range costs {
			costs[i] = 1
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var counted []int
		for range 4 {
			all.Go(func() {
				n, _ := l.ReserveEach("busy", costs, 6*time.Second)
				mu.Lock()
				defer mu.Unlock()
				counted = append(counted, n)
			})
		}
		all.Wait()
		slices.Sort(counted)
		if counted[0] != 0 || counted[3] != 300 || counted[2] < 290 {
			t.Errorf("of 300 places each, these were counted: %v; want all for two and none for the others", counted)
		}
	})
}
