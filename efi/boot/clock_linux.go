package boot

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/sleep"
)

// The paces of a clock that is corrected.
const (
	correctEvery = 1024 * time.Second
	firstWithin  = 15 * time.Second // a clock that can be right is good enough after that
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
	c := newClock(m.config.TimeServers)
	for began := time.Now(); ; {
		did, err := c.correct(true)
		if err == nil {
			m.stage("clock", "%s", did)
			break
		}
		if waited := time.Since(began); waited > firstWithin {
			m.fail("clock", err)
			if checkClock(time.Now()) == nil {
				break // with the clock of the hardware; keepClock goes on asking
			}
			began = time.Now()
		}
		if sleep.For(ctx, time.Second) != nil {
			return context.Cause(ctx)
		}
	}
	m.work.Go(func() { m.keepClock(ctx, c) })
	return checkClock(time.Now())
}

// keepClock corrects the clock until the machine is turned off. It tells when that begins to fail, and when it works again.
func (m *machine) keepClock(ctx context.Context, c *clock) {
	for failing := false; sleep.For(ctx, correctEvery) == nil; {
		did, err := c.correct(false)
		switch {
		case err != nil && !failing:
			m.fail("clock", err)
		case err == nil && failing:
			m.stage("clock", "%s", did)
		}
		failing = err != nil
	}
}
