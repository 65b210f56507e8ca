package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"writ"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	dc      = writ.DatacenterID("0192f6c2-0000-7000-8000-000000000001")
	journal = "j1"
	coordAt = "http://coord.test"
)

// book is a supervisor's journal with events.
type book struct {
	mu      sync.Mutex
	events  []writ.Event
	changed chan struct{}
	handed  int64 // last event handed out
	acked   int64
	ledger  *archive // ledger that must have the acknowledged events, if set
	lost    string   // an acknowledged event that is missing
}

func newBook() *book { return &book{changed: make(chan struct{})} }

func (b *book) write(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		seq := int64(len(b.events) + 1)
		b.events = append(b.events, writ.Event{Journal: journal, Seq: seq, Log: &writ.LogLine{Ordinal: int(seq), Text: fmt.Sprint("line ", seq)}})
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book) EncodedEvents(ctx context.Context, after int64, most int) (string, []writ.EncodedEvent, error) {
	for {
		b.mu.Lock()
		events, changed := b.events[min(after, int64(len(b.events))):], b.changed
		events = events[:min(len(events), most)]
		b.handed = max(b.handed, after+int64(len(events)))
		b.mu.Unlock()
		if len(events) > 0 {
			encoded, err := encode(events)
			return journal, encoded, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

// encode returns events in the form of a journal.
func encode(events []writ.Event) ([]writ.EncodedEvent, error) {
	encoded := make([]writ.EncodedEvent, len(events))
	for i, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		encoded[i] = writ.EncodedEvent{Seq: e.Seq, JSON: text}
	}
	return encoded, nil
}

func (b *book) Agree(context.Context, string, int64, time.Time) error { return nil }

func (b *book) Acknowledge(_ context.Context, seq int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked = seq
	if b.ledger != nil {
		if last, _, _ := b.ledger.LastEvent(context.Background(), dc, journal); last < seq {
			b.lost = fmt.Sprintf("event %d was acknowledged when %d were stored", seq, last)
		}
	}
	return nil
}

// check fails the test if an event was acknowledged before it was stored.
func (b *book) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != "" {
		t.Error(b.lost)
	}
}

func (b *book) given() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handed
}

func (b *book) acknowledged() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked
}

// archive is a coordinator's ledger of events. It detects repeated and out-of-order events.
type archive struct {
	mu      sync.Mutex
	stored  []writ.Event
	full    chan struct{} // closed when want events are stored
	want    int
	trouble func(stored bool) error // called before and after storing, if set
	broken  string
}

func newArchive(want int) *archive { return &archive{want: want, full: make(chan struct{})} }

func (a *archive) LastEvent(context.Context, writ.DatacenterID, string) (int64, time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.stored)), time.Time{}, nil
}

func (a *archive) StoreEvents(_ context.Context, _ writ.DatacenterID, events []writ.Event) error {
	if a.trouble != nil {
		if err := a.trouble(false); err != nil {
			return err
		}
	}
	a.mu.Lock()
	for _, e := range events {
		last := int64(len(a.stored))
		if e.Seq > last+1 {
			a.broken = fmt.Sprintf("event %d came after %d", e.Seq, last)
		}
		if e.Seq == last+1 {
			a.stored = append(a.stored, e)
		}
	}
	if len(a.stored) >= a.want && a.want > 0 {
		a.want = 0
		close(a.full)
	}
	a.mu.Unlock()
	if a.trouble != nil {
		return a.trouble(true)
	}
	return nil
}

// check fails the test unless events 1 to n are stored unchanged.
func (a *archive) check(t *testing.T, n int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != "" {
		t.Error(a.broken)
	}
	if len(a.stored) != n {
		t.Fatalf("%d events are stored, want %d", len(a.stored), n)
	}
	for i, e := range a.stored {
		if want := fmt.Sprint("line ", i+1); e.Seq != int64(i+1) || e.Log.Text != want {
			t.Fatalf("event %d is %d %q", i+1, e.Seq, e.Log.Text)
		}
	}
}

// wire is a network of pipes that works in a synctest bubble, with one address and one listener at a time.
type wire struct {
	mu    sync.Mutex
	calls chan net.Conn
	dials []time.Time
	cut   func(net.Conn) net.Conn // wraps the connections of the dialing side, if set
}

