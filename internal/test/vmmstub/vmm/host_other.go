//go:build !linux

package vmm

import (
	"errors"
	"net"
	"os"
	"os/exec"
)

// errLocked means that another process has the lock.
var errLocked = errors.New("locked by another process")

// errLinux is the error on other systems.
var errLinux = errors.New("vmmstub needs Linux")

func openDisk(string, bool) (*os.File, error) { return nil, errLinux }

func lockDisk(*os.File, bool) error { return errLinux }

func unlockDisk(*os.File) {}

func lockSocket(string) (*os.File, error) { return nil, errLinux }

func openTap(string, *string, *uint16) (*os.File, error) { return nil, errLinux }

func tapCounters(string) map[string]uint64 { return nil }

func killWithParent(*exec.Cmd) {}

func pair() (net.Conn, *os.File, error) { return nil, nil, errLinux }

func send(net.Conn, []byte, *os.File) error { return errLinux }

func umask() {}
