package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"writ"
	"writ/sal"
	"writ/sal/containerd/imagestore"
	"writ/sal/needs"
)

// Defaults of a Connection.
const (
	DefaultAddress   = "/run/containerd/containerd.sock"
	DefaultNamespace = "writ"
	defaultPatience  = 10 * time.Second
)

// Connection is a connection to the daemon. It is made at its first use.
type Connection struct {
	Address   string        // the socket of the daemon; "" means DefaultAddress
	Namespace string        // containerd namespace, for one driver only; "" means DefaultNamespace
	Patience  time.Duration // time limit for an answer of a listening daemon; 0 means 10 s

	absent absence
	mu     sync.Mutex
	client *client.Client // nil until it is needed
}

func (c *Connection) address() string   { return cmp.Or(c.Address, DefaultAddress) }
func (c *Connection) namespace() string { return cmp.Or(c.Namespace, DefaultNamespace) }

// reach returns a connection to a daemon that answers. It fails at once if the socket refuses connections. It waits at
// most Patience for the answer of a listening daemon. Containers run without the daemon, so they are unaffected by its
// restart.
func (c *Connection) reach(ctx context.Context) (*client.Client, error) {
	daemon, err := c.open()
	if err != nil {
		return nil, c.away(err)
	}
	if err := refusal(c.address()); err != nil {
		err = c.away(err)
		c.absent.set(err, false)
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, defaultPatience))
	defer cancel()
	serving, err := daemon.IsServing(patient)
	if err == nil && !serving {
		err = errors.New("it is not ready")
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		err = c.away(err)
		c.absent.set(err, refusal(c.address()) == nil)
		return nil, err
	}
	c.absent.set(nil, false)
	return daemon, nil
}

// away returns the error of an unreachable daemon. It is UNREACHABLE: the daemon received no request, so a retry of any
// operation is safe. If the system forbids this process to connect, a retry is useless, and the error is
// DRIVER_MISSING.
func (c *Connection) away(err error) error {
	err = awayError{err}
	if sal.FaultCode(err) == writ.CodeDriverRefused {
		return writ.Errorf(writ.CodeDriverMissing, "this node cannot use the socket of containerd, %s: %w", c.address(),
			err).
			WithHint("let the user of the runner use the socket, or name another socket with --containerd")
	}
	return writ.Errorf(writ.CodeUnreachable, "containerd does not answer at %s: %w", c.address(), err).
		WithHint("start it: systemctl start containerd. If it is missing: apt-get install -y containerd runc. If its " +
			"socket is elsewhere, restart the runner with --containerd SOCKET")
}

// open returns the client, which it makes at first use. It needs no running daemon. The client reconnects when an
// unreachable daemon is reachable again.
func (c *Connection) open() (*client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	// These are the client's default options with one difference: it tries to reconnect every second, without longer
	// backoff.
	daemon, err := client.New(c.address(), client.WithDefaultNamespace(c.namespace()),
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
	c.client = daemon
	return daemon, nil
}

// Close ends the connection to the daemon. The driver reconnects when it is used again.
func (c *Connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil
	}
	daemon := c.client
	c.client = nil
	return daemon.Close()
}

// in returns a context with the driver's containerd namespace, which parts of the client read from there.
func (c *Connection) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, c.namespace())
}

// reachCached is reach for read-only operations, which visit one container after another. If the daemon did not answer
// for one container, the calls for other containers fail without waiting, as long as absence.lasts returns an error.
func (c *Connection) reachCached(ctx context.Context) (*client.Client, error) {
	if err := c.absent.lasts(c.address()); err != nil {
		return nil, err
	}
	return c.reach(ctx)
}

// wasUsed reports whether the driver has connected to the daemon.
func (c *Connection) wasUsed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client != nil
}

// ctr returns a shell command for the daemon.
func (c *Connection) ctr(words ...string) string {
	return sal.Command(append([]string{"ctr", "-a", c.address(), "-n", c.namespace()},
		words...)...)
}

func (c *Connection) checkSocket(context.Context) (string, error) {
	info, err := os.Stat(c.address())
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing", c.address())
	}
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is not a socket", c.address())
	}
	return c.address(), err
}

// oldest is the oldest tested version of the daemon.
const oldest = "1.6"

func (c *Connection) checkDaemon(ctx context.Context) (string, error) {
	if err := c.listens(ctx); err != nil {
		return "", err
	}
	daemon, err := c.open()
	if err != nil {
		return "", err
	}
	version, err := daemon.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("it does not answer at %s: %w", c.address(), err)
	}
	number := strings.TrimPrefix(version.Version, "v")
	if end := strings.IndexFunc(number, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		number = number[:end] // for example "1.6.20~ds1"
	}
	if !needs.AtLeast(number, oldest) {
		return "", fmt.Errorf("it is %s, and %s or newer is needed", version.Version, oldest)
	}
	return version.Version, nil
}

// listens checks that the socket has a listener. Without this check, the client would retry until its context ends.
func (c *Connection) listens(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.address())
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("connect to %s: %w", c.address(), fs.ErrPermission)
	}
	if err != nil {
		return fmt.Errorf("no process listens at %s", c.address())
	}
	return conn.Close()
}

// examined returns a connection for a check that depends on the daemon. Without a daemon, it returns DRIVER_MISSING
// with a hint that refers to the result of checkDaemon.
func (c *Connection) examined(ctx context.Context) (*client.Client, error) {
	if err := c.listens(ctx); err != nil {
		return nil, writ.Errorf(writ.CodeDriverMissing, "%w", err).WithHint("see the requirement containerd")
	}
	return c.open()
}

func (c *Connection) checkSnapshotter(ctx context.Context) (string, error) {
	daemon, err := c.examined(ctx)
	if err != nil {
		return "", err
	}
	name, err := imagestore.Snapshotter(c.in(ctx), daemon)
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return name, nil
}

// silencePause is the pause before read-only operations ask a silent daemon again. A silent daemon accepts connections
// but does not answer.
const silencePause = 5 * time.Second

// absence remembers a daemon that did not answer, so that only one caller waits for it.
type absence struct {
	mu    sync.Mutex
	why   error // nil if the daemon answered last time
	since time.Time
	deaf  bool          // the daemon accepted connections, but did not answer
	pause time.Duration // pause before a silent daemon is asked again; 0 means silencePause
}

// set records the result of the last attempt to reach the daemon.
func (a *absence) set(err error, deaf bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.since, a.deaf = err, time.Now(), deaf
}

// lasts returns the last error if the daemon is still unreachable. It only tries to connect, and does not wait for an
// answer. It assumes that a silent daemon stays silent for silencePause.
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
