package containerd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containerd/containerd/api/events"
	"github.com/containerd/typeurl/v2"

	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/containerd/health"
)

const (
	// again is the pause before Run reconnects after the connection to the daemon was lost.
	again = time.Second
	// sweep is the interval at which Run checks all containers, independently of events.
	sweep = time.Minute
	// busyPause is the pause before Run tries again to check a container on which an operation runs.
	busyPause = time.Second
	// longest exceeds any pause between two checks.
	longest = time.Hour
)

// Run restarts containers that end, as their policies say, until ctx ends, and then returns nil. It notices an end at
// once, and doubles the pause before each further restart. Without Run, Keep does the same later. Run also probes the
// health of containers.
func (d *Driver) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Go(func() {
		d.health.Run(d.in(ctx), func(ctx context.Context, s health.Subject) error { return probe(ctx, d, s) },
			func(ctx context.Context, s health.Subject) {
				if err := followHealth(ctx, d, s); err != nil && ctx.Err() == nil {
					d.Log.WarnContext(ctx, "change the shared ports of a container", "resource", s.Resource.String(), "err", err)
				}
			})
	})
	w := &watcher{Driver: d}
	for {
		// Operations and Keep report errors to people; Run only retries.
		if err := w.watch(ctx); err != nil && ctx.Err() == nil {
			d.Log.DebugContext(ctx, "watch containers", "err", err)
		}
		if sleep.For(ctx, again) != nil {
			return nil
		}
	}
}

// watcher is one call of Run. It schedules the checks of all containers.
type watcher struct {
	*Driver
	next *time.Timer
	due  time.Time // of next
}

// watch repairs containers until the connection to the daemon is lost or ctx ends.
func (w *watcher) watch(ctx context.Context) error {
	records, _, err := recordsIn(w.Dir).List()
	if err != nil {
		return err
	}
	if len(records) > 0 || w.wasUsed() { // otherwise the driver has no containers, and the host may have no daemon
		return w.follow(ctx)
	}
	return nil
}

// follow repairs each container when its process ends, and all containers at least once per sweep.
func (w *watcher) follow(ctx context.Context) error {
	daemon, err := w.reach(ctx)
	if err != nil {
		return err
	}
	following, cancel := context.WithCancel(w.in(ctx))
	defer cancel()
	ends, broken := daemon.Subscribe(following, `topic=="/tasks/exit",namespace==`+w.namespace())
	w.next, w.due = time.NewTimer(0), time.Now() // the first check finds containers that ended before
	defer w.next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case e := <-ends:
			end, ok := endOf(e.Event)
			if !ok {
				continue
			}
			if pause := w.repairID(ctx, end); pause > 0 {
				w.checkWithin(pause)
			}
		case <-w.next.C:
			w.due = time.Now().Add(longest)
			w.checkWithin(w.repairAll(ctx))
		}
	}
}

// checkWithin checks all containers after pause, unless an earlier check is due.
func (w *watcher) checkWithin(pause time.Duration) {
	if at := time.Now().Add(pause); at.Before(w.due) {
		w.due = at
		w.next.Reset(pause)
	}
}

// endOf returns the container whose main process ended. It ignores the ends of other programs in a container.
func endOf(event typeurl.Any) (id string, ok bool) {
	v, err := typeurl.UnmarshalAny(event)
	if err != nil {
		return "", false
	}
	exit, ok := v.(*events.TaskExit)
	if !ok || exit.ID != exit.ContainerID {
		return "", false
	}
	return exit.ContainerID, true
}

// repairID repairs the container with an ID and returns the pause before the next check; 0 means never.
func (w *watcher) repairID(ctx context.Context, id string) time.Duration {
	records, _, err := recordsIn(w.Dir).List()
	if err != nil {
		return sweep
	}
	for _, r := range records {
		if r.Own.Container == id {
			return w.repair(ctx, r)
		}
	}
	return 0
}

// repairAll repairs all containers and returns the pause before the next check.
func (w *watcher) repairAll(ctx context.Context) time.Duration {
	records, _, err := recordsIn(w.Dir).List()
	if err != nil {
		return sweep
	}
	soonest := sweep
	for _, r := range records {
		if pause := w.repair(ctx, r); pause > 0 {
			soonest = min(soonest, pause)
		}
	}
	return soonest
}

// tryLock locks a resource, or returns errBusy.
func (w *watcher) tryLock(_ context.Context, name string) (done func(), err error) {
	done, ok := w.locks.Try(name)
	if !ok {
		return nil, errBusy
	}
	return done, nil
}

// repair repairs a container that is ready and not stopped. It returns the pause before the next check; 0 means that
// none is needed.
func (w *watcher) repair(ctx context.Context, r *record) time.Duration {
	if r.Own.Phase != ready || r.Own.Stopped {
		return 0
	}
	// A waiting call, or a program that runs in this container, must not delay the restart of other containers.
	drift, err := mend(ctx, w.Driver, r.Resource, w.tryLock)
	if errors.Is(err, errBusy) {
		return busyPause
	}
	if err != nil {
		if ctx.Err() == nil {
			w.Log.WarnContext(ctx, "restart a container", "resource", r.Resource.String(), "err", err)
		}
		return pauses.Longest
	}
	for _, found := range drift {
		if found.Mended {
			w.Log.InfoContext(ctx, "container repaired", "resource", r.Resource.String(), "found", found.What)
			w.restarts.addRepair(r.Resource.HostName(), found.What)
		}
	}
	return w.restarts.Pause(r.Resource.HostName())
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Fencing = (*Driver)(nil)
	_ sal.Logging = (*Driver)(nil)
)
