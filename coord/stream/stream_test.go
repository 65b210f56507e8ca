package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"writ"
	"writ/coord/api"
	"writ/internal/broadcast"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// hang limits a wait.
const hang = 30 * time.Second

const (
	vienna = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
	graz   = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000b")
	shop   = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c1")
	blog   = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c2")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// countingLedger counts the reads of events.
type countingLedger struct {
	ledger.Ledger
	asked atomic.Int64
}

func (l *countingLedger) EncodedEvents(ctx context.Context, after int64, filter ledger.EventFilter, max int) (events []ledger.EncodedEvent, more bool, err error) {
	l.asked.Add(1)
	return l.Ledger.EncodedEvents(ctx, after, filter, max)
}

// fixture is a server of streams with its own ledger.
type fixture struct {
	*Server
	t testing.TB
}

// start runs a server whose tail has a limit.
func start(t testing.TB, limit int) (*fixture, *countingLedger) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingLedger{Ledger: store}
	p := made(t, counting)
	p.tail.limit = limit
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, counting
}

// made returns a server that does not run.
func made(t testing.TB, l Ledger) *fixture {
	return &fixture{t: t, Server: New(Config{
		Ledger: l, Log: slog.New(slog.DiscardHandler), News: new(broadcast.Signal), Rights: new(broadcast.Signal),
		Still: func(context.Context) error { return nil }, Stopping: make(chan struct{}), Max: 256,
	})}
}

// store stores events of a datacenter and wakes the streams.
func (p *fixture) store(dc writ.DatacenterID, events ...writ.Event) {
	p.t.Helper()
	if err := p.Ledger.(ledger.Ledger).StoreEvents(p.t.Context(), dc, events); err != nil {
		p.t.Fatal(err)
	}
	p.News.Wake()
}

// reader receives an event stream in this process, at its own speed.
type reader struct {
	slow func() // called before each message

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // holds a token
}

func (r *reader) Header() http.Header              { return http.Header{} }
func (r *reader) WriteHeader(int)                  {}
func (r *reader) FlushError() error                { return nil }
func (r *reader) SetWriteDeadline(time.Time) error { return nil }

func (r *reader) Write(b []byte) (int, error) {
	r.slow()
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return r.text.Write(b)
}

// ids returns the ids of the received events.
func (r *reader) ids() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := []int64{}
	for m, err := range api.Messages(strings.NewReader(r.text.String())) {
		if err != nil {
			break // incomplete
		}
		ids = append(ids, m.ID)
	}
	return ids
}

// await returns when n events were received.
func (r *reader) await(t *testing.T, n int) {
	t.Helper()
	for late := time.After(hang); len(r.ids()) < n; {
		select {
		case <-r.changed:
		case <-late:
			t.Fatalf("got %d events, want %d", len(r.ids()), n)
		}
	}
}

