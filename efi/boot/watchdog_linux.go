package boot

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/progress"
)

const (
	watchdogAt    = "/dev/watchdog"
	watchdogClass = "/sys/class/watchdog/watchdog0"
	// softwareWatchdog is the kernel's watchdog, for a machine without a hardware watchdog. It cannot help if the
	// kernel itself is stuck.
	softwareWatchdog = "softdog"
)

// armWatchdog arms a watchdog, which restarts the machine if the first process is stuck.
func (m *machine) armWatchdog() {
	if m.config.Watchdog == noWatchdog {
		m.Stage(progress.StageWatchdog, "disabled by the settings")
		return
	}
	if _, err := os.Stat(watchdogAt); err != nil && m.loader != nil {
		if _, err := m.loader.Named([]string{softwareWatchdog}); err != nil {
			m.Fail(progress.StageWatchdog, err)
		}
	}
	device, err := os.OpenFile(watchdogAt, os.O_WRONLY, 0)
	if err != nil {
		m.Stage(progress.StageWatchdog, "no device: a hung machine is not restarted (%v)", err)
		return
	}
	m.lastEnd.reportReset(device)
	text := describeWatchdog(device, cmp.Or(m.config.Watchdog, watchdogUsual))
	m.watchdog.arm(device)
	m.Stage(progress.StageWatchdog, "%s", text)
	m.also("watchdog", text)
}

// describeWatchdog sets the timeout of a watchdog, if the device supports it, and describes the watchdog.
func describeWatchdog(device *os.File, after time.Duration) string {
	fd := int(device.Fd())
	// The effective timeout is read back below.
	_ = unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, int(after.Seconds()))
	text := "an unknown device"
	if name, err := os.ReadFile(watchdogClass + "/identity"); err == nil {
		text = strings.TrimSpace(string(name))
	}
	if seconds, err := unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT); err == nil {
		text += fmt.Sprintf(" restarts the machine if it hangs for %d s", seconds)
	} else {
		text += " restarts the machine if it hangs"
	}
	if fixed, _ := os.ReadFile(watchdogClass + "/nowayout"); strings.TrimSpace(string(fixed)) == "1" {
		text += ", and cannot be stopped (nowayout)"
	}
	return text
}

// reportReset reports and counts a restart by the watchdog.
func (e *lastEnd) reportReset(device *os.File) {
	cause, err := unix.IoctlGetInt(int(device.Fd()), unix.WDIOC_GETBOOTSTATUS)
	if err != nil || cause&unix.WDIOF_CARDRESET == 0 { // many devices do not report it
		return
	}
	if e.Reason != "" { // the kernel panicked, and the watchdog fired before the restart
		return
	}
	e.count(e.ifReset)
	e.also("last start", e.Reason)
	if !e.Held() {
		e.Fail(progress.StageWatchdog, e.Trouble())
	}
}
