package sqldb

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// silence is how long sent data may stay unacknowledged before the connection counts as broken, in milliseconds.
// Without it, a server that lost power would block the writer for 15 minutes.
const silence = 10_000

func giveUpOnSilence(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, silence)
	}); e != nil {
		return e
	}
	return err
}
