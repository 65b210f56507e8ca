package containerd

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"writ"
	"writ/sal"
)

// reach returns a connection to a daemon that answers. It fails at once if the socket refuses connections. A listening
// daemon has Patience to answer. Containers run without the daemon, so they are unaffected by its restart.
func (d *Driver) reach(ctx context.Context) (*client.Client, error) {
	daemon, err := d.connection()
	if err != nil {
		return nil, d.away(err)
	}
	if err := refusal(d.address()); err != nil {
		err = d.away(err)
		d.absent.set(err, false)
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, cmp.Or(d.Patience, defaultPatience))
	defer cancel()
	serving, err := daemon.IsServing(patient)
	if err == nil && !serving {
		err = errors.New("it is not ready")
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		err = d.away(err)
		d.absent.set(err, refusal(d.address()) == nil)
		return nil, err
	}
	d.absent.set(nil, false)
	return daemon, nil
}

// awayError is the cause of an error about an unreachable daemon.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// isAway reports whether an error is about an unreachable daemon.
func isAway(err error) bool {
	_, is := errors.AsType[awayError](err)
	return is
}

// away returns the error of an unreachable daemon. The daemon received no request, so a retry of any operation is safe.
// It is useless if the system forbids this process to connect.
func (d *Driver) away(err error) error {
	err = awayError{err}
	if sal.FaultCode(err) == writ.CodeDriverRefused {
		return writ.Errorf(writ.CodeDriverMissing, "this node cannot use the socket of containerd, %s: %w", d.address(),
			err).
			WithHint("let the user of the runner use the socket, or name another one with --containerd")
	}
	return writ.Errorf(writ.CodeUnreachable, "containerd does not answer at %s: %w", d.address(), err).
		WithHint("apt-get install -y containerd runc; then check that the service containerd runs")
}

// connection returns the driver's connection, which it makes at first use. It needs no running daemon, and reconnects
// to a daemon that was away.
func (d *Driver) connection() (*client.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		return d.client, nil
	}
	// These are the client's default options with one difference: it tries to reconnect every second, without longer
	// backoff.
	daemon, err := client.New(d.address(), client.WithDefaultNamespace(d.namespace()),
		client.WithExtraDialOpts([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second,
				},
				MinConnectTimeout: time.Second,
			}),
		}))
	if err != nil {
		return nil, err
	}
	d.client = daemon
	return daemon, nil
}

// Close ends the connection to the daemon. The driver reconnects when it is used again.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil
	}
	daemon := d.client
	d.client = nil
	return daemon.Close()
}

// in returns a context with the driver's containerd namespace, which parts of the client read from there.
func (d *Driver) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, d.namespace())
}

// failed converts an error of the daemon to one for people. doing is a bare verb phrase.
func failed(doing string, err error) error {
	// The daemon passes disk errors of the system on as text only.
	for _, full := range []string{"no space left on device", "disk quota exceeded"} {
		if strings.Contains(err.Error(), full) {
			return writ.Errorf(writ.CodeDiskFull, "cannot %s: %w", doing, err).
				WithHint("free space where containerd keeps its files; the call is retried")
		}
	}
	if errdefs.IsUnavailable(err) {
		return writ.Errorf(writ.CodeDriverFailed, "cannot %s: %w", doing, err).
			WithHint("containerd stopped meanwhile; the call is retried")
	}
	return sal.HostError(doing, err)
}

// gone reports whether an error means "not found".
func gone(err error) bool { return errdefs.IsNotFound(err) }

// snapshotters are the supported snapshotters in order of preference.
var snapshotters = []string{"btrfs", "overlayfs"}

// snapshotter returns the first supported snapshotter of the daemon.
func snapshotter(ctx context.Context, daemon *client.Client) (string, error) {
	plugins, err := daemon.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return "", failed("ask containerd for its snapshotters", err)
	}
	for _, name := range snapshotters {
		for _, p := range plugins.Plugins {
			if p.ID == name && p.InitErr == nil {
				return name, nil
			}
		}
	}
	return "", writ.Errorf(writ.CodeDriverMissing, "containerd has no snapshotter of %s",
		strings.Join(snapshotters, " and ")).
		WithHint("its directory must be on btrfs, or on a file system that overlayfs works on")
}
