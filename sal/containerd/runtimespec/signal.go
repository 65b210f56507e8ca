package runtimespec

import (
	"syscall"

	"github.com/moby/sys/signal"

	"writ"
)

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// ParseStopSignal parses the stop signal of an image or a call: a name such as SIGQUIT or SIGRTMIN+3, or a number. The
// default is SIGTERM. It returns ARGUMENTS_INVALID for an unknown signal.
func ParseStopSignal(named string) (syscall.Signal, error) {
	if named == "" {
		return syscall.SIGTERM, nil
	}
	s, err := signal.ParseSignal(named)
	if err != nil || s < 1 || s > lastSignal {
		return 0, writ.Errorf(writ.CodeArgumentsInvalid,
			"the STOPSIGNAL of the image is %q, which is not a signal of Linux", named).
			WithHint("build the image with another STOPSIGNAL, such as SIGTERM")
	}
	return s, nil
}
