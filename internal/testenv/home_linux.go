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

	"golang.org/x/sys/unix"
)

// groupsRoot is where control groups are: those of version 2, or a directory for each controller.
const groupsRoot = "/sys/fs/cgroup"

// Cgroup removes the control groups of a name when the test ends, or when the next test process begins if this one is killed.
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

// removeGroup removes groups with those below them, and reports whether none is left: those that have processes are.
func removeGroup(name string) (gone bool) {
	if name == "" || name != filepath.Base(name) {
		return true
	}
	gone = true
	for _, pattern := range []string{name, "*/" + name} {
		found, _ := filepath.Glob(filepath.Join(groupsRoot, pattern))
		for _, dir := range found {
			var all []string
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					all = append(all, path)
				}
				return nil
			})
			for _, path := range slices.Backward(all) {
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					gone = false
				}
			}
		}
	}
	return gone
}

// endOrphans kills the processes whose maker was killed. A process is known by the lock in its environment; its number cannot become another's
// meanwhile.
func endOrphans() {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if orphaned(file) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

func orphaned(environ string) bool {
	text, err := os.ReadFile(environ)
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(text, []byte{0}) {
		if lock, is := strings.CutPrefix(string(variable), MakerVar+"="); is {
			gone, err := unlocked(lock)
			return gone || errors.Is(err, os.ErrNotExist)
		}
	}
	return false
}

// unmountBelow unmounts what is mounted below a directory, and file systems whose image is there.
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

// imageOf returns the file behind the loop device of a mount, "" if it has none.
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