func newWire() *wire { return &wire{calls: make(chan net.Conn)} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, time.Now())
	cut := w.cut
	w.mu.Unlock()
	here, there := net.Pipe()
	select {
	case w.calls <- there:
		if cut != nil {
			return cut(here), nil
		}
		return here, nil
	case <-time.After(10 * time.Millisecond):
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *wire) client(t *testing.T) *http.Client {
	transport := &http.Transport{DialContext: w.dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type pipeListener struct {
	wire *wire
	once sync.Once
	done chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.wire.calls:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// serve runs a coordinator on the wire until stop is called.
func (w *wire) serve(l *Listener) (stop func()) {
	server := &http.Server{Handler: l, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(&pipeListener{wire: w, done: make(chan struct{})}) })
	return sync.OnceFunc(func() {
		_ = server.Close()
		l.Close()
		serving.Wait()
	})
}

// coordinator returns a listener that admits every supervisor with a valid proof.
func coordinator(events EventSink) *Listener {
	return &Listener{
		Authenticate: func(_ context.Context, hello Hello, nonce []byte) error {
			if !bytes.Equal(hello.Signature, proof(nonce, coordAt)) {
				return writ.Errorf(writ.CodeSignatureInvalid, "the signature of the hello is wrong")
			}
			return nil
		},
		Welcome: func(context.Context, Hello) (Welcome, error) {
			return Welcome{Roster: 7, Coordinators: []string{coordAt}}, nil
		},
		Events: events,
		Log:    slog.New(slog.DiscardHandler),
	}
}

// proof returns a fake signature that depends on nonce and URL.
func proof(nonce []byte, url string) []byte {
	sum := writ.DigestOf(append([]byte(url), nonce...))
	return sum[:]
}

// supervisor returns a dialer with one verb for each behavior of a handler.
func supervisor(client *http.Client, events EventSource) *Dialer {
	return &Dialer{
		URL: coordAt,
		Hello: func() Hello {
			return Hello{Datacenter: dc, Journal: journal, Version: "1.2.3", Epoch: 5, Roster: 6, Verbs: []Verb{VerbSubmit, VerbPlan, VerbValues, VerbLogs}}
		},
		Sign:   func(_ Hello, nonce []byte, url string) ([]byte, error) { return proof(nonce, url), nil },
		Events: events,
		Handle: func(_ context.Context, verb Verb, params json.RawMessage) (any, error) {
			switch verb {
			case VerbSubmit:
				return map[string]any{"echo": params}, nil
			case VerbPlan:
				return nil, writ.Errorf(writ.CodeScriptInvalid, "line 3 is wrong").WithHint("look at line 3")
			case VerbLogs:
				return bytes.Repeat([]byte("x"), MaxFrame), nil
			default:
				return nil, errors.New("secret detail")
			}
		},
		HTTP: client,
		Log:  slog.New(slog.DiscardHandler),
	}
}

// start runs d until the end of the test or stop.
func start(t *testing.T, d *Dialer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// connected returns a channel that receives each session of l.
func connected(l *Listener) <-chan *Session {
	sessions := make(chan *Session, 100)
	l.Connected = func(_ context.Context, s *Session) { sessions <- s }
	return sessions
}

// within receives from c, or fails the test after a timeout. The timeout is not a measurement.
func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

// stranger is a raw WebSocket client that performs the handshake by hand.
type stranger struct {
	t    *testing.T
	conn *websocket.Conn
}

func (w *wire) stranger(t *testing.T) *stranger {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), coordAt+Path, &websocket.DialOptions{HTTPClient: w.client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(MaxFrame)
	return &stranger{t, conn}
}

func (s *stranger) write(text string) {
	s.t.Helper()
	if err := s.conn.Write(s.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stranger) read() (*frame, error) {
	_, data, err := s.conn.Read(s.t.Context())
	if err != nil {
		return nil, err
	}
	return decodeFrame(data)
}

// next reads the next frame of one type.
func (s *stranger) next(kind string) *frame {
	s.t.Helper()
	for {
		f, err := s.read()
		if err != nil {
			s.t.Fatalf("wait for %s: %v", kind, err)
		}
		if f.Type == kind {
			return f
		}
	}
}

// greet performs the handshake as datacenter dc.
func (s *stranger) greet(hello Hello) *frame {
	s.t.Helper()
	hello.Signature = proof(s.next(typeChallenge).Nonce, coordAt)
	data, err := (&frame{Type: typeHello, Hello: &hello}).encode()
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(data))
	f, err := s.read()
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}
