package cloudhypervisor

import (
	"path/filepath"
	"slices"
	"strings"

	"writ/internal/confine"
)

// A process is known by its events file, which stands behind eventsTo in its name, the first of its arguments: it gets the file as a
// descriptor, as it would take a path with a comma apart. Processes of earlier versions have it as an argument that follows eventsFlag.
const (
	eventsTo   = "path="
	eventsFlag = "--event-monitor"
)

func eventsName(launch string) string { return "events-" + launch + ".json" }

// eventsOf is the path of the events file of a process with these arguments, "" if it has none.
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

// below returns a test for the arguments of processes that were started for something in a directory.
func below(dir string) func(args []string) bool {
	dir = filepath.Clean(dir) + string(filepath.Separator)
	return func(args []string) bool {
		return strings.HasPrefix(eventsOf(args), dir) ||
			slices.ContainsFunc(args, func(argument string) bool { return strings.HasPrefix(argument, eventsTo+dir) }) // its socket is there
	}
}

// launched finds the process of a start that was interrupted before its number was written down, 0 if there is none. Anybody may have its
// arguments; nobody else is its user.
func launched(dir, launch string, user uint32) (int, error) {
	all, err := withArguments(isLaunch(dir, launch))
	for _, pid := range all {
		if confine.RunsAs(pid, user) {
			return pid, err
		}
	}
	return 0, err
}

// isLaunch returns a test for the arguments by which the process of a start is known. Somebody who only reads its files has others.
func isLaunch(dir, launch string) func(args []string) bool {
	want := filepath.Join(dir, eventsName(launch))
	return func(args []string) bool { return eventsOf(args) == want }
}
