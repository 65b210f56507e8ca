package boot

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// The paces of a clock that is corrected.
const (
	correctEvery = 1024 * time.Second
	askAgain     = time.Second      // servers that did not answer at the start
	askSeldom    = 30 * time.Second // the same if the start has to wait for them
)

func newClock(servers []string) *clock {
	return &clock{servers: servers, now: time.Now, ask: query, slew: slew, step: step}
}

// slew corrects the clock of the kernel bit by bit.
func slew(by time.Duration) error {
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET_SINGLESHOT, Offset: by.Microseconds()}); err != nil {
		return err
	}
	return synchronised()
}

// step sets the clock of the kernel.
func step(to time.Time) error {
	ts := unix.NsecToTimespec(to.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return err
	}
	return synchronised()
}

// synchronised tells the kernel that its clock is right. It then keeps the clock of the hardware right, too.
func synchronised() error {
	_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_STATUS | unix.ADJ_MAXERROR | unix.ADJ_ESTERROR, Status: unix.STA_PLL})
	return err
}

// setClock corrects the clock if there are time servers, and refuses one that cannot be right.
func (m *machine) setClock(ctx context.Context) error {
	if len(m.config.TimeServers) == 0 {
		return checkClock(time.Now())
	}
	return m.correctClock(ctx, newClock(m.config.TimeServers))
}

// correctClock corrects the clock at the start, and from then on.
func (m *machine) correctClock(ctx context.Context, c *clock) error {
	asks := "asks for the time: " + strings.Join(c.servers, " ")
	m.show(progress.StageClock, asks)
	m.status.waits(progress.StageClock, asks, c.limit())
	var failed error
	for round := 1; ; round++ {
		did, err := c.correct(true)
		if failed = err; err == nil {
			m.stage("clock", "%s", did)
			break
		}
		possible := checkClock(c.now()) == nil
		goesOn := waitsForTime(possible)
		if possible && round >= rounds { // the clock of the hardware is good enough; keepClock goes on asking
			m.show(progress.StageClock, "no answer again: "+goesOn)
			break
		}
		pause := askAgain
		if m.failAgain(progress.StageClock, noTime(err, possible), goesOn) || round >= rounds { // also if they fail in turns
			pause = askSeldom
		}
		if sleep.For(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
	m.work.Go(func() { m.keepClock(ctx, c, failed) })
	return checkClock(c.now())
}

// rounds is how often a start asks all time servers, if its clock can be right without them.
const rounds = 2

// limit is how long a start waits for the time: each server is asked twice. A clock that cannot be right has to be corrected.
func (c *clock) limit() waitLimit {
	if checkClock(c.now()) != nil {
		return waitLimit{then: "without the time no certificate can be verified"}
	}
	return waitLimit{rounds*time.Duration(len(c.servers))*askMostOf + (rounds-1)*askAgain, "the start goes on with the clock of the hardware"}
}

// waitsForTime says how a start goes on without an answer of a time server.
func waitsForTime(possible bool) string {
	if possible {
		return "the start goes on with the clock of the hardware, and asks again later"
	}
	return "it asks every " + askSeldom.String()
}

// keepClock corrects the clock until the machine is turned off. failed is why it could not at the start, nil if it could. It tells when that begins
// to fail, when it fails for another reason, and when it works again. The page has it as well.
func (m *machine) keepClock(ctx context.Context, c *clock, failed error) {
	if failed != nil {
		m.status.clockIs("not corrected: no time server has told the time")
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
			m.fail("clock", err)
			m.status.clockIs("not corrected: " + withHint(err))
		case err == nil && failed != nil:
			m.stage("clock", "%s", did)
			m.status.clockIs("")
		}
		failed = err
	}
}

// withHint is an error in one line, with what to do about it.
func withHint(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if hint := hintOf(err); hint != "" {
		text += ": " + hint
	}
	return text
}
