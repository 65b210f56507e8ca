package cloudhypervisor

import (
	"path/filepath"
	"slices"
	"strings"

	"writ/internal/confine"
)

// A process is identified by the path of its events file. The driver passes the file as a descriptor, because
// cloud-hypervisor would split a path at a comma, and appends eventsTo and the path to the first argument, the process
// name. Processes that earlier driver versions started have the path in the argument after eventsFlag.
const (
	eventsTo   = "path="
	eventsFlag = "--event-monitor"
)

func eventsName(launch string) string { return "events-" + launch + ".json" }

// eventsOf returns the path of the events file of a process with these arguments, or "".
func eventsOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	if _, path, found := strings.Cut(args[0], " "+eventsTo); found {
		return path
	}
	if i := slices.Index(args, eventsFlag); i >= 0 && i+1 < len(args) {
		path, _ := strings.CutPrefix(args[i+1], eventsTo)
		return path
	}
	return ""
}

// below returns a predicate that matches the arguments of a process whose events file or API socket is below a
// directory.
func below(dir string) func(args []string) bool {
	dir = filepath.Clean(dir) + string(filepath.Separator)
	return func(args []string) bool {
		return strings.HasPrefix(eventsOf(args), dir) ||
			// the argument with its API socket
			slices.ContainsFunc(args, func(argument string) bool { return strings.HasPrefix(argument, eventsTo+dir) })
	}
}

// launched returns the PID of a process whose start was interrupted before its PID was recorded, or 0. It checks the
// user, because any process can have the same arguments.
func launched(dir, launch string, user uint32) (int, error) {
	all, err := withArguments(isLaunch(dir, launch))
	for _, pid := range all {
		if confine.RunsAs(pid, user) {
			return pid, err
		}
	}
	return 0, err
}

// isLaunch returns a predicate that matches the arguments of the process with this launch ID. A process that only reads
// the files of the machine does not match.
func isLaunch(dir, launch string) func(args []string) bool {
	want := filepath.Join(dir, eventsName(launch))
	return func(args []string) bool { return eventsOf(args) == want }
}
