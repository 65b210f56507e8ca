package runs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
)

// leaveTime limits how long a command continues after a signal. GitHub kills a job 10 s after the first signal.
const leaveTime = 8 * time.Second

// leave ends a command whose run has not ended. If w.cancel is set, it cancels the run. It returns a sentence with the
// next step, and for the end of another sentence the clause about the cancellation, "" if none was asked for.
func leave(
	ctx context.Context, env *cli.Env, c *client.Client, id writ.RunID, w watchOptions,
) (next, cancelled string) {
	again := fmt.Sprintf("to see it again: writ run watch %s", id)
	if !w.cancel {
		return fmt.Sprintf("run %s continues; %s", id, again), ""
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer stop()
	if err := cancelLeft(ctx, env, c, id); err != nil {
		return fmt.Sprintf("run %s is NOT cancelled: %v; to cancel it: writ run cancel %s", id, err, id), "; it is NOT cancelled"
	}
	return again, "; it is being cancelled (--cancel-on-exit)"
}

// cancelLeft cancels a run that this command has submitted.
func cancelLeft(ctx context.Context, env *cli.Env, c *client.Client, id writ.RunID) error {
	run, err := c.Runs.Get(ctx, id)
	if err != nil {
		return err
	}
	cancel := client.AboutRun(run, "cancel")
	cancel.Reason = "the command that submitted the run ended before the run"
	return cli.Decide(ctx, env, c, cancel)
}

// holdOn prevents a second signal from ending the process during the cancellation of its run. Some CI systems signal
// each process of a job, and a shell forwards its own signal.
func holdOn() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return func() { signal.Stop(signals) }
}
