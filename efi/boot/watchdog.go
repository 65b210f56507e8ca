package boot

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// A watchdog restarts the machine if the watchdog gets no sign of life for some time.
const (
	watchdogUsual = time.Minute
	watchdogLeast = 10 * time.Second
	watchdogMost  = time.Hour
	// aliveEvery is the longest interval between two rounds of the loop that supervises programs.
	aliveEvery = 3 * time.Second
	// offWithin is how long a shutdown may take: twice the combined limits of the runner and the services.
	offWithin = 2 * time.Minute
)

// parseWatchdog parses the setting: seconds, or 0 for no watchdog.
func parseWatchdog(text string) (time.Duration, error) {
	seconds, err := strconv.Atoi(text)
	after := time.Duration(seconds) * time.Second
	switch {
	case err != nil || seconds != 0 && (seconds > int(watchdogMost.Seconds()) || after < watchdogLeast):
		return 0, fmt.Errorf("write 0 for none, or %d to %d seconds", int(watchdogLeast.Seconds()),
			int(watchdogMost.Seconds()))
	case seconds == 0:
		return noWatchdog, nil
	}
	return after, nil
}

// noWatchdog disables the watchdog.
const noWatchdog = -1

// watchdog is the watchdog of this machine, if it has one. Only the loop that collects exited programs and lets them
// restart gives signs of life. If that loop is stuck, the machine is restarted.
type watchdog struct {
	mu     sync.Mutex
	device io.WriteCloser // nil if not armed
	late   time.Time      // no sign of life is given after this time; zero for no limit
}

// arm sets the device.
func (w *watchdog) arm(device io.WriteCloser) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.device = device
}

// alive gives a sign of life, unless the time limit of the shutdown has passed.
func (w *watchdog) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.device == nil || !w.late.IsZero() && time.Now().After(w.late) {
		return
	}
	_, _ = w.device.Write([]byte{0}) // an error leads to a restart
}

// off limits the time of the shutdown: no sign of life is given once the duration `within` has passed.
func (w *watchdog) off(within time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = time.Now().Add(within)
}

// disarm stops the watchdog. Writing 'V' marks the close as intended.
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
