package testenv

import (
	"os"
	"testing"
)

// NeedTaps skips the test if /dev/net/tun is not open to all users. Processes that run as other users than root open it
// for their taps. udev grants the access; with the kernel's default mode only root has it. With WRIT_TEST_REQUIRE=all
// the test fails instead.
func NeedTaps(t testing.TB) {
	t.Helper()
	const device, mode = "/dev/net/tun", 0o666
	info, err := os.Stat(device)
	if err == nil && info.Mode().Perm()&mode == mode {
		return
	}
	const text = "processes of other users than root cannot open their taps: chmod 666 " + device
	Lack(t, text)
}
