package runtimespec

import "golang.org/x/sys/unix"

const (
	rlimitNoFile  = unix.RLIMIT_NOFILE
	rlimitMemlock = unix.RLIMIT_MEMLOCK
)

// hardLimit returns a limit of a process that its children cannot raise.
func hardLimit(pid, resource int) (uint64, error) {
	var have unix.Rlimit
	err := unix.Prlimit(pid, resource, nil, &have)
	return have.Max, err
}
