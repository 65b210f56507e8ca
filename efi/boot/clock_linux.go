package boot

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// Intervals between queries.
const (
	correctEvery = 1024 * time.Second
	askAgain     = time.Second      // after a failure at the start
	askSeldom    = 30 * time.Second // after repeated failures at the start
)

func newClock(servers []string) *clock {
	return &clock{servers: servers, now: time.Now, ask: query, slew: slew, step: step}
}

// slew adjusts the kernel's clock gradually.
func slew(by time.Duration) error {
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET_SINGLESHOT, Offset: by.Microseconds()}); err != nil {
		return err
	}
	return synchronised()
}

// step sets the kernel's clock.
func step(to time.Time) error {
	ts := unix.NsecToTimespec(to.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return err
	}
	return synchronised()
}

// synchronised marks the kernel's clock as synchronised. The kernel then also updates the hardware clock.
func synchronised() error {
	_, err := unix.Adjtimex(&unix.Timex{
		Modes: unix.ADJ_STATUS | unix.ADJ_MAXERROR | unix.ADJ_ESTERROR, Status: unix.STA_PLL,
	})
	return err
}

// clockStage corrects the clock at the start and in the background.
type clockStage struct {
	reporter
	work *sync.WaitGroup
}

// set corrects the clock if time servers are configured. It returns an error if the clock is implausible.
func (k *clockStage) set(ctx context.Context, servers []string) error {
	if len(servers) == 0 {
		return checkClock(time.Now())
	}
	return k.correct(ctx, newClock(servers))
}

// correct corrects the clock at the start. It then starts the background correction.
func (k *clockStage) correct(ctx context.Context, c *clock) error {
	asks := "asks for the time: " + strings.Join(c.servers, " ")
	k.Show(progress.StageClock, asks)
	k.status.waits(progress.StageClock, asks, c.limit())
	var failed error
	for round := 1; ; round++ {
		did, err := c.correct(true)
		if failed = err; err == nil {
			k.Stage("clock", "%s", did)
			break
		}
		possible := checkClock(c.now()) == nil
		goesOn := waitsForTime(possible)
		if possible && round >= rounds { // the hardware clock is good enough; keep asks again
			k.Show(progress.StageClock, "no answer again: "+goesOn)
			break
		}
		pause := askAgain
		// Also if the failures alternate.
		if k.FailAgain(progress.StageClock, noTime(err, possible), goesOn) || round >= rounds {
			pause = askSeldom
		}
		if sleep.For(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
	k.work.Go(func() { k.keep(ctx, c, failed) })
	return checkClock(c.now())
}

// rounds limits how often the start asks all time servers if the clock is plausible.
const rounds = 2

// limit returns how long the start waits for the time servers. It has no limit if the clock is implausible.
func (c *clock) limit() progress.Limit {
	if checkClock(c.now()) != nil {
		return progress.Limit{Then: "without the time no certificate can be verified"}
	}
	return progress.Limit{
		Most: rounds*time.Duration(len(c.servers))*askMostOf + (rounds-1)*askAgain,
		Then: "the start continues with the hardware clock",
	}
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
func (k *clockStage) keep(ctx context.Context, c *clock, failed error) {
	if failed != nil {
		k.status.clockIs("not corrected: no time server answered")
	}
	pause := func() time.Duration {
		if failed != nil {
			return askSeldom
		}
		return correctEvery
	}
	for sleep.For(ctx, pause()) == nil {
		did, err := c.correct(false)
		switch {
		case err != nil && (failed == nil || !alike(failed.Error(), err.Error())):
			k.Fail("clock", err)
			k.status.clockIs("not corrected: " + withHint(err))
		case err == nil && failed != nil:
			k.Stage("clock", "%s", did)
			k.status.clockIs("")
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
