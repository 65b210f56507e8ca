package link

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"writ"
)

// flood sends frames of nearly 1 MiB with one event each, until the connection breaks or limit frames are sent.
func (s *stranger) flood(limit int, sent *atomic.Int64) {
	text := strings.Repeat("x", MaxFrame-1024)
	for seq := 1; seq <= limit; seq++ {
		frame := fmt.Sprintf(`{"type":"event","journal":"%s","events":[{"seq":%d,"time":"2026-11-21T10:00:00Z","log":{"text":"%s"}}]}`, journal, seq, text)
		if s.conn.Write(s.t.Context(), websocket.MessageText, []byte(frame)) != nil {
			return
		}
		sent.Add(1)
	}
}

// drain reads and discards frames, so that acknowledgements do not block the other side.
func (s *stranger) drain() {
	for {
		if _, err := s.read(); err != nil {
			return
		}
	}
}

// liveHeap returns the bytes of reachable memory.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Promise: Limits and shares: A datacenter that floods a coordinator with events delays only itself.
// How: Each has a pace of 16 MiB a second and 64 MiB at once, where an event costs 512 bytes more; undecoded frames
// wait in bounded buffers and batches alternate.
// Also: TestWaitingFramesOfAllSessionsAreBounded, TestFloodOfEventsIsSlowedDown, TestPausedDatacenterAnswersRequests.
func TestUnstoredEventsTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ledger, net := newArchive(0), newWire()
		ledger.trouble = func(bool) error {
			<-release
			return nil
		}
		defer net.serve(coordinator(ledger))()
		defer close(release)
		s := net.stranger(t)
		s.greet(Hello{Datacenter: dc, Journal: journal})
		before := liveHeap()
		var sent atomic.Int64
		go s.flood(Window, &sent)
		go s.drain()
		synctest.Wait()
		const limit = 4 * maxWaiting
		if held := liveHeap() - before; held > limit || sent.Load() < 2 {
			t.Errorf("after %d frames of 1 MiB the coordinator holds %d MiB, want at most %d", sent.Load(), held>>20, limit>>20)
		}
		_ = s.conn.CloseNow()
	})
}

func TestWaitingFramesOfAllSessionsAreBounded(t *testing.T) {
	var shared intake
	total, sessions := 0, 3*maxUndecoded/maxWaiting
	for range sessions {
		b := newBacklog(&shared)
		for b.offer(waitingFrame{events: make([]byte, MaxFrame-frameOverhead)}) {
			total += MaxFrame
		}
	}
	if most := maxUndecoded + sessions*MaxFrame; total < most/2 || total > most {
		t.Errorf("%d sessions hold %d MiB, want at most %d", sessions, total>>20, most>>20)
	}
}

// costs stores only the cost of events.
type costs struct {
	*seqs
	cost atomic.Int64
}

func (c *costs) StoreEvents(_ context.Context, _ writ.DatacenterID, events []writ.Event) error {
	for _, e := range events {
		c.cost.Add(int64(len(e.Log.Text) + eventCost))
	}
	return nil
}

func TestFloodOfEventsIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, net := &costs{seqs: new(seqs)}, newWire()
		const perSecond, atOnce, seconds = 2 << 20, 8 << 20, 4
		l := coordinator(ledger)
		l.intake.perSecond, l.intake.atOnce = perSecond, atOnce
		defer net.serve(l)()
		s := net.stranger(t)
		s.greet(Hello{Datacenter: dc, Journal: journal})
		begun := time.Now()
		var sent atomic.Int64
		go s.flood(40, &sent)
		go s.drain()
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		if most := int64(atOnce + seconds*perSecond + 2*maxStored); ledger.cost.Load() > most || ledger.cost.Load() < atOnce {
			t.Errorf("%d MiB were stored in %v, want at most %d", ledger.cost.Load()>>20, time.Since(begun), most>>20)
		}
		_ = s.conn.CloseNow()
	})
}

// held is an event sink that blocks until it is released.
type held struct {
	EventSink
	release chan struct{}
}

func (h held) StoreEvents(_ context.Context, _ writ.DatacenterID, events []writ.Event) error {
	<-h.release
	runtime.KeepAlive(events)
	return nil
}