// stream opens a stream in this process; end waits until it has ended.
func (p *fixture) stream(filter ledger.EventFilter, after int64, slow func()) (r *reader, end func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	s, err := p.Open(ctx, filter, nil, &after, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r = &reader{slow: slow, changed: make(chan struct{}, 1)}
	var flowing sync.WaitGroup
	flowing.Go(func() {
		if err := s.flow(r); err != nil && ctx.Err() == nil {
			p.t.Error(err)
		}
	})
	return r, func() {
		cancel()
		flowing.Wait()
	}
}

// The tail holds a dozen events, so streams keep switching between the tail and the ledger.
func TestStreamsReceiveEachEventOnce(t *testing.T) {
	p, _ := start(t, 10_000)
	chance := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	runs := []writ.RunID{"", payloadRun(1), payloadRun(2)}
	filters := []ledger.EventFilter{
		{}, {Projects: []writ.ProjectID{shop}}, {Projects: []writ.ProjectID{shop, blog}, Topics: []string{"log", "node"}}, {Run: runs[1]}, {Run: runs[2], Topics: []string{"log"}}, {Datacenter: graz}, {Topics: []string{"node"}}, {Topics: []string{"log", "call"}, Datacenter: vienna},
	}
	type watcher struct {
		filter ledger.EventFilter
		after  int64
		*reader
		end func()
	}
	var watchers []watcher
	watch := func() {
		_, newest, err := p.Ledger.EventRange(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := watcher{filter: filters[chance.IntN(len(filters))], after: chance.Int64N(newest + 1)}
		every, n := chance.IntN(20)+1, 0
		w.reader, w.end = p.stream(w.filter, w.after, func() {
			if n++; n%every == 0 {
				time.Sleep(time.Millisecond) // far behind
			}
		})
		watchers = append(watchers, w)
	}
	seqs := map[writ.DatacenterID]int64{}
	for range 150 {
		if chance.IntN(5) == 0 {
			watch()
		}
		dc := []writ.DatacenterID{vienna, graz}[chance.IntN(2)]
		var events []writ.Event
		for range chance.IntN(8) + 1 {
			seqs[dc]++
			e := writ.Event{Journal: "of " + string(dc), Seq: seqs[dc], Time: time.Now().UTC()}
			run := runs[chance.IntN(len(runs))]
			switch chance.IntN(4) {
			case 0:
				e.Log = &writ.LogLine{Run: run, Ordinal: int(e.Seq), Text: strings.Repeat("x", chance.IntN(300))}
			case 1:
				e.Call = &writ.Call{Run: run, Seq: int(e.Seq), State: writ.CallRunning}
			case 2:
				e.Run = &writ.Run{ID: run, Project: map[writ.RunID]writ.ProjectID{"": "", runs[1]: shop, runs[2]: blog}[run], State: writ.RunRunning}
			default:
				e.Node = &writ.Node{ID: writ.NodeID(fmt.Sprint("n", e.Seq)), Name: "n"}
			}
			events = append(events, e)
		}
		p.store(dc, events...)
		if len(watchers) > 0 && chance.IntN(20) == 0 { // one leaves, possibly the last, which ends the tail
			watchers[len(watchers)-1].end()
			watchers = watchers[:len(watchers)-1]
		}
	}
	watch()
	for _, w := range watchers {
		all, _, err := p.Ledger.(ledger.Ledger).Events(t.Context(), w.after, w.filter, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		want := []int64{}
		for _, e := range all {
			want = append(want, e.ID)
		}
		w.await(t, len(want))
		w.end()
		if diff := cmp.Diff(want, w.ids()); diff != "" {
			t.Errorf("after %d, %+v (-want +got):\n%s", w.after, w.filter, diff)
		}
	}
}

func payloadRun(n int) writ.RunID { return writ.RunIDOf(writ.DigestOf(fmt.Append(nil, n))) }

// Promise: Load and attackers: Events for many streams are read and encoded once, and a slow stream neither misses
// nor repeats an event.
// How: The newest 16 MiB of events are in memory while streams exist; slower streams read the ledger. A stream writes
// many messages at once.
// Also: TestStreamsReceiveEachEventOnce, TestMessagesAreWrittenTogether.
func TestManyStreamsAskTheLedgerOnce(t *testing.T) {
	const streams, rounds = 50, 20
	p, counting := start(t, tailBytes)
	var readers []*reader
	for range streams {
		r, end := p.stream(ledger.EventFilter{}, 0, func() {})
		defer end()
		readers = append(readers, r)
	}
	tell := func(n int64) {
		t.Helper()
		event := writ.Event{Journal: "j", Seq: n, Time: time.Now().UTC(), Log: &writ.LogLine{Ordinal: int(n), Text: "hello"}}
		p.store(vienna, event)
		for _, r := range readers {
			r.await(t, int(n))
		}
	}
	// A stream reads from the ledger until it has caught up with the tail: afterwards, an event costs at most two
	// reads.
	n := int64(0)
	for caughtUp := false; !caughtUp && n < rounds; {
		n++
		before := counting.asked.Load()
		tell(n)
		caughtUp = counting.asked.Load()-before <= 2
	}
	before := counting.asked.Load()
	for range rounds {
		n++
		tell(n)
	}
	if asked := counting.asked.Load() - before; asked > 2*rounds {
		t.Errorf("%d streams asked the ledger %d times for %d events", streams, asked, rounds)
	}
}

// TestStreamsSendTheStoredBytes compares the messages of all kinds of events with the JSON in the ledger, and with the
// events of the API.
func TestStreamsSendTheStoredBytes(t *testing.T) {
	p, counting := start(t, tailBytes)
	zero, first := p.stream(ledger.EventFilter{}, 0, func() {})
	defer first()
	run, now := payloadRun(1), time.Now().UTC()
	in := ledger.Incoming{
		Submission: writ.Submission{Payload: writ.DigestOf([]byte("1")), Run: run, Datacenter: vienna, Project: shop, Received: now, Expires: now},
		Signed:     []byte("signed"),
	}
	if _, _, err := counting.AddSubmission(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	why := writ.Reason{Code: writ.ReasonText, Text: "a \"<reason>\"\n\u2028"}
	events := []writ.Event{
		{Run: &writ.Run{
			ID: run, Project: shop, ProjectName: "shop", Deployment: "web", Revision: 3, State: writ.RunFailed, Why: why, Reason: why.Text, Accepted: now, Deadline: now,
			Started: now, Ended: now, Summary: []byte("signed"), LogsOnly: true, Plan: in.Payload, Decided: []writ.Decision{{Time: now}},
			Failure: &writ.Failure{Error: writ.Error{Code: writ.CodeNoCapacity, Message: "no room\r\n\ndata: {}"}, Seq: 1, Handled: true},
		}},
		{Run: &writ.Run{ID: run, State: writ.RunAccepted, Accepted: now, Deadline: now}},
		{Call: &writ.Call{Run: run, Seq: 1, State: writ.CallRunning, Why: why, Reason: why.Text, Planned: now, Error: &writ.Error{Code: writ.CodeNoCapacity}}},
		{Log: &writ.LogLine{Run: run, Ordinal: 1, Text: "\ufffd\x00 \u2029", Time: now}},
		{Node: &writ.Node{ID: "n1", Name: "n1", LastBeat: now}},
		{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "v"}, Run: run}},
	}
	for i := range events {
		events[i].Journal, events[i].Seq, events[i].Time = "j", int64(i+1), now
	}
	p.store(vienna, events...)
	zero.await(t, len(events)+2) // the submission is waiting, then delivered
	late, second := p.stream(ledger.EventFilter{}, 0, func() {})
	defer second()
	late.await(t, len(events)+2)
	stored, _, err := counting.Ledger.Events(t.Context(), 0, ledger.EventFilter{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, err := counting.Ledger.EncodedEvents(t.Context(), 0, ledger.EventFilter{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := retryAfterCut
	for i, e := range encoded {
		want += fmt.Sprintf("id: %d\nevent: %s\ndata: {\"topic\":\"%s\",%s\n\n", e.ID, e.Topic, e.Topic, e.JSON[1:])
		var sent api.Event
		if err := json.Unmarshal([]byte(`{"topic":"`+e.Topic+`",`+e.JSON[1:]), &sent); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(viewOf(stored[i]), sent, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("event %d (-view +sent):\n%s", e.ID, diff)
		}
	}
	for name, r := range map[string]*reader{"early": zero, "late": late} {
		if diff := cmp.Diff(want, r.text.String()); diff != "" {
			t.Errorf("the %s stream (-stored +sent):\n%s", name, diff)
		}
	}
}

// viewOf converts an event by its fields.
func viewOf(e ledger.Event) api.Event {
	v := api.Event{
		ID: e.ID, Datacenter: e.Datacenter, Topic: api.Topic(e.Topic()), Journal: e.Journal, Seq: e.Seq, Time: e.Time,
		Submission: e.Submission, Call: e.Call, Log: e.Log, Node: e.Node, Resource: e.Resource,
	}
	if e.Run != nil {
		run := api.RunOf(*e.Run, api.RunState(e.Run.State))
		v.Run = &run
	}
	return v
}

// TestMessagesAreWrittenTogether writes messages of different sizes, one of them larger than a part.
func TestMessagesAreWrittenTogether(t *testing.T) {
	var notes []note
	var want strings.Builder
	for i := range 200 {
		size := 700 + i
		if i == 100 {
			size = 3 * partBytes
		}
		text := strings.Repeat(string(rune('a'+i%26)), size)
		notes = append(notes, note{text: []byte(text)})
		want.WriteString(text)
	}
	var got writes
	if err := writeTogether(&got, notes); err != nil {
		t.Fatal(err)
	}
	if got.text.String() != want.String() {
		t.Error("the bytes differ")
	}
	if most := want.Len()/partBytes + 4; got.count > most {
		t.Errorf("%d messages in %d writes, want at most %d", len(notes), got.count, most)
	}
}

// writes counts the writes of a text.
type writes struct {
	text  strings.Builder
	count int
}

func (w *writes) Write(b []byte) (int, error) {
	w.count++
	return w.text.Write(b)
}

// foreignEvents is a ledger with a steady flow of events, none of them in the project shop.
type foreignEvents struct {
	ledger.Ledger
	newest atomic.Int64
}

func (l *foreignEvents) EventRange(context.Context) (oldest, newest int64, err error) {
	return 1, l.newest.Load(), nil
}

func (l *foreignEvents) EncodedEvents(_ context.Context, after int64, filter ledger.EventFilter, max int) (found []ledger.EncodedEvent, more bool, err error) {
	for id := after + 1; id <= l.newest.Load() && len(found) < max; id++ {
		e := ledger.EncodedEvent{ID: id, Datacenter: vienna, Topic: "log", JSON: fmt.Sprintf(`{"id":%d}`, id), About: payloadRun(1), Project: blog}
		if filter.SelectsEncoded(&e) {
			found = append(found, e)
		}
	}
	return found, len(found) == max, nil
}

// A stream without events is kept alive, and its keep-alives reveal no events of other streams.
func TestQuietStreamSendsKeepAlivesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(foreignEvents)
		p := made(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		reading.Go(func() { _ = p.Run(ctx) })
		quiet, end := p.stream(ledger.EventFilter{Projects: []writ.ProjectID{shop}}, 0, func() {})
		busy, endBusy := p.stream(ledger.EventFilter{Projects: []writ.ProjectID{shop, blog}}, 0, func() {})
		const seconds = 100
		tick := time.NewTicker(time.Second) // on the clock of the test
		for range seconds {
			<-tick.C
			l.newest.Add(1)
			p.News.Wake()
		}
		tick.Stop()
		synctest.Wait()
		if heard := len(busy.ids()); heard != seconds {
			t.Errorf("a reader of the other project hears %d of %d events", heard, seconds)
		}
		if want := retryAfterCut + strings.Repeat(": still here\n\n", int(seconds*time.Second/heartbeat)); quiet.text.String() != want {
			t.Errorf("it says %q", quiet.text.String())
		}
		end()
		endBusy()
		cancel()
		reading.Wait()
	})
}

// A stream of a run does not wake up for events of other runs, and still gets the next event of its run.
func TestStreamOfRunSleepsThroughOthers(t *testing.T) {
	p, counting := start(t, 10_000)
	var checks atomic.Int64 // one for each time a stream wakes up
	p.Still = func(context.Context) error { checks.Add(1); return nil }
	seq := int64(0)
	tell := func(run writ.RunID) {
		t.Helper()
		seq++
		p.store(vienna, writ.Event{Journal: "j", Seq: seq, Time: time.Now().UTC(), Log: &writ.LogLine{Run: run, Ordinal: int(seq), Text: strings.Repeat("x", 1000)}})
		_, newest, err := p.Ledger.EventRange(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
			p.tail.mu.Lock()
			to := p.tail.to
			p.tail.mu.Unlock()
			if to >= newest {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("the tail ends with event %d, want %d", to, newest)
			}
		}
	}
	r, end := p.stream(ledger.EventFilter{Run: payloadRun(1)}, 0, func() {})
	defer end()
	tell(payloadRun(1))
	r.await(t, 1)
	before := checks.Load()
	for range 50 { // more than the tail holds
		tell(payloadRun(2))
	}
	if woken := checks.Load() - before; woken > 2 { // after its own event
		t.Errorf("the stream woke up %d times for 50 events of another run", woken)
	}
	asked := counting.asked.Load()
	tell(payloadRun(1))
	r.await(t, 2)
	t.Logf("the ledger was asked %d times for the next event of the run", counting.asked.Load()-asked)
}
