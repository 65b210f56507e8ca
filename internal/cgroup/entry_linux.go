package cgroup

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Entry puts a process into a group before its first instruction. It must be closed after the start.
type Entry struct {
	Dir   *os.File // version 2: the group, for clone3; otherwise nil
	tasks []string // version 1
}

// Open opens a group for new processes.
func (g *Groups) Open(group string) (*Entry, error) {
	d := &Entry{}
	for _, top := range g.topDirs() {
		if !g.detected().unified {
			d.tasks = append(d.tasks, filepath.Join(top, group, "tasks"))
			continue
		}
		var err error
		if d.Dir, err = os.Open(filepath.Join(top, group)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Enter moves the calling thread, which must end soon, and its future children into the group. In version 2 it is a
// no-op, because a thread cannot leave its process; Dir is for the new process.
func (d *Entry) Enter() error {
	for _, path := range d.tasks {
		if err := os.WriteFile(path, []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the entry.
func (d *Entry) Close() {
	if d.Dir != nil {
		_ = d.Dir.Close()
	}
}
