package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// holding returns a messenger that has read messages from each of several streams.
func holding(streams, messages int) (*messenger, []queue.Stream) {
	q := &messenger{held: map[queue.Stream][]queue.Message{}}
	var all []queue.Stream
	for i := range streams {
		s := queue.Stream{Node: writ.NodeID(fmt.Sprintf("0192f6c2-0000-7000-8000-%012d", i)), Direction: queue.Out}
		all = append(all, s)
		for m := range messages {
			q.held[s] = append(q.held[s], queue.Message{Stream: s, ID: fmt.Sprint(i, "-", m)})
		}
	}
	return q, all
}

func TestStreamsDeliverOnceAndInOrder(t *testing.T) {
	q, streams := holding(4, 60)
	var got []string
	for _, asked := range [][]queue.Stream{streams[:2], streams[:2], streams[:2], streams[1:3]} {
		taken := q.takeHeld(asked)
		if len(taken) > maxReceived {
			t.Errorf("%d messages at once", len(taken))
		}
		for _, m := range taken {
			got = append(got, m.ID)
		}
	}
	var want []string
	for i := range 3 {
		for m := range 60 {
			want = append(want, fmt.Sprint(i, "-", m))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := len(q.held); left != 1 {
		t.Errorf("messages of %d streams are left, want 1: of the unrequested stream", left)
	}
}

// Promise: Recovery: A stopped node or supervisor waits for no answer of Redis.
// How: The end of a context interrupts the blocking reads.
// Also: TestInterruptedReadersContinue.
func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, admin := open(t, server.URL), client(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	ended := receiving(ctx, q, queue.Stream{Node: testNode, Direction: queue.Out})
	waitForBlocked(t, admin, 1)
	if err := admin.Do(t.Context(), "client", "pause", guard.Milliseconds(), "all").Err(); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case got := <-ended:
		if !errors.Is(got.err, context.Canceled) {
			t.Errorf("Receive = %v", got.err)
		}
	case <-time.After(2 * blockFor): // without an answer, the client itself gives up 10 s after blockFor
		t.Error("Receive waits for the answer of Redis")
	}
}

func TestInterruptedReadersContinue(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, admin := open(t, server.URL), client(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	first := receiving(ctx, q, queue.Stream{Node: testNode, Direction: queue.Out})
	stream := queue.Stream{Node: otherNode, Direction: queue.Out}
	second := receiving(t.Context(), q, stream)
	waitForBlocked(t, admin, 2)
	cancel()
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		t.Errorf("Receive = %v", got.err)
	}
	if err := q.Send(t.Context(), stream, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := <-second; got.err != nil || len(got.messages) != 1 {
		t.Errorf("the other reader gets %v, %v", got.messages, got.err)
	}
}

// received is the result of Receive.
type received struct {
	messages []queue.Message
	err      error
}

// receiving starts a Receive and returns the channel for its result.
func receiving(ctx context.Context, q *Queue, stream queue.Stream) <-chan received {
	ended := make(chan received, 1)
	go func() {
		messages, err := q.Receive(ctx, time.Hour, stream)
		ended <- received{messages, err}
	}()
	return ended
}

// waitForBlocked waits until Redis has this number of blocked clients.
func waitForBlocked(t *testing.T, admin *redis.Client, want int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text := admin.Info(t.Context(), "clients").Val()
		if infoOf(text)["blocked_clients"] == strconv.Itoa(want) {
			return
		}
		if time.Since(began) > guard {
			t.Fatalf("%d clients should be blocked: %s", want, text)
		}
	}
}

// BenchmarkManyStreams returns the messages of many nodes.
func BenchmarkManyStreams(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				q, streams := holding(nodes, 1)
				b.StartTimer()
				for len(q.takeHeld(streams)) > 0 {
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/message")
		})
	}
}

// The message would come again after a restart, and use memory until then.
func TestAnUnremovableMessageIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server := testenv.Redis(t)
	q, redis := open(t, server.URL), client(t, server.URL)
	streams := []queue.Stream{{Node: testNode, Direction: queue.Out}, {Node: otherNode, Direction: queue.Out}}
	var messages []queue.Message
	for _, s := range streams {
		must(t, q.Send(t.Context(), s, []byte("x")))
		got, err := q.Receive(t.Context(), guard, s)
		must(t, err)
		messages = append(messages, got...)
	}
	key := streamKey(streams[0])
	must(t, redis.Del(t.Context(), key).Err())
	must(t, redis.RPush(t.Context(), key, "no stream").Err())
	must(t, redis.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	if err := q.Acknowledge(t.Context(), messages...); writ.CodeOf(err) != writ.CodeQueueUnavailable {
		t.Errorf("acknowledge while Redis rejects writes: %v", err)
	}
	must(t, redis.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	must(t, q.Acknowledge(t.Context(), messages...))
	if n, err := redis.XLen(t.Context(), streamKey(streams[1])).Result(); err != nil || n != 0 {
		t.Errorf("%d messages are left: %v", n, err)
	}
}
