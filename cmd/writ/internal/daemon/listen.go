package daemon

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/reach"
)

// Listen opens a TCP address.
func Listen(address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is no address to listen on", address).WithHint("it looks like 127.0.0.1:7440")
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, writ.Errorf(writ.CodeConflict, "the address %s is in use", address).WithHint("another process listens there; choose another with --listen")
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return failpoint.Listener(l), nil
}

// checkNodeListener refuses a node API that is not on loopback unless that is meant: what goes through it is signed and signed, but not
// encrypted, and whoever knows the hash of a script can read it there.
func checkNodeListener(address net.Addr, insecure bool) error {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil || insecure {
		return err
	}
	if reach.Loopback(host) {
		return nil
	}
	return writ.Errorf(writ.CodeListenRefused, "%s is not on loopback, and nothing is encrypted there yet", address).
		WithHint("listen on 127.0.0.1 behind a tunnel, or say --insecure-listen")
}
