package supervisor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"writ"
)

// stepsScript makes ten calls, each after the one before it has answered.
const stepsScript = `
node := import("node")
for i := 0; i < 10; i++ {
	node.ping().err
}
`

// BenchmarkRuns measures whole runs of ten sequential calls that do nothing, with a real runner over the queue in memory and passes
// in this process; everything is journaled and sealed as always. It leaves out Redis and the evaluator's processes.
func BenchmarkRuns(b *testing.B) {
	for _, inFlight := range []int{1, 50} {
		b.Run(fmt.Sprintf("inFlight=%d", inFlight), func(b *testing.B) {
			s := newSite(b)
			s.realNode("n1")
			s.wantState(s.submit(stepsScript), writ.RunSucceeded)
			ends := s.watchEnds()
			next := make(chan struct{})
			var group sync.WaitGroup
			b.ResetTimer()
			for range inFlight {
				group.Go(func() {
					for range next {
						if run, err := s.Submit(b.Context(), s.signPayload(s.payload(stepsScript))); err != nil {
							b.Error(err)
						} else {
							<-ends(run.ID)
						}
					}
				})
			}
			for b.Loop() {
				next <- struct{}{}
			}
			close(next)
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// watchEnds reads all events from now on and returns a function that gives a channel which is closed when a run has ended.
func (s *site) watchEnds() func(writ.RunID) <-chan struct{} {
	var mu sync.Mutex
	ended := make(map[writ.RunID]chan struct{})
	end := func(id writ.RunID) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if ended[id] == nil {
			ended[id] = make(chan struct{})
		}
		return ended[id]
	}
	ctx, stop := context.WithCancel(s.t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		var after int64
		for {
			events, err := s.journal.Events(ctx, after, 1000)
			if err != nil {
				return
			}
			for _, e := range events {
				after = e.Seq
				if e.Run != nil && e.Run.State.Ended() {
					close(end(e.Run.ID))
				}
			}
		}
	})
	s.t.Cleanup(func() { stop(); reading.Wait() })
	return func(id writ.RunID) <-chan struct{} { return end(id) }
}
