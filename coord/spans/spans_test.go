package spans

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"writ"
	"writ/internal/tracing"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	hang   = 30 * time.Second
	vienna = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
)

func TestRunIsATraceOfItsParts(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	seq := int64(0)
	happens := func(events ...writ.Event) {
		for i := range events {
			seq++
			events[i].Journal, events[i].Seq, events[i].Time = "j", seq, at(int(seq))
		}
		if err := store.StoreEvents(t.Context(), vienna, events); err != nil {
			t.Fatal(err)
		}
	}
	payload := writ.DigestOf([]byte("payload"))
	run := writ.RunIDOf(payload)
	accepted := writ.Run{ID: run, Payload: payload, Project: "p1", ProjectName: "shop", Signer: "alice", Script: "web.tengo", State: writ.RunRunning, Accepted: at(1)}
	failed := accepted
	failed.State, failed.Started, failed.Ended = writ.RunFailed, at(2), at(9)
	failed.Failure = &writ.Failure{Error: writ.Error{Code: writ.CodeNodeLost, Message: "it is gone"}, Position: "web.tengo:3:1"}
	happens(writ.Event{Run: &accepted}) // before the recording

	got, news := make(chan tracing.Span, 20), make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	watch := &watched{events: store, begun: make(chan struct{}), after: make(chan int64, 20)}
	r := &Recorder{
		Ledger: watch, News: func() <-chan struct{} { return news }, Record: func(s tracing.Span) { got <- s },
		DatacenterName: func(writ.DatacenterID) string { return "vienna" }, Log: slog.New(slog.DiscardHandler),
	}
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	<-watch.begun
	if _, _, err := store.AddSubmission(t.Context(), ledger.Incoming{
		Submission: writ.Submission{Payload: payload, Run: run, Datacenter: vienna, Project: "p1", Signer: "alice", Script: "web.tengo", Received: at(0), Expires: at(99)},
		Signed:     []byte("signed"),
	}); err != nil { // the run exists, so it is delivered
		t.Fatal(err)
	}
	made := writ.Call{Run: run, Seq: 1, Operation: "volume.create", Name: "data", State: writ.CallSucceeded, NodeName: "n1", Driver: "btrfs", Change: "created",
		Attempt: 2, Delivery: 1, Planned: at(2), Queued: at(3), Started: at(4), Ended: at(6)}
	never := writ.Call{Run: run, Seq: 2, Operation: "node.ping", State: writ.CallFailed, Attempt: 1, Planned: at(6), Ended: at(7), Error: &failed.Failure.Error}
	happens(writ.Event{Call: &made}, writ.Event{Call: &never}, writ.Event{Run: &failed})
	news <- struct{}{}

	why := "NODE_LOST: it is gone"
	for _, want := range []tracing.Span{
		{At: tracing.OfRun(run).Part("delivery"), Name: "deliver", From: at(0), Labels: map[string]string{"datacenter": "vienna", "state": "delivered", "signer": "alice"}},
		{At: tracing.OfCall(run, 1), Name: "volume.create data", From: at(2), Until: at(6), Labels: map[string]string{"node": "n1", "driver": "btrfs", "change": "created", "attempt": "2", "seq": "1"}},
		{At: tracing.OfCall(run, 1).Part("wait"), Name: "wait", From: at(2), Until: at(3)},
		{At: tracing.OfCall(run, 1).Part("queue"), Name: "queue", From: at(3), Until: at(4)},
		{At: tracing.OfAttempt(run, 1, 2), Name: "carry out", From: at(4), Until: at(6), Labels: map[string]string{"delivery": "1"}},
		{At: tracing.OfCall(run, 2), Name: "node.ping", From: at(6), Until: at(7), Error: why, Labels: map[string]string{"code": "NODE_LOST"}},
		{At: tracing.OfRun(run), Name: "web.tengo", From: at(1), Until: at(9), Error: why, Labels: map[string]string{"project": "shop", "state": "failed", "position": "web.tengo:3:1"}},
		{At: tracing.OfRun(run).Part("wait"), Name: "wait to begin", From: at(1), Until: at(2)},
	} {
		var s tracing.Span
		select {
		case s = <-got:
		case <-time.After(hang):
			t.Fatalf("%s is missing", want.Name)
		}
		if want.Until.IsZero() { // from the clock of the ledger
			want.Until = s.Until
		}
		for name, value := range want.Labels {
			if s.Labels[name] != value {
				t.Errorf("%s: %s is %q; want %q", want.Name, name, s.Labels[name], value)
			}
		}
		s.Labels, want.Labels = nil, nil
		if s.At != want.At {
			t.Errorf("%s is in another place", want.Name)
		}
		s.At, want.At = tracing.Place{}, tracing.Place{}
		if diff := cmp.Diff(want, s, cmp.AllowUnexported(tracing.Place{})); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}

	// An event without a run is skipped once.
	<-watch.after
	happens(writ.Event{Node: &writ.Node{ID: "n1", Datacenter: vienna, Name: "n1"}})
	_, newest, err := store.EventRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{newest - 1, newest} {
		news <- struct{}{}
		if after := <-watch.after; after != want {
			t.Errorf("it reads the events after %d, of %d", after, newest)
		}
	}
	stop()
	if err := <-ended; err != nil || len(got) != 0 {
		t.Errorf("%v, and %d more", err, len(got))
	}
}

type events = ledger.Events

// watched is a ledger that reports requests for its range, and the position of each read.
type watched struct {
	events
	once  sync.Once
	begun chan struct{}
	after chan int64
}

func (w *watched) EventRange(ctx context.Context) (oldest, newest int64, err error) {
	defer w.once.Do(func() { close(w.begun) })
	return w.events.EventRange(ctx)
}

func (w *watched) Events(ctx context.Context, after int64, filter ledger.EventFilter, max int) (events []ledger.Event, more bool, err error) {
	w.after <- after
	return w.events.Events(ctx, after, filter, max)
}
