package herodb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// cgroups is where systems mount the groups of the kernel.
const cgroups = "/sys/fs/cgroup"

// findController looks how memory can be bounded on this host: by groups of version 2, by those of version 1, or not.
func findController() controller {
	offered, err := os.ReadFile(filepath.Join(cgroups, "cgroup.subtree_control"))
	if err == nil && slices.Contains(strings.Fields(string(offered)), "memory") {
		return tried(controller{cgroups, "memory.max", "cgroups"})
	}
	return tried(controller{filepath.Join(cgroups, "memory"), "memory.limit_in_bytes", "cgroups of version 1"})
}

// tried returns the controller if groups can be made there.
func tried(c controller) controller {
	dir, err := os.MkdirTemp(c.dir, "writ-probe-")
	if err != nil {
		return controller{about: "nothing but the engine itself"}
	}
	_, err = os.Stat(filepath.Join(dir, c.limit))
	if syscall.Rmdir(dir) != nil || err != nil {
		return controller{about: "nothing but the engine itself"}
	}
	return c
}
