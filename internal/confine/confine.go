// Package confine starts processes that have no more rights than they need: in a group of the kernel's, in a network namespace, as a user of
// their own, and with no way to become more than they are. It must not know what the processes do.
package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"writ/internal/cgroup"
)

// Cell is what a process is in from its first breath on. The zero value is the place of whoever starts it.
type Cell struct {
	Groups      *cgroup.Groups // where its group is; nil for none
	Group       string         // its name, of a group that is there
	Namespace   string         // path of a network namespace; "" for ours
	User        uint32         // and its group of the same number; 0 is whoever starts it
	SharedGroup uint32         // the group of Accounts, if it has a user
	Devices     []string       // that it has to open; it gets into the groups that may
	Sandbox     *Sandbox       // nil for none; a process in one has limits, and no group
}

// Barred is the error about a program that the user of a cell may not execute.
type Barred struct {
	Program string
	At      string // the program or a directory above it, which stands in the way
	User    uint32
}

func (b *Barred) Error() string {
	return fmt.Sprintf("the user %d may not execute %s: %s does not let it through", b.User, b.Program, b.At)
}

// bars returns what keeps the user of a cell from executing a program, nil if its modes let them.
func (in Cell) bars(program string) *Barred {
	path, err := filepath.EvalSymlinks(program)
	if err != nil || in.User == 0 {
		return nil
	}
	groups := append(deviceGroups(in.Devices), in.User, in.SharedGroup)
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return nil
		}
		execute := os.FileMode(0o001)
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == in.User {
			execute = 0o100
		} else if slices.Contains(groups, groupOf(info)) {
			execute = 0o010
		}
		if info.Mode()&execute == 0 {
			return &Barred{Program: program, At: at, User: in.User}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// groupOf is the group that a file belongs to.
func groupOf(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Gid
	}
	return 0
}
