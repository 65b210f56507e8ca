package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedRoot skips a test that cannot create mounts and namespaces. With WRIT_TEST_REQUIRE=all the test fails instead.
// Root in a container often cannot create them.
func NeedRoot(t testing.TB) {
	t.Helper()
	if !Privileged() {
		Lack(t, "only root with CAP_SYS_ADMIN can make mounts and namespaces")
	}
}

// Privileged reports whether this process may create mounts and namespaces.
func Privileged() bool { return os.Geteuid() == 0 && hasCapability(unix.CAP_SYS_ADMIN) }

// hasCapability reports whether a capability is effective in this process.
func hasCapability(number int) bool {
	var sets [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[number/32].Effective&(1<<(number%32)) != 0
}
