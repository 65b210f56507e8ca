package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner"
	"writ/runner/journal"
	"writ/runner/queue"
	"writ/runner/queue/memory"
)

// BenchmarkPing measures the runner's part of a call without the queue: envelope opened, started and finished on disk,
// result signed and sent.
func BenchmarkPing(b *testing.B) {
	s := newFixture(b)
	dir := b.TempDir()
	m := s.join(dir)
	records, err := journal.Open(b.Context(), filepath.Join(dir, "runner.db"))
	must(b, err)
	defer records.Close()
	q := memory.New()
	r := &runner.Runner{Member: m, API: s, Queue: q, Journal: records, Drivers: newHost().drivers()}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })

	tasks := make([]queue.Task, 0, b.N)
	for len(tasks) < b.N {
		var jobs []any
		for range min(8, b.N-len(tasks)) {
			j := s.job(len(tasks)+len(jobs)+1, "node.ping", "", func(j *writ.Job) {
				j.Node = m.Node()
				j.StartBy, j.EndBy = time.Now().Add(time.Hour).UnixMilli(), time.Now().Add(time.Hour).UnixMilli()
			})
			jobs = append(jobs, j)
		}
		signed, _, err := envelope.SignEach(envelope.Job, s.supervisor, jobs...)
		must(b, err)
		for _, body := range signed {
			tasks = append(tasks, queue.Task{ID: fmt.Sprint(len(tasks)), Body: body})
		}
	}
	b.ResetTimer()
	must(b, q.Push(b.Context(), m.Node(), tasks...))
	seen, messages := map[writ.JobKey]bool{}, 0
	for len(seen) < b.N {
		got, err := q.Receive(b.Context(), time.Second, queue.Stream{Node: m.Node(), Direction: queue.Out})
		must(b, err)
		for _, message := range got {
			results, _, err := envelope.Open[writ.Result](envelope.Result, message.Body, envelope.Only(m.PublicKey()))
			if err != nil {
				continue // a beat
			}
			messages++
			for _, r := range results {
				seen[r.JobKey] = true
			}
		}
		must(b, q.Acknowledge(b.Context(), got...))
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/float64(messages), "results/message")
	stop()
	running.Wait()
}
