package link

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// brittle is a connection that breaks after a number of bytes in either direction.
type brittle struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (b *brittle) spend(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.left)
	b.left -= n
	return n
}

func (b *brittle) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if spent := b.spend(n); spent < n {
		b.Conn.Close()
		return spent, io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *brittle) Write(p []byte) (int, error) {
	spent := b.spend(len(p))
	n, err := b.Conn.Write(p[:spent])
	if err == nil && spent < len(p) {
		b.Conn.Close()
		return n, io.ErrShortWrite
	}
	return n, err
}

// Connections break at any byte; the store fails before or after storing; coordinators crash and restart.
//
// Promise: Failures: Events reach the coordinator once and in order.
// How: Events get consecutive numbers at commit; the receiving store acknowledges them.
func TestFaultsDoNotReorderOrRepeatEvents(t *testing.T) {
	const events = 600
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			below := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			journal, ledger, net := newBook(), newArchive(events), newWire()
			net.cut = brittleness(below)
			journal.ledger = ledger

			crash := make(chan struct{}, 1)
			ledger.trouble = func(bool) error {
				switch below(12) {
				case 0:
					return errors.New("disk full")
				case 1:
					select {
					case crash <- struct{}{}:
					default:
					}
				}
				return nil
			}
			start(t, supervisor(net.client(t), journal))
			var writing sync.WaitGroup
			defer writing.Wait()
			writing.Go(func() {
				for range events / 20 {
					journal.write(20)
					time.Sleep(time.Duration(below(300)) * time.Millisecond)
				}
			})
			for running := true; running; {
				stop := net.serve(coordinator(ledger))
				select {
				case <-crash:
				case <-ledger.full:
					running = false
				case <-time.After(24 * time.Hour):
					t.Fatalf("seed %d: events do not arrive", seed)
				}
				stop()
			}
			ledger.check(t, events)
			journal.check(t)
		})
	}
}

// brittleness gives most connections a random lifetime in bytes, and every fourth an unlimited one.
func brittleness(below func(int) int) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn {
		if below(4) == 0 {
			return c
		}
		return &brittle{Conn: c, left: below(40_000)}
	}
}

func TestEventsContinueAfterCutOverLoopback(t *testing.T) {
	journal, ledger := newBook(), newArchive(2000)
	l := coordinator(ledger)
	sessions := connected(l)
	server := httptest.NewServer(l)
	defer func() {
		server.CloseClientConnections()
		server.Close()
		l.Close()
	}()
	d := supervisor(server.Client(), journal)
	d.URL = server.URL
	d.Sign = func(_ Hello, nonce []byte, url string) ([]byte, error) {
		if url != server.URL {
			t.Errorf("Sign gets URL %q, want %q", url, server.URL)
		}
		return proof(nonce, coordAt), nil
	}
	stop := start(t, d)
	defer stop()

	first := within(t, sessions, "the first session")
	journal.write(1000)
	first.end(errors.New("cut")) // without a close frame, like a network failure
	second := within(t, sessions, "the second session")
	if first.ID == second.ID {
		t.Error("both sessions have one id")
	}
	journal.write(1000)
	within(t, ledger.full, "storing all events")
	ledger.check(t, 2000)
}

func TestUnacknowledgedEventsStayWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, net := newBook(), newWire()
		ledger := newArchive(0)
		release := make(chan struct{})
		ledger.trouble = func(stored bool) error {
			if !stored {
				<-release
			}
			return nil
		}
		l := coordinator(ledger)
		sessions := connected(l)
		stop := net.serve(l)
		defer stop()
		defer start(t, supervisor(net.client(t), journal))()
		within(t, sessions, "the session")

		journal.write(3 * Window)
		synctest.Wait()
		if got := journal.given(); got != Window {
			t.Errorf("%d events are on their way, want %d", got, Window)
		}
		close(release)
		synctest.Wait()
		ledger.check(t, 3*Window)
		time.Sleep(confirmEvery)
		synctest.Wait()
		if got := journal.acknowledged(); got != 3*Window {
			t.Errorf("acknowledged %d events, want %d", got, 3*Window)
		}
	})
}

// A ledger that cannot be written delays events, not requests. No event is lost.
func TestEventsWaitForFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, ledger, net := newBook(), newArchive(50), newWire()
		var broken atomic.Bool
		broken.Store(true)
		ledger.trouble = func(bool) error {
			if broken.Load() {
				return errors.New("disk full")
			}
			return nil
		}
		l := coordinator(ledger)
		sessions := connected(l)
		defer net.serve(l)()
		defer start(t, supervisor(net.client(t), journal))()
		s := within(t, sessions, "the session")
		journal.write(50)
		time.Sleep(10 * time.Minute)
		if err := s.Request(t.Context(), VerbSubmit, "x", nil); err != nil {
			t.Errorf("Request while the store fails: %v", err)
		}
		if got := journal.acknowledged(); got != 0 {
			t.Errorf("%d events are acknowledged that are stored nowhere", got)
		}
		broken.Store(false)
		within(t, ledger.full, "storing after the trouble")
		ledger.check(t, 50)
	})
}

