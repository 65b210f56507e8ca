package dashboard

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

const (
	stale             = 900 * time.Millisecond // less than the interval of frames, so that each frame has a new moment
	datacenterTimeout = 2 * time.Second        // the longest delay of a page by a datacenter that does not answer
	sumsKept          = 300                    // samples of all queues, more than the five minutes of a chart
	stuckEvery        = 5 * time.Second        // interval between counts of stuck runs, which read every open run
)

// stuckAfter is the silence after which a run counts as stuck on the overview, as in the example of `writ run list
// --stuck`.
const stuckAfter = 5 * time.Minute

// pulse shares the current state between all pages. It is read at most once a second, however many pages are open.
type pulse struct {
	group singleflight.Group

	mu   sync.Mutex
	last *moment
}

// moment is the state of everything at one time. It is immutable, and the same for all readers: each page omits what
// its reader may not see.
type moment struct {
	at          time.Time
	datacenters []api.Datacenter
	queues      []api.DatacenterQueues
	holds       []api.DatacenterHolds
	boots       []api.DatacenterBoots
	projects    []identity.Project
	counts      ledger.RunCounts
	stuck       ledger.RunCounts // runs without events for stuckAfter
	stuckAt     time.Time        // time of the count
	nodes       nodeStates
}

// sample is a point of the chart of depths: unix milliseconds, running, queued, planned.
type sample [4]int64

// moment returns the current state, or one that is less than a second old.
func (d *source) moment(ctx context.Context) (*moment, error) {
	last := d.lastMoment()
	if last != nil && time.Since(last.at) < stale {
		return last, nil
	}
	m, err, _ := d.now.group.Do("", func() (any, error) {
		// Other requests wait for it too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datacenterTimeout)
		defer cancel()
		return d.look(ctx)
	})
	if err != nil {
		return nil, err
	}
	return m.(*moment), nil
}

// lastMoment returns the newest moment, nil before the first.
func (d *source) lastMoment() *moment {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	return d.now.last
}

// forget drops the last moment and the points of the chart of all queues, so that the next page reads everything again.
func (d *source) forget() {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	d.now.last = nil
	d.past.mu.Lock()
	defer d.past.mu.Unlock()
	d.past.sums = nil
}

func (d *source) look(ctx context.Context) (*moment, error) {
	m := &moment{at: time.Now()}
	var err error
	if m.datacenters, err = d.LiveView.Datacenters(ctx); err != nil {
		return nil, err
	}
	if m.projects, err = d.Ledger.Projects(ctx); err != nil {
		return nil, err
	}
	if m.counts, err = d.Ledger.CountRuns(ctx, ledger.RunFilter{}); err != nil {
		return nil, err
	}
	if err = d.countStuck(ctx, m); err != nil {
		return nil, err
	}
	var asking errgroup.Group // concurrently, so that an unresponsive datacenter delays them only once
	asking.Go(func() (err error) { m.queues, err = d.LiveView.Queues(ctx); return err })
	asking.Go(func() (err error) { m.holds, err = d.LiveView.Holds(ctx, ""); return err })
	asking.Go(func() (err error) { m.boots, err = d.LiveView.Boots(ctx, "", maxBoots); return err })
	asking.Go(func() error { m.nodes = d.lookAtNodes(ctx, m, d.lastMoment()); return nil })
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	d.now.last = m
	return m, nil
}

// countStuck counts the stuck runs, or reuses a recent count.
func (d *source) countStuck(ctx context.Context, m *moment) (err error) {
	last := d.lastMoment()
	if last != nil && m.at.Sub(last.stuckAt) < stuckEvery {
		m.stuck, m.stuckAt = last.stuck, last.stuckAt
		return nil
	}
	m.stuckAt = m.at
	m.stuck, err = d.Ledger.CountRuns(ctx, ledger.RunFilter{Silent: m.at.Add(-stuckAfter).Truncate(time.Second)})
	return err
}
