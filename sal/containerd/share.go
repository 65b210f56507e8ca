package containerd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/health"
)

// Containers that share a port get its new connections while they are ready. A container is ready if its program runs
// and, with a health check, is healthy. A container leaves the port before it ends.

const (
	// drainLimit limits how long a container that gets no new connections waits for its open connections before it ends.
	drainLimit = 10 * time.Second
	// drainPause is the pause between two counts of these connections.
	drainPause = 100 * time.Millisecond
	// healthPause is the least time between two changes of a container's ports after changes of its health. Otherwise
	// hostile programs could keep the node busy with its packet rules.
	healthPause = 5 * time.Second
)

// sharesPorts reports whether a container shares a port, or a container that it replaces does.
func sharesPorts(r *record) bool {
	shared := func(p catalog.Publish) bool { return p.Share != "" }
	return slices.ContainsFunc(catalog.Publishing(r.Spec["publish"]), shared) ||
		slices.ContainsFunc(catalog.Publishing(r.Own.Beside["publish"]), shared)
}

// sharing serialises changes of the readiness of containers. Its maps have the host names of containers as keys.
type sharing struct {
	mu sync.Mutex
	// leaving holds containers that have left their ports, until the operation that ends them is done. Meanwhile, a
	// change of their health does not change their readiness.
	leaving map[string]bool
	// following holds the next time at which a change of health may change the ports. Times in the past are removed.
	following map[string]time.Time
}

// await waits until a change of a container's health may change its ports. It returns false if ctx ends, or if another
// call already waits.
func (s *sharing) await(ctx context.Context, name string) bool {
	now := time.Now()
	s.mu.Lock()
	maps.DeleteFunc(s.following, func(_ string, next time.Time) bool { return !next.After(now) })
	next, isRecent := s.following[name]
	if !isRecent {
		next = now
	}
	wait := next.Sub(now)
	if wait > healthPause {
		s.mu.Unlock()
		return false
	}
	if s.following == nil {
		s.following = map[string]time.Time{}
	}
	s.following[name] = next.Add(healthPause)
	s.mu.Unlock()
	return wait == 0 || sleep.For(ctx, wait) == nil
}

// setReadiness sets the readiness of the current container. The caller holds the lock of d.sharing.
func setReadiness(ctx context.Context, d *Driver, r *record, readiness sal.Readiness) error {
	publishing, ok := d.Networks.(sal.Publishing)
	if !ok {
		return nil
	}
	d.Step.step("set the readiness")
	return publishing.Publisher().SetReadiness(ctx, ownerOf(r), readiness)
}

// updateReadiness sets the readiness of a container that shares a port to its present state. In other phases than
// ready, it has no effect: the operation that runs determines the readiness.
func updateReadiness(ctx context.Context, j *job, r *record) error {
	if !sharesPorts(r) || r.Own.Phase != ready {
		return nil
	}
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return err
	}
	j.sharing.mu.Lock()
	defer j.sharing.mu.Unlock()
	delete(j.sharing.leaving, r.Resource.HostName())
	readiness := readinessOf(j.Driver, r)
	if !now.running() && readiness == sal.Ready {
		readiness = sal.Doubtful
	}
	return setReadiness(ctx, j.Driver, r, readiness)
}

// readinessOf returns the readiness of a container whose program runs.
func readinessOf(d *Driver, r *record) sal.Readiness {
	switch health := healthOf(d, r); {
	case r.Own.Stopped:
		return sal.NotReady
	case health == "" || health == catalog.HealthHealthy: // "" without a check
		return sal.Ready
	}
	return sal.Doubtful
}

// demote makes shared ports lead to other containers while a program is restarted, if other containers share them.
func demote(ctx context.Context, j *job, r *record) error {
	if !sharesPorts(r) || r.Own.Phase != ready {
		return nil
	}
	j.sharing.mu.Lock()
	defer j.sharing.mu.Unlock()
	return setReadiness(ctx, j.Driver, r, sal.Doubtful)
}

// followHealth sets the readiness of a container after its health has changed. It does not wait for operations on the
// container, such as a long container.exec.
func followHealth(ctx context.Context, d *Driver, s health.Subject) error {
	r, err := recordsIn(d.Dir).Get(s.Resource)
	if err != nil || r == nil || !sharesPorts(r) || !d.sharing.await(ctx, s.Resource.HostName()) {
		return err
	}
	d.sharing.mu.Lock()
	defer d.sharing.mu.Unlock()
	if r, err = recordsIn(d.Dir).Get(s.Resource); err != nil || r == nil || !sharesPorts(r) {
		return err
	}
	if r.Own.Phase != ready || r.Own.Container != s.Container || d.sharing.leaving[s.Resource.HostName()] {
		return nil
	}
	return setReadiness(ctx, d, r, readinessOf(d, r))
}

// leave makes shared ports lead to other containers, and waits at most limit for the end of open connections.
func leave(ctx context.Context, j *job, r *record, limit time.Duration) error {
	if !sharesPorts(r) {
		return nil
	}
	if err := stopSharing(ctx, j, r); err != nil {
		return err
	}
	if j.keeps && r.Own.Ending != nil { // an earlier call has waited for the connections
		return nil
	}
	drain(ctx, j, ownerOf(r), limit)
	return nil
}

func stopSharing(ctx context.Context, j *job, r *record) error {
	j.sharing.mu.Lock()
	defer j.sharing.mu.Unlock()
	if j.sharing.leaving == nil {
		j.sharing.leaving = map[string]bool{}
	}
	j.sharing.leaving[r.Resource.HostName()] = true
	return setReadiness(ctx, j.Driver, r, sal.NotReady)
}

// drain waits, at most limit, until an owner that gets no new connections has no open connections. In Keep, it waits at
// most keepPatience.
func drain(ctx context.Context, j *job, owner sal.Owner, limit time.Duration) {
	publishing, ok := j.Networks.(sal.Publishing)
	if !ok {
		return
	}
	if j.keeps {
		limit = min(limit, keepPatience)
	}
	for end, said := time.Now().Add(limit), false; time.Now().Before(end); said = true {
		if sleep.For(ctx, drainPause) != nil { // once in any case, for packets in transit
			return
		}
		open, err := publishing.Publisher().Connections(ctx, owner)
		if err != nil || open == 0 { // after an error, there is probably no namespace with connections
			return
		}
		if !said {
			j.Progress(fmt.Sprintf("waiting at most %s for open connections", limit))
		}
	}
}
