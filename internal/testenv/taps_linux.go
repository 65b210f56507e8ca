package testenv

import (
	"os"
	"testing"
)

// NeedTaps skips the test unless everybody may open /dev/net/tun, as udev has it: processes that are users of their own open their taps there,
// and the kernel gives them no others. Where devices have the mode that the kernel gives them, only root may. With WRIT_TEST_REQUIRE=all the test
// fails instead.
func NeedTaps(t testing.TB) {
	t.Helper()
	const device, mode = "/dev/net/tun", 0o666
	info, err := os.Stat(device)
	if err == nil && info.Mode().Perm()&mode == mode {
		return
	}
	const text = "processes that are not root's cannot open their taps: chmod 666 " + device
	Lack(t, text)
}
