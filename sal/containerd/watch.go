package containerd

import (
	"context"
	"time"

	"github.com/containerd/containerd/api/events"
	"github.com/containerd/typeurl/v2"

	"writ"
	"writ/sal"
)

const (
	// again is the pause before Run reconnects to a daemon that went away.
	again = time.Second
	// sweep is the interval at which Run checks all containers, independently of events.
	sweep = time.Minute
	// longest exceeds any pause between two checks.
	longest = time.Hour
)

// Run restarts containers that end, as their policies say, until ctx ends, and then returns nil. It notices an end at
// once, and doubles the pause before each further restart. Without Run, Keep does the same later.
func (d *Driver) Run(ctx context.Context) error {
	for {
		// Operations and Keep report errors to people; Run only retries.
		if err := d.watch(ctx); err != nil && ctx.Err() == nil {
			d.Log.DebugContext(ctx, "watch containers", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
	}
}

// watch follows the daemon until it goes away or ctx ends.
func (d *Driver) watch(ctx context.Context) error {
	records, _, err := d.records().List()
	if err != nil {
		return err
	}
	if len(records) > 0 || d.wasUsed() { // otherwise there are no containers, and perhaps no daemon
		return d.follow(ctx)
	}
	return nil
}

func (d *Driver) follow(ctx context.Context) error {
	daemon, err := d.reach(ctx)
	if err != nil {
		return err
	}
	following, cancel := context.WithCancel(d.in(ctx))
	defer cancel()
	ends, broken := daemon.Subscribe(following, `topic=="/tasks/exit",namespace==`+d.namespace())
	next := time.NewTimer(0) // the first check finds containers that ended before
	defer next.Stop()
	due := time.Now()
	look := func(pause time.Duration) { // check all of them after pause at the latest
		if at := time.Now().Add(pause); at.Before(due) {
			due = at
			next.Reset(pause)
		}
	}
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
			if pause := d.repairID(ctx, end); pause > 0 {
				look(pause)
			}
		case <-next.C:
			due = time.Now().Add(longest)
			look(d.repairAll(ctx))
		}
	}
}

// endOf returns the container whose main process ended. It ignores programs that were run in it.
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
func (d *Driver) repairID(ctx context.Context, id string) time.Duration {
	records, _, err := d.records().List()
	if err != nil {
		return sweep
	}
	for _, r := range records {
		if r.Own.Container == id {
			return d.repair(ctx, r)
		}
	}
	return 0
}

// repairAll repairs all containers and returns the pause before the next check.
func (d *Driver) repairAll(ctx context.Context) time.Duration {
	records, _, err := d.records().List()
	if err != nil {
		return sweep
	}
	soonest := sweep
	for _, r := range records {
		if pause := d.repair(ctx, r); pause > 0 {
			soonest = min(soonest, pause)
		}
	}
	return soonest
}

// repair repairs a container that is not being made or deleted.
func (d *Driver) repair(ctx context.Context, r *record) time.Duration {
	if r.Own.Phase != ready || r.Own.Stopped {
		return 0
	}
	drift, err := d.mend(ctx, r.Resource)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.WarnContext(ctx, "restart a container", "resource", r.Resource.String(), "err", err)
		}
		return lastPause
	}
	for _, found := range drift {
		if found.Mended {
			d.Log.InfoContext(ctx, "container repaired", "resource", r.Resource.String(), "found", found.What)
			d.rememberRepair(r.Resource, found.What)
		}
	}
	return d.pauseOf(r.Resource)
}

// pauseOf returns the remaining pause before the restart of a container, at least one millisecond, or 0 if no restart
// is due.
func (d *Driver) pauseOf(resource writ.ResourceID) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.restarts[resource.HostName()]
	if !ok || r.due.IsZero() {
		return 0
	}
	return max(time.Until(r.due), time.Millisecond)
}

// wasUsed reports whether the driver has connected to the daemon.
func (d *Driver) wasUsed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client != nil
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Logging = (*Driver)(nil)
)
