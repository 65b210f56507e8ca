package supervisor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/runner/queue"
)

// sink is a queue into which jobs only go.
type sink struct{ queue.Queue }

func (sink) Push(context.Context, writ.NodeID, ...queue.Task) error { return nil }

// BenchmarkDispatch measures what it costs to send the jobs of one commit to a node, without the queue: envelopes, and what the queue is given.
func BenchmarkDispatch(b *testing.B) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	d := newDispatch(&Supervisor{Config: Config{Key: key, Queue: sink{}, Log: slog.New(slog.DiscardHandler)}})
	now := time.Now()
	for _, n := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			jobs := make([]outgoing, n)
			for i := range jobs {
				job := writ.Job{
					JobKey: writ.JobKey{Run: "ts64ne6hqypah6oches7g6ggwa", Seq: i + 1, Attempt: 1}, Delivery: 1, Node: "n", Operation: "node.ping",
					StartBy: now.Add(time.Minute).UnixMilli(), EndBy: now.Add(time.Hour).UnixMilli(),
				}
				body, err := cbor.Marshal(job)
				if err != nil {
					b.Fatal(err)
				}
				jobs[i] = outgoing{job.TaskID(), body, now.Add(time.Hour)}
			}
			for b.Loop() {
				d.send(b.Context(), "n", jobs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/job")
		})
	}
}
