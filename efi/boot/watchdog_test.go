package boot

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// device is a watchdog device that records writes.
type device struct {
	bytes.Buffer
	closed bool
}

func (d *device) Close() error { d.closed = true; return nil }

// Promise: Machines from an image: A machine whose first process is stuck is restarted by its watchdog, and a hanging
// shutdown after two more minutes.
// How: Signs of life come from the loop that reaps programs; without a hardware watchdog the kernel's is used.
// Also: TestAWatchdogIsStoppedAtAnOrderlyEnd, TestStuckLoopSendsNoHeartbeat,
// TestAMachineThatHangsIsRestartedAndHeldTheSecondTime, TestAMachineThatHangsIsRestartedByItsHardware.
func TestAWatchdogGetsSignsOfLifeUntilTheMachineShouldBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchdog
		w.alive() // not armed yet
		d := &device{}
		w.arm(d)
		w.alive()
		time.Sleep(24 * time.Hour)
		w.alive()
		w.off(offWithin)
		time.Sleep(offWithin - time.Second)
		w.alive()
		time.Sleep(2 * time.Second)
		w.alive() // the shutdown hangs
		if got := d.String(); got != "\x00\x00\x00" || d.closed {
			t.Errorf("writes to the device = %q", got)
		}
	})
}

func TestAWatchdogIsStoppedAtAnOrderlyEnd(t *testing.T) {
	var w watchdog
	if err := w.disarm(); err != nil {
		t.Errorf("without one: %v", err)
	}
	d := &device{}
	w.arm(d)
	if err := w.disarm(); err != nil || d.String() != "V" || !d.closed {
		t.Errorf("writes to the device = %q, closed %v, %v", d.String(), d.closed, err)
	}
	w.alive()
	if d.Len() != 1 {
		t.Error("a sign of life after the end")
	}
}

func TestAWatchdogIsSetInSecondsOrOff(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": noWatchdog, "10": 10 * time.Second, "3600": time.Hour} {
		var c Config
		if err := c.Read("writ.watchdog=" + text); err != nil || c.Watchdog != want {
			t.Errorf("%s is %s, %v", text, c.Watchdog, err)
		}
	}
	for _, text := range []string{"9", "-1", "3601", "1m", "x", "99999999999999999999", "9223372036855"} {
		var c Config
		if err := c.Read("writ.watchdog=" + text); err == nil || c.Watchdog != 0 {
			t.Errorf("%s is possible: %s", text, c.Watchdog)
		}
	}
}
