// Package unixsocket opens unix sockets with paths that are longer than an address can hold.
//
// The kernel accepts at most 107 bytes. For a longer path the package uses a descriptor of its directory:
// /proc/self/fd/N/NAME. The package does not depend on the servers of the sockets.
package unixsocket

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxAddress is the longest path that an address holds on every system, in bytes.
const maxAddress = 100

// Listen creates a socket at a path. Closing the listener does not remove the file.
func Listen(path string) (*net.UnixListener, error) {
	var l *net.UnixListener
	err := withAddress(path, func(address string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path may name another file by then
	return l, nil
}

// Dial connects to the socket at a path. The connection is a *net.UnixConn.
func Dial(ctx context.Context, path string) (conn net.Conn, err error) {
	err = withAddress(path, func(address string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", address)
		return err
	})
	return conn, err
}

// withAddress calls `use` with an address that leads to path until `use` returns.
func withAddress(path string, use func(address string) error) error {
	if len(path) <= maxAddress {
		return use(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
