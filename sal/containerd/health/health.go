// Package health probes the programs of containers by an HTTP request, a TCP connection, or a command inside the
// container. Wait blocks until a container is healthy. A Book probes running containers and holds the health of each.
// The package does not depend on a container runtime: a Target gives access to the container.
//
// # Where a probe goes
//
// HTTP and TCP probes use sockets of the container's network namespace, so a probe reaches only the container itself.
// It tries the addresses of the container's interfaces first, because clients use these, and loopback last. It uses the
// first address that accepts the connection. A program may therefore listen on all addresses, on one address, or on
// loopback only. Each socket is bound to its destination address. The kernel refuses this for addresses of other hosts.
//
// # Hostile programs
//
// The program of a container is not trusted. A probe follows no redirect, reads at most maxHeader bytes of header and
// maxBody bytes of body, keeps no connection, and ends after its timeout. It occupies one goroutine and no thread.
package health

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/sal/catalog"
)

// Check describes how a container is probed. Exactly one of HTTP, TCP, Command and OfImage is set, or OfImage and
// Command.
type Check struct {
	HTTP    string   // path of a request, with a query if it has one
	TCP     bool     // connect to Port
	Port    uint16   // of HTTP and TCP
	Command []string // runs in the container
	OfImage bool     // Command comes from the image; the driver sets it when it has read the image

	Interval time.Duration // between the probes of a running container
	Timeout  time.Duration // of a probe
	Retries  int           // failures in a row that make it unhealthy
	Start    time.Duration // failures within this time after the start of the process are ignored
	Healthy  time.Duration // after a success, Wait returns when no probe has failed for this time
}

// Parse converts the argument health of container.create. It returns nil if the argument is missing. It validates the
// fields again, because the client that signed the script may not have validated them. Errors are ARGUMENTS_INVALID.
func Parse(h catalog.Health) (*Check, error) {
	seconds := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	c := Check{
		HTTP: h.HTTP, TCP: h.TCP != 0, Port: uint16(h.Port), Command: h.Command, OfImage: h.Image,
		Interval: seconds(h.IntervalSeconds), Timeout: seconds(h.TimeoutSeconds), Retries: int(h.Retries),
		Start: seconds(h.StartSeconds), Healthy: seconds(h.HealthySeconds),
	}
	kinds := 0
	for _, given := range []bool{c.HTTP != "", c.TCP, len(c.Command) > 0, c.OfImage} {
		if given {
			kinds++
		}
	}
	if c.TCP {
		c.Port = uint16(h.TCP)
	}
	switch {
	case kinds == 0 && h.Retries == 0: // the argument is missing; otherwise Retries has a default
		return nil, nil
	case kinds != 1:
		return nil, invalid("health must have exactly one of http, tcp, command and image")
	case c.HTTP != "" && c.Port == 0:
		return nil, invalid("health.http needs health.port: the container publishes no or several TCP ports")
	case c.Timeout > c.Interval:
		return nil, invalid("health.timeout_seconds must be at most health.interval_seconds")
	case c.runsCommand() && h.IntervalSeconds < catalog.LeastCommandInterval:
		return nil, invalid(fmt.Sprintf("health.interval_seconds must be at least %d for a command",
			catalog.LeastCommandInterval))
	}
	return &c, nil
}

// runsCommand reports whether a probe runs a command in the container.
func (c Check) runsCommand() bool { return len(c.Command) > 0 || c.OfImage }

func invalid(message string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "%s", message).
		WithHint("`writ check` shows this before a script is signed")
}

// Target gives access to one container. Errors of its methods mean that the health is unknown, except *Failure and
// *Ended.
type Target interface {
	// Ready returns nil if the process of the container runs. The timeout of a probe does not limit it. It may restart a
	// process and return a *Failure, or *Ended if the process will not run again.
	Ready(ctx context.Context) error
	// Network opens the network namespace of the running process. The caller closes it.
	Network(ctx context.Context) (*os.File, error)
	// Exec runs a program in the container and returns its exit code and the end of its output. If ctx ends first, Exec
	// kills the program and returns an error.
	Exec(ctx context.Context, command []string) (exit int64, output string, err error)
	// Clean removes secrets from a text of the container. If the text is cut, Clean also removes the beginning of a
	// secret at its end.
	Clean(text string, isCut bool) string
	// Report is called by Wait with the error of each probe, for display.
	Report(err error)
}

// Failure is the result of a failed probe.
type Failure struct {
	// Cause is a phrase that stays the same while the fault does: "status 500 for /healthz on port 8080".
	Cause string
	// Detail is the end of the program's output or answer, without secrets. It may be empty.
	Detail string
}

// Error returns cause and detail.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Cause
	}
	return fmt.Sprintf("%s: %q", f.Cause, f.Detail)
}

// Ended is the error of a container whose process has ended and will not be restarted.
type Ended struct{ Failure }

// Pauses between the probes of a container that is starting: an eighth of the time since its start, within these limits
// and the interval of the check. Each probe with a command starts processes of the runtime, so its pauses are longer.
const (
	firstPause        = 100 * time.Millisecond
	longestPause      = time.Second
	firstCommandPause = 500 * time.Millisecond
)

// startPause returns the pause before the next probe of a container that has been starting for some time.
func (c Check) startPause(since time.Duration) time.Duration {
	pause := min(max(since/8, firstPause), longestPause)
	if c.runsCommand() {
		pause = max(since/8, firstCommandPause)
	}
	return min(pause, c.Interval)
}

// Wait probes a container until it is healthy, and then returns nil. It gives up when Retries probes have failed after
// the start time of the check, and returns the *Failure of the last probe. It also gives up after a failure if the rest
// of catalog.Health.Limit is shorter than Healthy. It returns *Ended at once, the error of ctx if ctx ends, and the
// error of the Target if the last probe was impossible.
func Wait(ctx context.Context, t Target, c Check) error {
	start := time.Now()
	limit := c.Start + time.Duration(c.Retries)*(c.Timeout+c.Interval)
	failures := 0
	var healthy time.Time // since when; zero after a failure
	for {
		pause := c.startPause(time.Since(start))
		err := Probe(ctx, t, c)
		switch _, ended := errors.AsType[*Ended](err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended:
			return err
		case err == nil:
			if healthy.IsZero() {
				healthy = time.Now()
			}
			left := c.Healthy - time.Since(healthy)
			if left <= 0 {
				return nil
			}
			pause = min(pause, left)
		default:
			t.Report(err)
			healthy = time.Time{}
			if time.Since(start) >= c.Start {
				failures++
			}
			if failures >= c.Retries || time.Since(start) >= limit {
				return err
			}
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}
