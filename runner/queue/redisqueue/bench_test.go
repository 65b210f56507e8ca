package redisqueue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// The cost of the transport alone: bodies of 256 bytes, empty handlers, and client, server and Redis on one machine.

const benchNode = writ.NodeID("0192f6c2-0000-7000-8000-0000000000be")

// BenchmarkTasks pushes tasks, 64 at a time from 4 goroutines, and handles them.
func BenchmarkTasks(b *testing.B) {
	q := benchQueue(b)
	var handled sync.WaitGroup
	stop := benchServe(b, q, func(context.Context, queue.Task) { handled.Done() })
	defer stop()
	body := bytes.Repeat([]byte("x"), 256)
	endBy := time.Now().Add(time.Hour)
	run := fmt.Sprint(time.Now().UnixNano())
	b.ResetTimer()
	handled.Add(b.N)
	var pushing sync.WaitGroup
	for worker := range 4 {
		pushing.Go(func() {
			var tasks []queue.Task
			for i := worker; i < b.N; i += 4 {
				tasks = append(tasks, queue.Task{ID: fmt.Sprintf("%s-%d", run, i), Body: body, EndBy: endBy})
				if len(tasks) == 64 || i+4 >= b.N {
					if err := q.Push(context.Background(), benchNode, tasks...); err != nil {
						b.Error(err)
					}
					tasks = tasks[:0]
				}
			}
		})
	}
	pushing.Wait()
	handled.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkTaskAlone pushes one task at a time to an idle queue. It measures the delay between a call and its node.
func BenchmarkTaskAlone(b *testing.B) {
	q := benchQueue(b)
	came := make(chan struct{}, 1)
	stop := benchServe(b, q, func(context.Context, queue.Task) { came <- struct{}{} })
	defer stop()
	var took []time.Duration
	run := fmt.Sprint(time.Now().UnixNano())
	b.ResetTimer()
	for i := range b.N {
		began := time.Now()
		if err := q.Push(context.Background(), benchNode, queue.Task{ID: fmt.Sprintf("%s-%d", run, i), EndBy: began.Add(time.Hour)}); err != nil {
			b.Fatal(err)
		}
		<-came
		took = append(took, time.Since(began))
		time.Sleep(time.Duration(i%7) * time.Millisecond) // out of step with the polls
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

// BenchmarkMessages sends messages one by one from 8 goroutines, receives and acknowledges them.
func BenchmarkMessages(b *testing.B) {
	q := benchQueue(b)
	q.readMessages = 1e9 // as if the messages were of many nodes
	stream := queue.Stream{Node: benchNode, Direction: queue.Out}
	body := bytes.Repeat([]byte("x"), 256)
	b.ResetTimer()
	var sending sync.WaitGroup
	for worker := range 8 {
		sending.Go(func() {
			for i := worker; i < b.N; i += 8 {
				if err := q.Send(context.Background(), stream, body); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := 0; n < b.N; {
		messages, err := q.Receive(context.Background(), time.Second, stream)
		if err == nil {
			err = q.Acknowledge(context.Background(), messages...)
		}
		if err != nil {
			b.Fatal(err)
		}
		n += len(messages)
	}
	sending.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func benchQueue(b *testing.B) *Queue {
	b.Helper()
	q, err := Open(testenv.Redis(b).URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = q.Close() })
	return q
}

func benchServe(b *testing.B, q *Queue, handle queue.Handler) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Serve(ctx, benchNode, 64, handle) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
