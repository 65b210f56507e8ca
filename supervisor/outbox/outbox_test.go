package outbox

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/runner/queue"
	"writ/supervisor/mail"
	"writ/supervisor/ratelog"
)

// sink is a queue that discards jobs.
type sink struct{ queue.Queue }

func (sink) Push(context.Context, writ.NodeID, ...queue.Task) error { return nil }

// BenchmarkDispatch measures the cost of sending the jobs of one commit to a node, without the queue.
func BenchmarkDispatch(b *testing.B) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	o := New(Config{Key: key, Queue: sink{}, Warnings: ratelog.New(slog.New(slog.DiscardHandler))})
	now := time.Now()
	for _, n := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			jobs := make([]Job, n)
			for i := range jobs {
				job := writ.Job{
					JobKey: writ.JobKey{Run: "ts64ne6hqypah6oches7g6ggwa", Seq: i + 1, Attempt: 1}, Delivery: 1, Node: "n", Operation: "node.ping",
					StartBy: now.Add(time.Minute).UnixMilli(), EndBy: now.Add(time.Hour).UnixMilli(),
				}
				body, err := cbor.Marshal(job)
				if err != nil {
					b.Fatal(err)
				}
				jobs[i] = Job{job.TaskID(), body, now.Add(time.Hour)}
			}
			for b.Loop() {
				o.push(b.Context(), "n", sign(o, map[writ.NodeID][]Job{"n": jobs})["n"])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/job")
		})
	}
}

