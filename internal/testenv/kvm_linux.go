package testenv

import (
	"os"
	"syscall"
	"testing"
)

// NeedKVM skips the test unless the user that guests run as may open /dev/kvm, as udev has it: 0 is this process's own. Where devices have the
// mode that the kernel gives them, only root may. With WRIT_TEST_REQUIRE=all the test fails instead.
func NeedKVM(t testing.TB, user uint32) {
	t.Helper()
	text := lacksKVM("/dev/kvm", user)
	if text == "" {
		return
	}
	Lack(t, text)
}

// lacksKVM says why guests of a user cannot run, and what to type; "" if they can.
func lacksKVM(device string, user uint32) string {
	info, err := os.Stat(device)
	if err != nil {
		return "nothing runs guests here: " + err.Error()
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
	if mode&0o006 == 0o006 || ok && stat.Gid != 0 && mode&0o060 == 0o060 { // who is in the group opens it, and processes of machines are
		return ""
	}
	return "processes that are not root's cannot run guests: chmod 666 " + device
}
