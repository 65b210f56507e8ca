// Package boot is the first process of a node that was started from writ's image. It mounts the file systems of the kernel, loads the modules
// that devices ask for, brings the network up, and runs `writ runner` until the machine is turned off. It tells each stage on the consoles, and to
// the boot server if there is one. It
// knows the kernel and the words "writ.NAME=VALUE" that say what the machine is to become; it must not know what a runner does.
package boot

import (
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/logring"
)

// Machine is what the first process is told by the program that it is part of.
type Machine struct {
	Version string                  // of the program, for people
	Runner  func(c Config) []string // the arguments with which the program is started as a runner
	Joined  func() bool             // reports whether DataAt is that of a node which has joined
	// Admission says what the runner knows of its place in the datacenter; nothing is shown of that if nil.
	Admission func() Admission
	Redact    func(line string) string // takes secrets out of a line that the runner has written
	// Means returns what a line of the runner means to a boot server, if it means something; that is told nothing of the runner's lines if nil.
	Means func(line string) (progress.Report, bool)
}

// The places of files in the image and in memory.
const (
	Program    = "/usr/bin/writ"       // the program; /init is a link to it
	SettingsAt = "/etc/writ/boot.conf" // words that were given when the image was built
	ModulesAt  = "/lib/modules"        // directories of modules, by the kernel's version
	LoadAt     = "/etc/writ/modules"   // names of modules that are loaded without a device
	DataAt     = "/var/lib/writ/node"  // data directory of the runner
	TokenAt    = "/run/writ.token"     // for the runner alone

	LogsAt = DataAt + "/" + logring.Dir // rings of what is logged, for the runner to tell
)

// ModprobeAt is what the kernel starts when it wants a module, such as that of a file system that is mounted. It is a link to the program.
const ModprobeAt = "/sbin/modprobe"

// IsModprobe reports whether the kernel has started a process for a module.
func IsModprobe(args []string) bool {
	return len(args) > 0 && args[0] == ModprobeAt
}

// IsInit reports whether a process is the first one of a machine, which the kernel starts as /init.
func IsInit(pid int, args []string) bool {
	return pid == 1 && len(args) > 0 && args[0] == "/init"
}

// The years between which a clock is believed. A clock outside of them was never set, and certificates would be refused with a text about them.
var (
	clockFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clockTo   = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
)

// checkClock refuses a time that cannot be the present.
func checkClock(now time.Time) error {
	if now.Before(clockFrom) || now.After(clockTo) {
		return writ.Errorf(writ.CodeClockSkew, "the clock of this machine says %s", now.UTC().Format(time.RFC3339)).
			WithHint("set the clock in the firmware's setup, and replace its battery if it does not keep the time")
	}
	return nil
}
