package testenv

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// groupsRoot contains the control groups of version 2, or a directory for each controller of version 1.
const groupsRoot = "/sys/fs/cgroup"

// Cgroup removes the control groups with a name when the test ends. The name must be unique. If this process is killed,
// the processes in the groups are ended, too.
func Cgroup(t testing.TB, name string) {
	t.Helper()
	dir := Home(t, "groups")
	registry := filepath.Join(filepath.Dir(dir), groupsName)
	f, err := os.OpenFile(registry, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(name + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroup(name) })
}

// groupDirs returns the directories of the groups with a name and of the groups below them, outermost first.
func groupDirs(name string) (all []string) {
	if name = filepath.Clean(name); name == "." || !filepath.IsLocal(name) {
		return nil
	}
	for _, pattern := range []string{name, "*/" + name} {
		found, _ := filepath.Glob(filepath.Join(groupsRoot, pattern))
		for _, dir := range found {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					all = append(all, path)
				}
				return nil
			})
		}
	}
	return all
}

// removeGroup removes groups with all groups below them. It reports whether all are removed; groups with processes
// remain.
func removeGroup(name string) (gone bool) {
	gone = true
	for _, path := range slices.Backward(groupDirs(name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			gone = false
		}
	}
	return gone
}

// groupGuard limits the wait until killed processes have left their control groups, which takes some milliseconds.
const groupGuard = 5 * time.Second

// endGroup kills the processes in the groups with a name, and removes the groups.
func endGroup(name string) {
	for end := time.Now().Add(groupGuard); !removeGroup(name) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, dir := range groupDirs(name) {
			members, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for member := range strings.FieldsSeq(string(members)) {
				killIf(member, func(proc string) bool {
					in, err := os.ReadFile(filepath.Join(proc, "cgroup"))
					return err == nil && bytes.Contains(in, []byte("/"+name))
				})
			}
		}
	}
}

// endOrphans kills the processes of killed test processes. It identifies a process by the lock in its environment.
// Drivers start processes with another environment, so it also identifies a process by a file in one of the directories
// among its arguments.
func endOrphans(abandoned []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		killIf(filepath.Base(proc), func(proc string) bool { return orphaned(proc) || namesOne(proc, abandoned) })
	}
}

// killIf kills a process if meant returns true for its directory in /proc. A pidfd ensures that the pid is not reused
// in between.
func killIf(number string, meant func(proc string) bool) {
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 1 || pid == os.Getpid() {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if meant(filepath.Join("/proc", number)) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// namesOne reports whether an argument of a process names a file in one of the directories.
func namesOne(proc string, dirs []string) bool {
	arguments, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	return err == nil &&
		slices.ContainsFunc(dirs, func(dir string) bool { return bytes.Contains(arguments, []byte(dir+"/")) })
}

// orphaned reports whether the test process that started a process has ended. proc is the process's directory in /proc.
// The path of the lock is relative to the root directory of the process, because a process in a container has files at
// other paths.
func orphaned(proc string) bool {
	text, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(text, []byte{0}) {
		if lock, is := strings.CutPrefix(string(variable), MakerVar+"="); is {
			gone, err := unlocked(filepath.Join(proc, "root", lock))
			return gone || errors.Is(err, os.ErrNotExist)
		}
	}
	return false
}

// unmountBelow unmounts the mounts below a directory, and file systems whose image is there.
func unmountBelow(dir string) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	var all []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if strings.HasPrefix(fields[4], dir+"/") || strings.HasPrefix(imageOf(fields), dir+"/") {
			all = append(all, fields[4])
		}
	}
	for _, path := range slices.Backward(all) {
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
}

// imageOf returns the file behind the loop device of a mount, or "".
func imageOf(fields []string) string {
	i := slices.Index(fields, "-")
	if i < 0 || i+2 >= len(fields) || !strings.HasPrefix(fields[i+2], "/dev/loop") {
		return ""
	}
	file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(fields[i+2]), "loop/backing_file"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(file))
}
