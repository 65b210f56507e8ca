package containerd

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/internal/cgroup"
	"writ/sal"
	"writ/sal/catalog"
)

// pauses are the pauses before the restart of a container that ended.
var pauses = sal.Pauses{First: time.Second, Longest: 5 * time.Minute, Steady: time.Minute}

// maxRepairs limits the repairs that are remembered for each container. Older repairs are dropped.
const maxRepairs = 5

// restarts holds the pauses of containers that end repeatedly, and the repairs by Run that Keep has not reported yet.
// Its keys are host names. The zero value is empty.
type restarts struct {
	sal.Restarts
	mu      sync.Mutex
	repairs map[string][]string
}

// addRepair remembers a repair by Run.
func (s *restarts) addRepair(name, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repairs == nil {
		s.repairs = map[string][]string{}
	}
	all := append(s.repairs[name], what)
	s.repairs[name] = all[max(0, len(all)-maxRepairs):]
}

// takeRepairs returns the remembered repairs of a container and drops them.
func (s *restarts) takeRepairs(name string) []sal.Drift {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []sal.Drift
	for _, what := range s.repairs[name] {
		all = append(all, sal.Drift{What: what, Mended: true})
	}
	delete(s.repairs, name)
	return all
}

// forget drops the pause and the remembered repairs of a container.
func (s *restarts) forget(name string) {
	s.Drop(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.repairs, name)
}

// lastExit is the last end of a container's program by itself. The record keeps it, because the daemon forgets a
// process that is replaced.
type lastExit struct {
	Container string `json:"container"` // its ID at the daemon: a replacement starts without a last end
	writ.Exit
}

// lastEnd returns the last end of the current container, or nil. A process that container.stop ended does not count.
func lastEnd(r *record, now containerState, namespace string) *lastExit {
	if now.status == client.Stopped && !r.Own.Stopped {
		exit := writ.Exit{Code: int64(now.exit)}
		exit.OutOfMemory = exit.Code != 0 && outOfMemory(namespace, r.Own.Container)
		return &lastExit{Container: r.Own.Container, Exit: exit}
	}
	if r.Own.LastExit == nil || r.Own.LastExit.Container != r.Own.Container {
		return nil
	}
	return r.Own.LastExit
}

// outOfMemory reports whether the kernel killed a process of a container at its memory limit. The cgroup exists until
// the daemon deletes the process, so the result is available after the end.
func outOfMemory(namespace, id string) bool {
	return cgroup.KilledForMemory(filepath.Join(namespace, id)) > 0
}

// recordEnd records the last end if it has changed.
func (j *job) recordEnd(r *record, now containerState) (*lastExit, error) {
	end := lastEnd(r, now, j.namespace())
	if end == nil || r.Own.LastExit != nil && *r.Own.LastExit == *end {
		return end, nil
	}
	r.Own.LastExit = end
	return end, j.put(r, r.Own.Phase)
}

// show sets the fields of a handle that describe the last end. e may be nil.
func (e *lastExit) show(c *catalog.Container) {
	c.LastExitCode, c.OutOfMemory = catalog.NeverEnded, false
	if e != nil {
		c.LastExitCode, c.OutOfMemory = e.Code, e.OutOfMemory
	}
}
