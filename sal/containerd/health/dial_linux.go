package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/netns"
)

// maxAddresses limits the addresses that a probe tries.
const maxAddresses = 32

// dial connects to a port in a network namespace. It tries the addresses of interfaces first, and loopback last.
func dial(ctx context.Context, network *os.File, port uint16) (net.Conn, error) {
	if err := requireForeign(network); err != nil {
		return nil, err
	}
	addresses, err := addressesIn(network)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the container: %w", err)
	}
	err = unix.ECONNREFUSED
	for _, address := range addresses {
		conn, failed := connect(ctx, network, netip.AddrPortFrom(address, port))
		if failed == nil || ctx.Err() != nil {
			return conn, failed
		}
		if !errors.Is(failed, unix.ECONNREFUSED) && !isUnusable(failed) {
			err = failed
		}
	}
	return nil, err
}

// isUnusable reports whether an error means that the kernel does not use an address yet. An IPv6 address is usable only
// after duplicate address detection, when its route exists.
func isUnusable(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENETUNREACH)
}

// requireForeign returns an error for the network namespace of this process: a probe must never reach the host.
func requireForeign(network *os.File) error {
	theirs, err := network.Stat()
	if err != nil {
		return err
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if os.SameFile(theirs, own) {
		return errors.New("the container has the network of the host")
	}
	return nil
}

// within calls `do` in a network namespace.
func within(network *os.File, do func() error) error {
	leave, err := netns.Enter(fmt.Sprintf("/proc/self/fd/%d", network.Fd()))
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

// addressesIn returns the addresses of a network namespace in the order of dial, without link-local addresses.
func addressesIn(network *os.File) (all []netip.Addr, err error) {
	err = within(network, func() error {
		found, err := net.InterfaceAddrs()
		for _, f := range found {
			prefix, err := netip.ParsePrefix(f.String())
			if a := prefix.Addr().Unmap(); err == nil && len(all) < maxAddresses && !a.IsLinkLocalUnicast() {
				all = append(all, a)
			}
		}
		return err
	})
	rank := func(a netip.Addr) int {
		if a.IsLoopback() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return cmp.Compare(rank(a), rank(b)) })
	return all, err
}

// connect connects to an address of a network namespace. Its thread is in that namespace only while it makes the
// socket, not while it waits.
func connect(ctx context.Context, network *os.File, to netip.AddrPort) (net.Conn, error) {
	var socket *os.File
	err := within(network, func() (err error) {
		socket, err = beginConnect(to)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer socket.Close() // FileConn copies the descriptor
	stop := context.AfterFunc(ctx, func() { _ = socket.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := awaitConnect(socket); err != nil {
		return nil, err
	}
	return net.FileConn(socket)
}

// beginConnect returns a socket of the current namespace that is connecting from an address to a port of the same
// address.
func beginConnect(to netip.AddrPort) (*os.File, error) {
	family, local, remote := unix.AF_INET6, unix.Sockaddr(nil), unix.Sockaddr(nil)
	if a := to.Addr(); a.Is4() {
		family = unix.AF_INET
		local, remote = &unix.SockaddrInet4{Addr: a.As4()}, &unix.SockaddrInet4{Addr: a.As4(), Port: int(to.Port())}
	} else {
		local, remote = &unix.SockaddrInet6{Addr: a.As16()}, &unix.SockaddrInet6{Addr: a.As16(), Port: int(to.Port())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, local)
	if err == nil {
		err = unix.Connect(fd, remote)
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "probe"), nil
}

// awaitConnect waits until a socket is connected, or returns the error of the connection.
func awaitConnect(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		failed = connected(int(fd))
		return !errors.Is(failed, unix.ENOTCONN)
	})
	return cmp.Or(err, failed)
}

// connected returns nil if a socket is connected, ENOTCONN while it is connecting, or the error of the connection.
func connected(fd int) error {
	number, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && number != 0 {
		err = unix.Errno(number)
	}
	if err != nil {
		return err
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return err
	}
	local, err := unix.Getsockname(fd)
	if err == nil && portOf(local) == portOf(peer) {
		// Without a listener, a socket connects to itself if the kernel has chosen the destination port as its own port.
		return unix.ECONNREFUSED
	}
	return err
}

func portOf(address unix.Sockaddr) int {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}
