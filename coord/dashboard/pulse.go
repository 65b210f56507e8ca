package dashboard

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

const (
	stale             = 900 * time.Millisecond // below the interval of frames, so that each frame finds something new
	datacenterTimeout = 2 * time.Second        // what a datacenter that does not answer may cost a page
	sumsKept          = 300                    // samples of all queues, more than the five minutes that a chart shows
	stuckEvery        = 5 * time.Second        // how often stuck runs are counted: that looks at every open run
)

// pulse is what all pages share: how everything is at the moment, looked at once a second however many look.
type pulse struct {
	group singleflight.Group

	mu   sync.Mutex
	last *moment
}

// moment is how everything was at a time. It is never changed. It is the same for all readers: each page leaves out what its reader may not see.
type moment struct {
	at          time.Time
	datacenters []api.Datacenter
	queues      []api.DatacenterQueues
	holds       []api.DatacenterHolds
	boots       []api.DatacenterBoots
	projects    []identity.Project
	counts      ledger.RunCounts
	stuck       ledger.RunCounts // of which nothing was heard for stuckAfter
	stuckAt     time.Time        // when they were counted
	nodes       nodeStates
}

// sample is a point of the chart of depths: unix milliseconds, running, queued, planned.
type sample [4]int64

// moment returns how everything is, or was less than a second ago.
func (d *Dashboard) moment(ctx context.Context) (*moment, error) {
	last := d.lastMoment()
	if last != nil && time.Since(last.at) < stale {
		return last, nil
	}
	m, err, _ := d.now.group.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datacenterTimeout) // others wait for it too
		defer cancel()
		return d.look(ctx)
	})
	if err != nil {
		return nil, err
	}
	return m.(*moment), nil
}

// lastMoment returns the newest moment, nil before the first.
func (d *Dashboard) lastMoment() *moment {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	return d.now.last
}

func (d *Dashboard) look(ctx context.Context) (*moment, error) {
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
	var asking errgroup.Group // at the same time: one that stands still keeps all of them waiting
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

// countStuck counts the runs of which nothing was heard, or takes the count of a moment ago.
func (d *Dashboard) countStuck(ctx context.Context, m *moment) (err error) {
	last := d.lastMoment()
	if last != nil && m.at.Sub(last.stuckAt) < stuckEvery {
		m.stuck, m.stuckAt = last.stuck, last.stuckAt
		return nil
	}
	m.stuckAt = m.at
	m.stuck, err = d.Ledger.CountRuns(ctx, ledger.RunFilter{Silent: m.at.Add(-stuckAfter).Truncate(time.Second)})
	return err
}

// datacenter returns what is known of a datacenter; of one that the roster does not name it is the id only.
func (m *moment) datacenter(id writ.DatacenterID) api.Datacenter {
	for _, dc := range m.datacenters {
		if dc.ID == id {
			return dc
		}
	}
	return api.Datacenter{ID: id, Name: short(id), Health: api.DatacenterHealthAway}
}