func TestJobsOfNodesShareASignature(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := New(Config{Key: key, Queue: sink{}, Warnings: ratelog.New(slog.New(slog.DiscardHandler))})
	job := func(seq int) Job {
		body, err := cbor.Marshal(writ.Job{JobKey: writ.JobKey{Run: "r", Seq: seq, Attempt: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return Job{Task: fmt.Sprint(seq), Body: body}
	}
	signed := func(jobs ...Job) [][]byte {
		bodies, _, err := envelope.SignEach(envelope.Job, key, jobs[0].Body, jobs[1].Body)
		if err != nil {
			t.Fatal(err)
		}
		return bodies
	}
	one, two := job(1), job(2)
	ab, ba := signed(one, two), signed(two, one)
	tasks := sign(o, map[writ.NodeID][]Job{"a": {one}, "b": {two}})
	a, b := tasks["a"][0].Body, tasks["b"][0].Body
	if !(bytes.Equal(a, ab[0]) && bytes.Equal(b, ab[1])) && !(bytes.Equal(a, ba[1]) && bytes.Equal(b, ba[0])) {
		t.Error("the jobs of two nodes have two signatures")
	}

	many := make(map[writ.NodeID][]Job)
	for seq := range 3 * jobsPerSignature {
		node := writ.NodeID(fmt.Sprint("n", seq%3))
		many[node] = append(many[node], job(seq))
	}
	for node, tasks := range sign(o, many) {
		for i, task := range tasks {
			if task.ID != many[node][i].Task {
				t.Errorf("task %d of %s is %s, want %s", i, node, task.ID, many[node][i].Task)
			}
		}
	}
}

// recorder is a queue that records the removals and messages that it receives. It withdraws the tasks in there.
type recorder struct {
	queue.Queue
	there   []string
	err     error
	sent    int
	removed []queue.Message
}

func (r *recorder) Acknowledge(_ context.Context, messages ...queue.Message) error {
	r.removed = append(r.removed, messages...)
	return nil
}

func (r *recorder) Send(context.Context, queue.Stream, []byte) error {
	r.sent++
	return nil
}

func (r *recorder) Withdraw(_ context.Context, _ writ.NodeID, ids ...string) (withdrawn []string, err error) {
	for _, id := range ids {
		if slices.Contains(r.there, id) {
			withdrawn = append(withdrawn, id)
		}
	}
	return withdrawn, r.err
}

// TestAcknowledgementsOfANodeShareAMessage checks that a node with few results at a time gets one message for several
// of them, within half a second, and that many results are acknowledged at once.
func TestAcknowledgementsOfANodeShareAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		q := &recorder{}
		o := New(Config{Key: key, Queue: q, Warnings: ratelog.New(slog.New(slog.DiscardHandler))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.RunAcks(ctx) }()
		results := func(node writ.NodeID, n int) {
			for i := range n {
				r := mail.Arrival{Node: node, Message: queue.Message{ID: fmt.Sprint(i), Body: []byte("a result")}}
				o.Put(nil, []mail.Arrival{r}, Stops{})
			}
			o.Flush()
		}
		after := func(wait time.Duration, sent, removed int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if q.sent != sent || len(q.removed) != removed {
				t.Errorf("%d messages to nodes, %d removed from the queue, want %d and %d", q.sent, len(q.removed), sent, removed)
			}
		}
		results("a", 1)
		after(200*time.Millisecond, 0, 0)
		results("a", 2)
		results("b", 1)
		after(350*time.Millisecond, 1, 3)
		after(200*time.Millisecond, 2, 4)
		results("a", acksAtOnce)
		after(ackTogether, 3, 4+acksAtOnce)
		for _, m := range q.removed {
			if m.Body != nil {
				t.Error("the body of a result stays in memory until its acknowledgement")
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStopsReportWithdrawnJobs(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	job := func(seq int) writ.JobKey { return writ.JobKey{Run: "r", Seq: seq, Attempt: 1} }
	one, two, three := mail.Delivery{Key: job(1), Number: 1}, mail.Delivery{Key: job(2), Number: 1}, mail.Delivery{Key: job(2), Number: 2}
	all := map[writ.NodeID][]mail.Delivery{"n": {one, two, three}}
	for _, tt := range []struct {
		name       string
		stops      Stops
		there      []mail.Delivery
		err        error
		sent       int
		want       mail.Mail
		unanswered bool
	}{
		{name: "Withdraw", stops: Stops{Withdraw: all}, there: []mail.Delivery{one}, want: mail.Mail{Withdrawn: []mail.Delivery{one}}},
		{name: "Nothing", stops: Stops{Withdraw: all}},
		{name: "Reclaim", stops: Stops{Reclaim: all}, there: []mail.Delivery{one}, want: mail.Mail{Withdrawn: []mail.Delivery{one}, MaybeStarted: []writ.JobKey{job(2)}}},
		{name: "ReclaimUnanswered", stops: Stops{Reclaim: all}, there: []mail.Delivery{one}, err: errors.New("away"),
			want: mail.Mail{Withdrawn: []mail.Delivery{one}}, unanswered: true},
		{name: "Stale", stops: Stops{Stale: all}, there: []mail.Delivery{one}},
		{name: "Cancel", stops: Stops{Cancels: map[writ.NodeID]int{"n": 1, "m": 0}, GivenUp: map[writ.NodeID][]writ.JobKey{"n": {job(1)}}}, sent: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := &recorder{err: tt.err}
			for _, d := range tt.there {
				q.there = append(q.there, d.TaskID())
			}
			var got mail.Mail
			o := New(Config{Key: key, Queue: q, Warnings: ratelog.New(slog.New(slog.DiscardHandler)), Post: func(_ writ.RunID, m mail.Mail) { got.Add(m) }})
			tt.stops.Run = "r"
			o.Put(nil, nil, tt.stops)
			o.sendAll(t.Context())
			if !slices.Equal(got.Withdrawn, tt.want.Withdrawn) || !slices.Equal(got.MaybeStarted, tt.want.MaybeStarted) || q.sent != tt.sent {
				t.Errorf("mail is %+v and %d messages were sent, want %+v and %d", got, q.sent, tt.want, tt.sent)
			}
			if o.IsUnanswered("r") != tt.unanswered || len(o.TakeUnanswered()) > 0 != tt.unanswered || o.IsUnanswered("r") {
				t.Errorf("unanswered is not %t, then false", tt.unanswered)
			}
		})
	}
}
