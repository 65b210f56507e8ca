// Package shim ends runtime shims that containerd has lost.
//
// A shim is the process that owns one container process; it serves requests on a socket. To remove a container process,
// containerd first forgets it and then asks its shim to end. Versions before 2.4 skip the second step if the client
// disappears in between: the shim then runs until the host is rebooted.
package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"path/filepath"
	"time"

	taskv2 "github.com/containerd/containerd/api/runtime/task/v2"
	taskv3 "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sockets is the directory of the sockets of all shims on a host.
const sockets = "/run/containerd/s"

// guard limits the wait for a shim's answer.
const guard = 10 * time.Second

// Socket returns the socket of a container's shim. Shims derive it from the daemon's address, the namespace and the
// container's id.
func Socket(daemon, namespace, id string) string {
	digest := sha256.Sum256([]byte(filepath.Join(daemon, namespace, id)))
	return filepath.Join(sockets, hex.EncodeToString(digest[:]))
}

// End asks the shim on socket to end. It returns nil if no shim listens, or if the shim refuses because it still has a
// container process.
func End(ctx context.Context, socket, id string) error {
	ctx, cancel := context.WithTimeout(ctx, guard)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return ctx.Err() // no process listens
	}
	c := ttrpc.NewClient(conn)
	defer c.Close()
	_, err = taskv3.NewTTRPCTaskClient(c).Shutdown(ctx, &taskv3.ShutdownRequest{ID: id})
	if status.Code(err) == codes.Unimplemented { // shims before containerd 2.0
		_, err = taskv2.NewTTRPCTaskClient(c).Shutdown(ctx, &taskv2.ShutdownRequest{ID: id})
	}
	if errors.Is(err, ttrpc.ErrClosed) { // it ended before it answered
		return nil
	}
	return err
}
