// Package confine starts processes that have no more rights than they need: in a group of the kernel's, in a network namespace, as a user of
// their own, and with no way to become more than they are. It must not know what the processes do.
package confine

import (
	"os"
	"syscall"

	"writ/internal/cgroup"
)

// Cell is what a process is in from its first breath on. The zero value is the place of whoever starts it.
type Cell struct {
	Groups    *cgroup.Groups // where its group is; nil for none
	Group     string         // its name, of a group that is there
	Namespace string         // path of a network namespace; "" for ours
	User      uint32         // and its group of the same number; 0 is whoever starts it
	Door      uint32         // the group of Accounts, if it has a user
	Devices   []string       // that it has to open; it gets into the groups that may
}

// groupOf is the group that a file belongs to.
func groupOf(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Gid
	}
	return 0
}
