package testenv

import (
	"os"
	"syscall"
	"testing"
)

// NeedKVM skips the test if the user that guests run as cannot open /dev/kvm. User 0 means this process's own user.
// udev grants access to other users; with the kernel's default mode only root has access. With WRIT_TEST_REQUIRE=all
// the test fails instead.
func NeedKVM(t testing.TB, user uint32) {
	t.Helper()
	text := lacksKVM("/dev/kvm", user)
	if text == "" {
		return
	}
	Lack(t, text)
}

// lacksKVM returns the reason why guests of a user cannot run and the command that fixes it, or "".
func lacksKVM(device string, user uint32) string {
	info, err := os.Stat(device)
	if err != nil {
		return "no hypervisor here:  " + err.Error()
	}
	if user == 0 {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return "guests cannot run: " + err.Error() + ": chmod 666 " + device
		}
		_ = f.Close()
		return ""
	}
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	// The processes of machines are in the group of the device.
	if mode&0o006 == 0o006 || ok && stat.Gid != 0 && mode&0o060 == 0o060 {
		return ""
	}
	return "processes of other users than root cannot run guests: chmod 666 " + device
}

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
