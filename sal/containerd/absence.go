package containerd

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/sal"
)

// mute is how long a daemon that accepts connections and does not answer is not asked again by those who only look.
const mute = 5 * time.Second

// absence is what the driver knows of a daemon that did not answer: one look is long enough for all.
type absence struct {
	mu    sync.Mutex
	why   error // nil if the daemon answered the last time
	since time.Time
	deaf  bool          // its socket accepted connections all the same
	pause time.Duration // after which one that does not answer is asked again; 0 is mute
}

// set notes how the last attempt to reach the daemon ended.
func (a *absence) set(err error, deaf bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.since, a.deaf = err, time.Now(), deaf
}

// lasts returns why a daemon that was away is so still, as far as that can be said at once.
func (a *absence) lasts(address string) error {
	a.mu.Lock()
	why, ignored := a.why, a.deaf && time.Since(a.since) < cmp.Or(a.pause, mute)
	a.mu.Unlock()
	if why == nil || ignored || refusal(address) != nil {
		return why
	}
	return nil
}

// refusal returns the error of a socket that is missing, has no listener, or forbids this process to connect. It returns
// nil if a listener accepts, or may only be slow.
func refusal(address string) error {
	c, err := net.DialTimeout("unix", address, mute)
	if err == nil {
		_ = c.Close()
		return nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) || sal.FaultCode(err) == writ.CodeDriverRefused {
		return err
	}
	return nil
}

// glance is reach for those who only look, at one container after the other: if the daemon did not answer one of them it is not waited for
// again until somebody listens at its socket.
func (d *Driver) glance(ctx context.Context) (*client.Client, error) {
	if err := d.absent.lasts(d.address()); err != nil {
		return nil, err
	}
	return d.reach(ctx)
}
