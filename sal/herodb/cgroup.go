package herodb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"writ/sal"
)

// controller is where the kernel bounds memory.
type controller struct {
	dir   string // under which groups are made, "" if they cannot be
	limit string // the file of a group that has its bound
	about string // for people
}

// memory finds the controller, once.
func (d *Driver) memory() controller {
	d.usable.Do(func() { d.cgroup = findController() })
	return d.cgroup
}

// groups is the directory of this driver's groups. Several drivers of one host, each with a directory of its own, have different ones.
func (d *Driver) groups() string {
	dir := sha256.Sum256([]byte(d.Dir))
	return filepath.Join(d.memory().dir, "writ-herodb-"+hex.EncodeToString(dir[:4]))
}

func (j *job) group() string { return filepath.Join(j.groups(), j.Resource.HostName()) }

// bound bounds the memory of a process and of what it starts, if the host can do that.
func (j *job) bound(p pid, mib int64) error {
	c := j.memory()
	if c.dir == "" {
		return nil
	}
	j.step("bound the memory")
	files := []struct{ path, text string }{
		{filepath.Join(j.group(), c.limit), strconv.FormatInt(mib<<20, 10)},
		{filepath.Join(j.group(), "cgroup.procs"), strconv.Itoa(p.PID)},
	}
	j.mu.Lock()
	err := os.MkdirAll(j.group(), 0o755)
	j.mu.Unlock()
	control := filepath.Join(j.groups(), "cgroup.subtree_control") // which only version 2 has
	if _, missing := os.Stat(control); missing == nil {
		files = slices.Insert(files, 0, struct{ path, text string }{control, "+memory"})
	}
	for _, f := range files {
		if err == nil {
			err = os.WriteFile(f.path, []byte(f.text), 0o600)
		}
	}
	if errors.Is(err, syscall.ESRCH) {
		return nil // it has ended; whoever waits for its answer finds out why
	}
	if err != nil {
		return sal.HostError("bound the memory of "+j.Resource.String(), err)
	}
	return nil
}

// unbound takes the group away, which the kernel allows a moment after the last process has ended.
func (j *job) unbound(ctx context.Context) error {
	if j.memory().dir == "" {
		return nil
	}
	j.step("remove the group")
	for {
		err := j.removeGroup()
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return sal.HostError("remove "+j.group(), err)
		}
		if err := pauseUnlessDone(ctx, lastLook); err != nil {
			return sal.HostError("remove "+j.group(), syscall.EBUSY)
		}
	}
}

func (j *job) removeGroup() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := syscall.Rmdir(j.group())
	if err == nil {
		_ = syscall.Rmdir(j.groups()) // if it was the last one
	}
	return err
}
