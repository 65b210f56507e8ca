package boot

import (
	"context"
	"strings"
	"sync"
	"time"

	"writ/efi/boot/clock"
	"writ/efi/progress"
	"writ/internal/sleep"
)

// Intervals between queries.
const (
	correctEvery = 1024 * time.Second
	askSeldom    = 30 * time.Second // after a failure in the background, or repeated failures at the start
)

// clockStage corrects the clock at the start and in the background.
type clockStage struct {
	reporter
	work *sync.WaitGroup
}

// set corrects the clock if time servers are configured. It returns an error if the clock is implausible.
func (k *clockStage) set(ctx context.Context, servers []string) error {
	if len(servers) == 0 {
		return clock.Check(time.Now())
	}
	return k.correct(ctx, clock.New(servers))
}

// correct corrects the clock at the start. It then starts the background correction.
func (k *clockStage) correct(ctx context.Context, c *clock.Clock) error {
	asks := "asks for the time: " + strings.Join(c.Servers, " ")
	k.Show(progress.StageClock, asks)
	k.Waits(progress.StageClock, asks, c.Limit())
	var failed error
	for round := 1; ; round++ {
		did, err := c.Correct(true)
		if failed = err; err == nil {
			k.Stage("clock", "%s", did)
			break
		}
		possible := clock.Check(c.Now()) == nil
		goesOn := waitsForTime(possible)
		if possible && round >= clock.Rounds { // the hardware clock is plausible; the background correction asks again
			k.Show(progress.StageClock, "no answer again: "+goesOn)
			break
		}
		pause := clock.AskAgain
		// The second condition makes the pauses longer even if each failure differs from the previous failure.
		if k.FailAgain(progress.StageClock, clock.NoAnswer(err, possible), goesOn) || round >= clock.Rounds {
			pause = askSeldom
		}
		if sleep.For(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
	k.work.Go(func() { k.keep(ctx, c, failed) })
	return clock.Check(c.Now())
}

// waitsForTime describes how the start continues if no time server answers.
func waitsForTime(possible bool) string {
	if possible {
		return "the start continues with the hardware clock, and asks again later"
	}
	return "it asks every " + askSeldom.String()
}

// keep corrects the clock until the machine is turned off. failed is the error of the correction at the start, if
// any. It reports when corrections begin to fail, fail for another reason, or work again. The status page shows the
// same.
func (k *clockStage) keep(ctx context.Context, c *clock.Clock, failed error) {
	if failed != nil {
		k.clockIs("not corrected: no time server answered")
	}
	pause := func() time.Duration {
		if failed != nil {
			return askSeldom
		}
		return correctEvery
	}
	for sleep.For(ctx, pause()) == nil {
		did, err := c.Correct(false)
		switch {
		case err != nil && (failed == nil || !alike(failed.Error(), err.Error())):
			k.Fail("clock", err)
			k.clockIs("not corrected: " + withHint(err))
		case err == nil && failed != nil:
			k.Stage("clock", "%s", did)
			k.clockIs("")
		}
		failed = err
	}
}

// withHint formats an error and its hint as one line.
func withHint(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if hint := progress.HintOf(err); hint != "" {
		text += ": " + hint
	}
	return text
}
