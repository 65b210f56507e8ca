// Package boot is the first process (PID 1) of a node that starts from a writ image. It mounts the kernel's file
// systems, loads modules for the devices, configures the network and runs `writ runner` until the machine is turned
// off. It reports each stage on the consoles and, if one is configured, to the boot server.
//
// The package depends on the kernel and on the boot settings ("writ.NAME=VALUE"), but not on the work of a runner.
package boot

import (
	"writ/efi/progress"
	"writ/internal/logring"
)

// Machine holds the values and functions that the program passes to the first process.
type Machine struct {
	Version string                  // of the program, shown on the consoles
	Runner  func(c Config) []string // returns the arguments that start the program as a runner
	Joined  func() bool             // reports whether DataAt belongs to a node that has joined
	// Admission returns the runner's state in the datacenter. If nil, no page about the node is shown.
	Admission func() Admission
	Redact    func(line string) string // removes secrets from a line that the runner wrote
	// Means converts a log line of the runner to a report. It returns false if the line has no report. If nil, lines of
	// the runner are never reported.
	Means func(line string) (progress.Report, bool)
}

// Paths in the image and in memory.
const (
	Program    = "/usr/bin/writ"       // the program; /init links to it
	SettingsAt = "/etc/writ/boot.conf" // settings given when the image was built
	ModulesAt  = "/lib/modules"        // module directories, by kernel version
	LoadAt     = "/etc/writ/modules"   // names of modules to load unconditionally
	DataAt     = "/var/lib/writ/node"  // data directory of the runner
	TokenAt    = "/run/writ.token"     // readable by root only

	LogsAt = DataAt + "/" + logring.Dir // log rings, which the runner reads
)

// ModprobeAt is the program that the kernel starts to load a module, for example when it mounts a file system. The
// image has a link from this path to Program.
const ModprobeAt = "/sbin/modprobe"

// IsModprobe reports whether the kernel started this process to load a module.
func IsModprobe(args []string) bool {
	return len(args) > 0 && args[0] == ModprobeAt
}

// IsInit reports whether this process is the first process of a machine. The kernel starts it as /init.
func IsInit(pid int, args []string) bool {
	return pid == 1 && len(args) > 0 && args[0] == "/init"
}
