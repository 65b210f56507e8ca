package asynqpeer

import (
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"writ/cmd/writ/internal/bench/peer"
	"writ/internal/test/testenv"
)

// asynq repeats a failed call. The repetition is not another call of its run.
func TestFailedCallIsCountedOnce(t *testing.T) {
	p := &Peer{}
	end, err := p.Connect("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	p.tasks, p.runs = asynq.NewClientFromRedisClient(p.redis), make([]run, 1)
	p.runs[0].left.Store(2)
	call := asynq.NewTask(taskType, make([]byte, payloadSize)) // of run 0
	for range 3 {
		if err := p.handle(t.Context(), call); err == nil {
			t.Fatal("a call was enqueued without Redis")
		}
	}
	if left := p.runs[0].left.Load(); left != 2 {
		t.Errorf("%d calls are left, want 2", left)
	}
}

// The comparison is fair only if asynq runs every call.
func TestEveryCallIsCarriedOutOnce(t *testing.T) {
	server := testenv.Redis(t)
	for _, journal := range []bool{false, true} {
		for _, o := range []peer.Order{{Runs: 6, InFlight: 3, Calls: 4}, {Runs: 2, InFlight: 1, Calls: 100, AtOnce: true}} {
			t.Run(fmt.Sprintf("journal=%v,atOnce=%v", journal, o.AtOnce), func(t *testing.T) {
				p := &Peer{Slots: 8, Poll: 2 * time.Millisecond, Journal: journal}
				end, err := p.Connect(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer end()
				took, err := peer.CarryOut(t.Context(), p, o)
				if err != nil || len(took.Runs) != o.Runs {
					t.Fatalf("%d runs, %v", len(took.Runs), err)
				}
				queue, err := asynq.NewInspectorFromRedisClient(p.redis).GetQueueInfo(queueName)
				if err != nil || queue.ProcessedTotal != o.Runs*o.Calls || queue.Size != 0 || queue.FailedTotal != 0 {
					t.Errorf("%v: %+v, want %d processed", err, queue, o.Runs*o.Calls)
				}
				for i := range o.Runs {
					want := int64(0)
					if journal {
						want = 2 * int64(o.Calls)
					}
					if rows := p.redis.LLen(t.Context(), "journal:"+p.id(i)).Val(); rows != want {
						t.Errorf("run %d has %d rows in its journal, want %d", i, rows, want)
					}
				}
			})
		}
	}
}
