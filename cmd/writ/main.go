// Writ is the command line and the wiring of all daemons: the one program of writ. It names stores and drivers, and holds no rule
// that belongs in a package.
package main

import (
	"os"

	"writ/efi/boot"
	"writ/internal/pace"
	"writ/runner/queue/redisqueue"
	"writ/sal/containerd"
	"writ/scripts/evaluator"
)

// everyday is how daemons collect garbage. A busy one keeps some MiB alive and makes as much again many times a second; the memory that it may
// have instead is at most 80 MiB. One with much to remember, like many runs that wait, is collected as Go does by itself.
var everyday = pace.Pace{Least: 80 << 20, Early: 100}

func main() {
	// The first process of a machine starts everything else there.
	if boot.IsInit(os.Getpid(), os.Args) {
		asInit().Main()
	}
	if boot.IsModprobe(os.Args) {
		os.Exit(boot.Modprobe(os.Args))
	}
	// A child of the evaluator must do nothing else, and nothing before: it gives up almost everything that a process may do.
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	// One that keeps what a container writes has nothing to do with the rest either.
	if containerd.IsLogger(os.Args) {
		os.Exit(containerd.Logger(os.Args))
	}
	if os.Getenv("GOGC") == "" { // else somebody has a pace in mind
		everyday.Keep()
	}
	redisqueue.Silence() // what it would write beside the log is in the errors that are logged
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
