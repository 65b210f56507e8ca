package stream

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

// taker reads an event stream and discards it.
type taker struct {
	http.ResponseWriter // nil; no other method is called
}

func (taker) Write(b []byte) (int, error)      { return len(b), nil }
func (taker) FlushError() error                { return nil }
func (taker) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkStreams stores events of 16 runs, 32 at a time, while each of 64 streams follows one run.
func BenchmarkStreams(b *testing.B) {
	p, _ := start(b, tailBytes)
	ctx, cancel := context.WithCancel(b.Context())
	var flowing sync.WaitGroup
	var zero int64
	for i := range 64 {
		s, err := p.Open(ctx, ledger.EventFilter{Run: payloadRun(i % 16)}, nil, &zero, nil)
		if err != nil {
			b.Fatal(err)
		}
		flowing.Go(func() { _ = s.flow(taker{}) })
	}
	seq := int64(0)
	for b.Loop() {
		events := make([]writ.Event, 32)
		for i := range events {
			seq++
			events[i] = writ.Event{Journal: "j", Seq: seq, Time: time.Now().UTC(), Call: &writ.Call{
				Run: payloadRun(i % 16), Seq: int(seq), Operation: "node.ping", State: writ.CallRunning, Node: "n1", Planned: time.Now().UTC(),
			}}
		}
		p.store(vienna, events...)
	}
	cancel()
	flowing.Wait()
	b.ReportMetric(float64(seq)/b.Elapsed().Seconds(), "events/s")
}
