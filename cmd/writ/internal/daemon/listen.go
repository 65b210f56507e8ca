package daemon

import (
	"errors"
	"net"
	"syscall"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/reach"
)

// maxConnections limits the open connections of a listener. One network gets three quarters of them at most.
const maxConnections = 8192

// Listen opens a TCP address. The connections that it accepts are limited.
func Listen(address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not an address to listen on", address).
			WithHint("it looks like 127.0.0.1:7440")
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, writ.Errorf(writ.CodeConflict, "the address %s is in use", address).
			WithHint("another process listens there; choose another with --listen")
	case errors.Is(err, syscall.EACCES):
		return nil, writ.Errorf(writ.CodeUsage, "this user may not listen at %s: %w", address, err).
			WithHint("ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one")
	case err != nil:
		return nil, writ.Errorf(writ.CodeUsage, "cannot listen at %s: %w", address, err).
			WithHint("use an address of this host; `ip address` shows them")
	}
	return failpoint.Listener((&limit.Shares{Size: maxConnections}).Listener(l)), nil
}

// OnLoopback reports whether an address is on this machine and cannot be reached from another.
func OnLoopback(address net.Addr) bool {
	host, _, err := net.SplitHostPort(address.String())
	return err == nil && reach.Loopback(host)
}
