//go:build failpoints

package redisqueue

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"writ/internal/failpoint"
)

// TestTornMessageIsNotBatched sends a message that a failpoint cuts while a round trip is running. Another goroutine
// would send a batched message whole. The plan is read at the start of a process, so the test starts itself again.
func TestTornMessageIsNotBatched(t *testing.T) {
	plan := string(failpoint.HostSent) + ":" + string(failpoint.Torn)
	if os.Getenv(failpoint.Variable) != plan {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTornMessageIsNotBatched$", "-test.count=1")
		again.Env = append(os.Environ(), failpoint.Variable+"="+plan)
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	alone := false
	send := (&batchHook{flying: true}).ProcessHook(func(context.Context, redis.Cmder) error {
		alone = true
		return nil
	})
	ctx, stop := context.WithCancel(failpoint.At(t.Context(), failpoint.HostSent))
	stop() // a batched message would wait for the round trip
	failpoint.Begin(ctx)
	err := send(ctx, redis.NewStatusCmd(ctx, "xadd", "stream"))
	failpoint.End(ctx, err)
	if err != nil || !alone {
		t.Errorf("the message is sent alone: %t, %v", alone, err)
	}
}
