package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// New returns the clock of the kernel.
func New(servers []string) *Clock {
	return &Clock{Servers: servers, Now: time.Now, Ask: query, Slew: slew, Step: step}
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
