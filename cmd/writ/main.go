// Writ is the command line and the entry point of all daemons: the only program of writ. This package assembles the
// commands. All rules are in other packages.
package main

import (
	"os"
	"time"

	"writ/cmd/writ/internal/cli/images"
	"writ/efi/boot"
	"writ/internal/pace"
	"writ/runner/queue/redisqueue"
	"writ/sal/containerd"
	"writ/scripts/evaluator"
)

// everyday is the garbage collection pace of daemons. A busy daemon has some MiB of live data and allocates the same
// amount many times a second, so it may use up to 80 MiB before a collection. It returns this memory when it has had
// little work for ten seconds. A daemon with a large heap, for example with many waiting runs, uses Go's own pace.
var everyday = pace.Pace{Least: 80 << 20, Early: 100, Quiet: 10 * time.Second}

func main() {
	// As the first process of a machine, writ starts all other processes.
	if boot.IsInit(os.Getpid(), os.Args) {
		images.AsInit(version()).Main()
	}
	if boot.IsModprobe(os.Args) {
		os.Exit(boot.Modprobe(os.Args))
	}
	// A child of the evaluator gives up almost all privileges of a process, so the code below must not run in it.
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	// The process that logs the output of a container runs only Logger.
	if containerd.IsLogger(os.Args) {
		os.Exit(containerd.Logger(os.Args))
	}
	if os.Getenv("GOGC") == "" { // an explicit setting takes precedence
		everyday.Keep()
	}
	redisqueue.Silence() // its messages are duplicates of logged errors
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