func TestCoordinatorCannotAcknowledgeUnsentEvent(t *testing.T) {
	o := newOutflow(newBook(), 10)
	if err := o.acked(10); err != nil {
		t.Errorf("acked(10) = %v", err)
	}
	if _, ok := errors.AsType[protocolError](o.acked(11)); !ok {
		t.Error("an ack of an event that was never sent is believed")
	}
}

// aged is a journal whose first events are deleted.
type aged struct {
	*book
	first int64 // first remaining event
}

func (a aged) EncodedEvents(ctx context.Context, after int64, most int) (string, []writ.EncodedEvent, error) {
	return a.book.EncodedEvents(ctx, max(after, a.first-1), most)
}

// seqs is a new ledger that accepts any event.
type seqs struct {
	mu  sync.Mutex
	all []int64
}

func (s *seqs) LastEvent(context.Context, writ.DatacenterID, string) (int64, time.Time, error) {
	return 0, time.Time{}, nil
}

func (s *seqs) StoreEvents(_ context.Context, _ writ.DatacenterID, events []writ.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.all = append(s.all, e.Seq)
	}
	return nil
}

// Promise: Limits and shares: A coordinator with a new ledger receives the events of a journal from the oldest stored
// one.
// How: Only the first event may have any number.
func TestNewCoordinatorStartsAtOldestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, last = 10*Window + 3, 13 * Window
		journal, ledger, net := aged{newBook(), first}, new(seqs), newWire()
		l := coordinator(ledger)
		defer net.serve(l)()
		journal.write(last)
		defer start(t, supervisor(net.client(t), journal))()
		synctest.Wait()
		time.Sleep(confirmEvery)
		synctest.Wait()
		ledger.mu.Lock()
		defer ledger.mu.Unlock()
		if n := len(ledger.all); n != last-first+1 || ledger.all[0] != first || ledger.all[n-1] != last {
			t.Errorf("received %d events, want %d to %d", n, first, last)
		}
		if got := journal.acknowledged(); got != last {
			t.Errorf("acknowledged event %d, want %d", got, last)
		}
	})
}

// received passes a frame to a new session whose last event is after.
func received(f *frame, after int64) error {
	in := newInflow(newArchive(0), new(intake), Hello{Journal: journal}, after)
	if err := in.on(context.Background(), f); err != nil {
		return err
	}
	frames, size, err := in.backlog.next(context.Background())
	if err != nil {
		return err
	}
	_, err = in.attempt(context.Background(), frames, size)
	return err
}

func TestInflowRefusesGapsAndForeignJournals(t *testing.T) {
	for name, text := range map[string]string{
		"gap":             `{"type":"event","journal":"` + journal + `","events":[{"seq":12,"time":"2026-11-21T10:00:00Z"}]}`,
		"foreign journal": `{"type":"event","journal":"j2","events":[{"seq":11,"time":"2026-11-21T10:00:00Z"}]}`,
		"too many":        `{"type":"event","journal":"` + journal + `","events":[` + strings.Repeat("{},", Window) + `{}]}`,
		"no list":         `{"type":"event","journal":"` + journal + `","events":{}}`,
		"no integer":      `{"type":"event","journal":"` + journal + `","events":[{"seq":11,"time":"2026-11-21T10:00:00Z","run":{"output":{"n":1.5}}}]}`,
	} {
		f, err := decodeFrame([]byte(text))
		if err == nil {
			err = received(f, 10)
		}
		if _, ok := errors.AsType[protocolError](err); !ok {
			t.Errorf("%s is taken: %v", name, err)
		}
	}
}

func TestEventsOfAFrameFitIntoIt(t *testing.T) {
	journal := newBook()
	journal.write(3)
	for i := range journal.events {
		journal.events[i].Log.Text = string(make([]byte, 200<<10)) // its encoding is six times as large
	}
	journal.events[0].Log.Text = "short"
	journal.events[1].Log.Text = "short"
	encoded, err := encode(journal.events)
	if err != nil {
		t.Fatal(err)
	}
	var head eventHead
	if err := head.set("j1"); err != nil {
		t.Fatal(err)
	}
	data, n, err := eventFrame(head.text, encoded)
	if err != nil || n != 2 || len(data) > maxBatch {
		t.Errorf("a frame takes %d events in %d bytes, %v; want the 2 that fit", n, len(data), err)
	}
	f, err := decodeFrame(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeEvents(f.Events, Window)
	if diff := cmp.Diff(journal.events[:2], got); diff != "" || f.Type != typeEvent || err != nil {
		t.Errorf("a %q frame, events (-want +got), %v:\n%s", f.Type, err, diff)
	}
}

func TestEventFrameNamesAnyJournal(t *testing.T) {
	var head eventHead
	for _, journal := range []string{"j1", "a\x01\x7f\"\\", "\u200b\U000e0001", "\a\v", "j1"} {
		if err := head.set(journal); err != nil {
			t.Fatal(err)
		}
		data, _, err := eventFrame(head.text, []writ.EncodedEvent{{Seq: 1, JSON: []byte(`{"seq":1}`)}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := decodeFrame(data)
		if err != nil {
			t.Errorf("journal %q: %v", journal, err)
		} else if f.Journal != journal {
			t.Errorf("the frame of journal %q names %q", journal, f.Journal)
		}
	}
}