// denseFrame returns a frame of 1 MiB with one event, whose list has a value for each three bytes.
func denseFrame() waitingFrame {
	list := strings.Repeat("{},", (MaxFrame-1024)/3)
	return waitingFrame{events: []byte(`[{"seq":1,"time":"2026-11-21T10:00:00Z","node":{"id":"n","wedged":[` + list[:len(list)-1] + `]}}]`)}
}

func TestDenseEventsTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared intake
		sink := held{release: make(chan struct{})}
		before := liveHeap()
		var all sync.WaitGroup
		for range 3 { // sessions
			in := newInflow(sink, &shared, Hello{Datacenter: dc, Journal: journal}, 0)
			if err := in.backlog.put(t.Context(), denseFrame().events); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				frames, size, err := in.backlog.next(t.Context())
				if err == nil {
					_, err = in.attempt(t.Context(), frames, size)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		const limit = maxDecoding + 16<<20 // and the frames themselves
		if held := liveHeap() - before; held > limit {
			t.Errorf("3 frames of 1 MiB take %d MiB when they are decoded, want at most %d", held>>20, limit>>20)
		}
		close(sink.release)
		all.Wait()
	})
}

func TestDenseEventsAreSlowedDown(t *testing.T) {
	var shared intake
	f := denseFrame()
	wait := time.Duration(0)
	for range 60 { // MiB
		wait = max(wait, shared.charge(dc, f.size(), 1, countValues(f.events)))
	}
	if wait < 30*time.Second { // for 20 million values
		t.Errorf("60 MiB of dense events wait for %v", wait)
	}
}

func TestValuesAreCountedOutsideOfStrings(t *testing.T) {
	for text, want := range map[string]int{`[]`: 1, `[1,2,3]`: 3, `{"a,[{":"b\\",",\"[":[{},{}]}`: 6, `"`: 0, `"\`: 0} {
		if got := countValues([]byte(text)); got != want {
			t.Errorf("%s: %d values, want %d", text, got, want)
		}
	}
}

// TestBenchmarkLoadIsNotSlowedDown charges the events of a datacenter at full speed on two cores, measured with `writ
// bench`.
func TestBenchmarkLoadIsNotSlowedDown(t *testing.T) {
	const events, bytes, values, batches = 14_000, 6 << 20, 420_000, 100
	synctest.Test(t, func(t *testing.T) {
		var shared intake
		for range 600 * batches { // ten minutes
			if wait := shared.charge(dc, bytes/batches, events/batches, values/batches); wait > 0 {
				t.Fatalf("it waits for %v", wait)
			}
			time.Sleep(time.Second / batches)
		}
	})
}

// TestPausedDatacenterAnswersRequests has a store refuse the large events of a datacenter for two minutes. Requests
// pass, the reason is shown, and no event is lost.
func TestPausedDatacenterAnswersRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 60
		large, ledger, net := newBook(), newArchive(events), newWire()
		large.write(events)
		for i := range large.events {
			large.events[i].Log.Run = writ.RunID(strings.Repeat("x", 200<<10))
		}
		var over atomic.Bool
		over.Store(true)
		ledger.trouble = func(bool) error {
			if over.Load() {
				return writ.Errorf(writ.CodeQuotaExceeded, "the datacenter has its share")
			}
			return nil
		}
		l := coordinator(ledger)
		sessions := connected(l)
		defer net.serve(l)()
		defer start(t, supervisor(net.client(t), large))()
		s := within(t, sessions, "the session")
		time.Sleep(2 * time.Minute)
		if got := s.Fault(); got != "the datacenter has its share" {
			t.Errorf("it is shown as %q", got)
		}
		select {
		case <-s.Done():
			t.Error("the session has ended")
		default:
		}
		if err := s.Request(t.Context(), VerbSubmit, "x", nil); err != nil {
			t.Errorf("request during the pause: %v", err)
		}
		over.Store(false)
		within(t, ledger.full, "storing after the pause")
		ledger.check(t, events)
		if current, ok := l.Session(dc); ok && current.Fault() != "" {
			t.Errorf("afterwards it is shown as %q", current.Fault())
		}
	})
}
