package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
)

// leaveTime bounds how long a command that was told to end still works: GitHub kills a job 10 s after its first signal.
const leaveTime = 8 * time.Second

// leave is the end of a command whose run has not ended. It cancels the run if its person wants that, and returns what becomes of it.
func (a *app) leave(ctx context.Context, c *client.Client, id writ.RunID, w watchOptions) string {
	again := fmt.Sprintf("to see it again: writ run watch %s", id)
	if !w.cancel {
		return fmt.Sprintf("run %s goes on; %s", id, again)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer stop()
	if err := a.cancelLeft(ctx, c, id); err != nil {
		return fmt.Sprintf("run %s is NOT cancelled: %v; to cancel it: writ run cancel %s", id, err, id)
	}
	return again
}

// cancelLeft cancels a run that this command has handed in.
func (a *app) cancelLeft(ctx context.Context, c *client.Client, id writ.RunID) error {
	run, err := c.Run(ctx, id)
	if err != nil {
		return err
	}
	cancel := client.AboutRun(run, "cancel")
	cancel.Reason = "the command that submitted it ended before it"
	return a.decide(ctx, c, cancel)
}

// holdOn keeps a second signal from ending the process while it cancels its run. Some CI systems send one to each process of a job, and a shell passes
// on its own.
func holdOn() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return func() { signal.Stop(signals) }
}
