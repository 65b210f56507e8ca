// Writ is the command line and the wiring of all daemons: the one program of the house. It names stores and drivers, and holds no rule
// that belongs in a room.
package main

import (
	"os"

	"writ/runner/queue/redisqueue"
	"writ/sal/containerd"
	"writ/scripts/evaluator"
)

func main() {
	// A child of the evaluator must do nothing else, and nothing before: it gives up almost everything that a process may do.
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	// One that keeps what a container writes has nothing to do with the rest either.
	if containerd.IsLogger(os.Args) {
		os.Exit(containerd.Logger(os.Args))
	}
	redisqueue.Silence() // what it would write beside the log is in the errors that are logged
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
