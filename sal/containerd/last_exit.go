package containerd

import (
	"path/filepath"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/internal/cgroup"
	"writ/sal/catalog"
)

// lastExit is the last end of a container's program by itself. The record keeps it, because the daemon forgets a
// process that is replaced.
type lastExit struct {
	Container string `json:"container"` // its ID at the daemon: a replacement starts without a last end
	writ.Exit
}

// lastEnd returns the last end of the current container, or nil. A process that container.stop ended does not count.
func (d *Driver) lastEnd(r *record, now containerState) *lastExit {
	if now.status == client.Stopped && !r.Own.Stopped {
		exit := writ.Exit{Code: int64(now.exit)}
		exit.OutOfMemory = exit.Code != 0 && d.outOfMemory(r.Own.Container)
		return &lastExit{Container: r.Own.Container, Exit: exit}
	}
	if r.Own.LastExit == nil || r.Own.LastExit.Container != r.Own.Container {
		return nil
	}
	return r.Own.LastExit
}

// outOfMemory reports whether the kernel killed a process of a container at its memory limit. The cgroup exists until
// the daemon deletes the process, so the result is available after the end.
func (d *Driver) outOfMemory(id string) bool {
	return cgroup.KilledForMemory(filepath.Join(d.namespace(), id)) > 0
}

// recordEnd records the last end if it has changed.
func (j *job) recordEnd(r *record, now containerState) (*lastExit, error) {
	end := j.lastEnd(r, now)
	if end == nil || r.Own.LastExit != nil && *r.Own.LastExit == *end {
		return end, nil
	}
	r.Own.LastExit = end
	return end, j.put(r, r.Own.Phase)
}

// show sets the fields of a handle.
func (e *lastExit) show(c *catalog.Container) {
	c.LastExitCode, c.OutOfMemory = catalog.NeverEnded, false
	if e != nil {
		c.LastExitCode, c.OutOfMemory = e.Code, e.OutOfMemory
	}
}
