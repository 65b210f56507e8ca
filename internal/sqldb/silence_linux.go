package sqldb

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// silence is how long, in milliseconds, a server may leave what we sent unacknowledged before its connection counts as broken. Without it
// a machine that lost its power would keep the writer waiting for a quarter of an hour.
const silence = 10_000

func giveUpOnSilence(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, silence) }); e != nil {
		return e
	}
	return err
}
