package containerd

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"sync"
	"syscall"
	"time"

	"writ"
	"writ/sal"
)

// silencePause is the pause before read-only operations ask a silent daemon again: one that accepts connections but
// does not answer.
const silencePause = 5 * time.Second

// absence remembers a daemon that did not answer, so that only one caller waits for it.
type absence struct {
	mu    sync.Mutex
	why   error // nil if the daemon answered last time
	since time.Time
	deaf  bool          // its socket accepted connections nevertheless
	pause time.Duration // before a silent daemon is asked again; 0 means silencePause
}

// set records the result of the last attempt to reach the daemon.
func (a *absence) set(err error, deaf bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.since, a.deaf = err, time.Now(), deaf
}

// lasts returns the last error if the daemon is still away, as far as this can be checked without waiting.
func (a *absence) lasts(address string) error {
	a.mu.Lock()
	why, ignored := a.why, a.deaf && time.Since(a.since) < cmp.Or(a.pause, silencePause)
	a.mu.Unlock()
	if why == nil || ignored || refusal(address) != nil {
		return why
	}
	return nil
}

// refusal returns the error of a socket that is missing, has no listener, or forbids this process to connect. It
// returns nil if a listener accepts the connection, or may only be slow.
func refusal(address string) error {
	c, err := net.DialTimeout("unix", address, silencePause)
	if err == nil {
		_ = c.Close()
		return nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) ||
		sal.FaultCode(err) == writ.CodeDriverRefused {
		return err
	}
	return nil
}

// awayError is the cause of an error about an unreachable daemon.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// isAway reports whether an error is about an unreachable daemon.
func isAway(err error) bool {
	_, is := errors.AsType[awayError](err)
	return is
}
