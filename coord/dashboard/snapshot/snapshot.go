// Package snapshot reads the data of the pages from the ledger and the datacenters. All open pages share one Snapshot,
// which is at most a second old. The package also has the rows that pages of several subjects show: queue depths,
// holds, booting machines and unknown states.
package snapshot

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
	stale             = 900 * time.Millisecond // less than the interval of frames, so that each frame has a new snapshot
	datacenterTimeout = 2 * time.Second        // limit of the delay of a page by a datacenter that does not answer
	sumsKept          = 300                    // samples of all queues, more than the five minutes of a chart
	stuckEvery        = 5 * time.Second        // interval between counts of stuck runs, which read every open run
)

// StuckAfter is the silence after which a run counts as stuck on the overview, as in the example of `writ run list
// --stuck`.
const StuckAfter = 5 * time.Minute

// cache shares the current state between all pages. The state is read at most once a second, however many pages are
// open.
type cache struct {
	group singleflight.Group

	mu   sync.Mutex
	last *Snapshot
}

// Snapshot is the state of the cluster at one time. It is immutable, and the same for all readers: each page omits
// data that its reader may not see.
type Snapshot struct {
	At          time.Time
	Datacenters []api.Datacenter
	Queues      []api.DatacenterQueues
	Holds       []api.DatacenterHolds
	Boots       []api.DatacenterBoots
	projects    []identity.Project
	Counts      ledger.RunCounts // Counts and Stuck omit runs that only read logs
	Stuck       ledger.RunCounts // runs without events for StuckAfter
	stuckAt     time.Time        // time of the count in Stuck
	Nodes       nodeStates
}

// sample is a point of the chart of depths: unix milliseconds, running, queued, planned.
type sample [4]int64

// Now returns a snapshot that is less than a second old.
func (s *Source) Now(ctx context.Context) (*Snapshot, error) {
	last := s.last()
	if last != nil && time.Since(last.At) < stale {
		return last, nil
	}
	m, err, _ := s.now.group.Do("", func() (any, error) {
		// Other requests wait for this read too, so it must not end with the context of its first caller.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datacenterTimeout)
		defer cancel()
		return s.read(ctx)
	})
	if err != nil {
		return nil, err
	}
	return m.(*Snapshot), nil
}

// last returns the newest snapshot, nil before the first.
func (s *Source) last() *Snapshot {
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	return s.now.last
}

// Forget drops the last snapshot and the points of the chart of all queues, so that the next page reads everything
// again.
func (s *Source) Forget() {
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	s.now.last = nil
	s.History.mu.Lock()
	defer s.History.mu.Unlock()
	s.History.sums = nil
}

func (s *Source) read(ctx context.Context) (*Snapshot, error) {
	m := &Snapshot{At: time.Now()}
	var err error
	if m.Datacenters, err = s.LiveView.Datacenters(ctx); err != nil {
		return nil, err
	}
	if m.projects, err = s.Ledger.Projects(ctx); err != nil {
		return nil, err
	}
	if m.Counts, err = s.Ledger.CountRuns(ctx, ledger.RunFilter{WithoutLogs: true}); err != nil {
		return nil, err
	}
	if err = s.countStuck(ctx, m); err != nil {
		return nil, err
	}
	var asking errgroup.Group // concurrent, so that an unresponsive datacenter delays the snapshot only once
	asking.Go(func() (err error) { m.Queues, err = s.LiveView.Queues(ctx); return err })
	asking.Go(func() (err error) { m.Holds, err = s.LiveView.Holds(ctx, ""); return err })
	asking.Go(func() (err error) { m.Boots, err = s.LiveView.Boots(ctx, "", maxBoots); return err })
	asking.Go(func() error { m.Nodes = s.lookAtNodes(ctx, m, s.last()); return nil })
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	s.now.mu.Lock()
	defer s.now.mu.Unlock()
	s.now.last = m
	return m, nil
}

// countStuck counts the stuck runs, or reuses a recent count.
func (s *Source) countStuck(ctx context.Context, m *Snapshot) (err error) {
	last := s.last()
	if last != nil && m.At.Sub(last.stuckAt) < stuckEvery {
		m.Stuck, m.stuckAt = last.Stuck, last.stuckAt
		return nil
	}
	m.stuckAt = m.At
	m.Stuck, err = s.Ledger.CountRuns(ctx, ledger.RunFilter{
		Silent: m.At.Add(-StuckAfter).Truncate(time.Second), WithoutLogs: true,
	})
	return err
}
