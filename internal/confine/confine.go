// Package confine starts processes with minimal rights: in a cgroup, in a network namespace, as a separate user, and
// without a way to gain rights. It does not depend on the purpose of the processes.
package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"writ/internal/cgroup"
)

// Cell is the environment that a process has from its first instruction. The zero value is the environment of the
// starting process.
type Cell struct {
	Groups      *cgroup.Groups // the hierarchy of its cgroup; nil for none
	Group       string         // name of an existing group
	Namespace   string         // path of a network namespace; "" inherits the namespace
	User        uint32         // user, and the group with the same number; 0 inherits both
	SharedGroup uint32         // a second group, see Accounts.SharedGroup; ignored if User is 0
	Devices     []string       // devices that the process opens; it gets the groups of their files
	Sandbox     *Sandbox       // nil for none; a sandboxed process has limits instead of a cgroup
}

// Barred is the error for a program that the user of a cell may not execute.
type Barred struct {
	Program string
	At      string // the program or the directory above it whose mode forbids it
	User    uint32
}

func (b *Barred) Error() string {
	return fmt.Sprintf("the user %d may not execute %s: the mode of %s forbids it", b.User, b.Program, b.At)
}

// obstacle returns the obstacle that keeps the user of a cell from executing a program, or nil if file modes permit it.
func (in Cell) obstacle(program string) *Barred {
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

// groupOf returns the group of a file.
func groupOf(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Gid
	}
	return 0
}
