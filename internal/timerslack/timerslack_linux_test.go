package timerslack_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/timerslack"
)

func TestStartedProcessHasTheDelayAndItsParentKeepsItsOwn(t *testing.T) {
	var said strings.Builder
	cmd := exec.Command("cat", "/proc/self/timerslack_ns")
	cmd.Stdout = &said
	before := ownDelay(t)
	if err := timerslack.Start(timerslack.Daemon, cmd.Run); err != nil {
		t.Fatal(err)
	}
	if want := strconv.FormatInt(timerslack.Daemon.Nanoseconds(), 10); strings.TrimSpace(said.String()) != want {
		t.Errorf("the process has %s ns instead of %s", said.String(), want)
	}
	if after := ownDelay(t); after != before {
		t.Errorf("the parent has %d ns instead of %d", after, before)
	}
}

// TestUnitsSetTheDelayOfDaemons compares the units of systemd with the constant.
func TestUnitsSetTheDelayOfDaemons(t *testing.T) {
	for _, name := range []string{"coord", "runner", "supervisor"} {
		unit, err := os.ReadFile("../../deploy/systemd/writ-" + name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		want := "\nTimerSlackNSec=" + strconv.FormatInt(timerslack.Daemon.Milliseconds(), 10) + "ms\n"
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit of the %s lacks %q", name, strings.TrimSpace(want))
		}
	}
}

// ownDelay returns the delay of the calling thread, in nanoseconds.
func ownDelay(t *testing.T) int {
	t.Helper()
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}
