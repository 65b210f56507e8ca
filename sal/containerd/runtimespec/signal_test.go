package runtimespec

import (
	"syscall"
	"testing"

	"writ"
)

func TestStopSignalOfAnImageIsRead(t *testing.T) {
	t.Parallel()
	for named, want := range map[string]syscall.Signal{
		"": syscall.SIGTERM, "SIGQUIT": syscall.SIGQUIT, "INT": syscall.SIGINT, "sigusr1": syscall.SIGUSR1, "SIGRTMIN+3": 37, "SIGRTMAX": 64,
		"3": syscall.SIGQUIT, "37": 37,
		"0": 0, "65": 0, "-9": 0, "SIGNONE": 0, "SIGRTMIN+40": 0, " QUIT": 0,
	} {
		got, err := ParseStopSignal(named)
		if got != want || (err != nil) != (want == 0) || err != nil && writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Errorf("%q is %d, %v; want %d", named, got, err, want)
		}
	}
}
