package containerd

import (
	"errors"
	"testing"

	"writ"
)

func TestRefusalsOfTheRuntimeAreFinal(t *testing.T) {
	t.Parallel()
	const failed = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
	for text, final := range map[string]bool{
		failed + `exec: "serve": executable file not found in $PATH: unknown`:                                                              true,
		failed + "error during container init: mkdir /etc/passwd: not a directory: unknown":                                                true,
		failed + `error during container init: error mounting "proc" to rootfs at "/proc": must be mounted on ordinary directory: unknown`: true,
		failed + `error during container init: error mounting "/v" to rootfs at "/data": no such file or directory: unknown`:               false,
		failed + "unable to apply cgroup configuration: device or resource busy: unknown":                                                  false,
		"the service says: permission denied": false,
	} {
		if err := notStarted("run it", errors.New(text)); (writ.CodeOf(err) == writ.CodeArgumentsInvalid) != final {
			t.Errorf("%s: %s", text, writ.CodeOf(err))
		}
	}
}
