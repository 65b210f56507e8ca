package boot

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// A watchdog restarts the machine if it was given no sign of life for a while.
const (
	watchdogUsual = time.Minute
	watchdogLeast = 10 * time.Second
	watchdogMost  = time.Hour
	// aliveEvery is how often the loop that supervises programs turns at least.
	aliveEvery = 3 * time.Second
	// offWithin is how long a machine may take to turn off. That is twice what the runner and the services have together.
	offWithin = 2 * time.Minute
)

// parseWatchdog reads the setting: seconds, 0 for none.
func parseWatchdog(text string) (time.Duration, error) {
	seconds, err := strconv.Atoi(text)
	after := time.Duration(seconds) * time.Second
	switch {
	case err != nil || seconds != 0 && (seconds > int(watchdogMost.Seconds()) || after < watchdogLeast):
		return 0, fmt.Errorf("write 0 for none, or %d to %d seconds", int(watchdogLeast.Seconds()), int(watchdogMost.Seconds()))
	case seconds == 0:
		return noWatchdog, nil
	}
	return after, nil
}

// noWatchdog is the setting that wants none.
const noWatchdog = -1

// watchdog is the one of this machine, if it has one. It is given a sign of life by the loop that takes the ends of programs and has them started
// again, and by nothing else: when that is stuck, the machine is restarted.
type watchdog struct {
	mu     sync.Mutex
	device io.WriteCloser // nil if none is armed
	late   time.Time      // no sign is given after that; zero if there is no such time
}

// arm gives it its device.
func (w *watchdog) arm(device io.WriteCloser) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.device = device
}

// alive gives a sign of life.
func (w *watchdog) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.device == nil || !w.late.IsZero() && time.Now().After(w.late) {
		return
	}
	_, _ = w.device.Write([]byte{0}) // what follows from an error is a restart
}

// off says that the machine is being turned off, which has a limit as well.
func (w *watchdog) off(within time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = time.Now().Add(within)
}

// disarm tells the device that no more signs come, and that this is as it should be.
func (w *watchdog) disarm() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.device == nil {
		return nil
	}
	_, err := w.device.Write([]byte{'V'})
	err = errors.Join(err, w.device.Close())
	w.device = nil
	return err
}
