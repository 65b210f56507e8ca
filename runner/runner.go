// Package runner implements one node. It receives signed jobs from its queue, verifies them, records them in its
// journal, carries them out through drivers and reports the results.
//
// An incarnation is one start of the runner. An epoch is the number of a supervisor's term. A beat is a status message
// that a node sends every second while it has jobs, and otherwise every few seconds.
//
// The runner trusts no component between the supervisor and the node. It accepts a job only in an envelope that the
// supervisor of its datacenter signed. The newest roster (the signed list of people and keys), which must chain back to
// the cluster's root, names the supervisor's key. Changes also need the signature of a person. The runner stores data
// about its own node only. It does not run scripts.
//
// For each job, the runner opens the envelope, finds or creates the entry in the journal (`started`, on disk), acts,
// and records the result (on disk). It then sends the result, and sends it again until the supervisor acknowledges it.
// After a crash at any point, the entry shows the next incarnation which steps are still allowed.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/tracing"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/runner/nodelog"
	"writ/runner/queue"
	"writ/sal"
	"writ/supervisor/nodes"
)

const (
	// DefaultSlots is the number of concurrent jobs if Runner.Slots is unset. The slots also limit how many results can
	// share a commit of the journal.
	DefaultSlots = 64
	// DefaultGrace limits how long running jobs may continue after shutdown begins.
	DefaultGrace = 10 * time.Second
)

// Log messages that report the progress of a node. The init process of a machine that boots writ reads these messages
// and member.LogCannotJoin.
const (
	LogServing = "serving"
	LogNoQueue = "queue unavailable; results wait" // with err
	LogQueue   = "queue available again"
)

// Runner serves one node. Fill it in and call Run once.
type Runner struct {
	Member  *member.Member   // see Join
	API     nodes.Backend    // node API of the datacenter's supervisor
	Queue   queue.Queue      // queue of the datacenter
	Journal *journal.Journal // journal of this node
	Drivers []sal.Driver     // at most one per module
	// Lacking lists drivers that cannot create resources, each with its missing dependency. The runner only reports
	// these drivers. Such a driver is also in Drivers if it has resources to maintain.
	Lacking []writ.NodeDriver
	Slots   int // concurrent jobs, not counting transfers; DefaultSlots if 0
	// Capacity is the capacity that the node offers. Fields that are 0 are measured: the CPUs of the host, its memory,
	// and the size of the disk with the data directory. The host reserves a part of memory and disk for itself.
	Capacity writ.Capacity
	Grace    time.Duration // DefaultGrace if 0
	// Transfers serves copies of this node's resources to other nodes; nil serves none.
	Transfers *Transfers
	// Peers lists the address ranges from which this node may fetch, in addition to public addresses.
	Peers []netip.Prefix
	// Now is the node's wall clock, time.Now if nil. It decides when envelopes expire. It may jump forward and back at
	// any time.
	Now     func() time.Time
	Version string // version of the program
	// Host returns facts about the machine, for people. If Host is nil, no facts are reported.
	Host func() writ.Host
	// Disks returns the file systems with data of the node. If Disks is nil, no file systems are reported.
	Disks func() []writ.Disk
	Log   *slog.Logger // discards if nil
	// Record receives the span of each job; nil disables tracing.
	Record func(s tracing.Span)
	// NodeLog holds the stored log of the node. If nil, the supervisor cannot query it.
	NodeLog *nodelog.Log

	counting sync.Once
	counts   *counts                     // see counters
	current  atomic.Pointer[incarnation] // serving now; nil if none
}

// counters returns the counters of the runner. They outlive its incarnations.
func (r *Runner) counters() *counts {
	r.counting.Do(func() { r.counts = newCounts() })
	return r.counts
}

// errShutdown is the cause of contexts that the runner cancels for shutdown. The affected jobs have not failed: the
// next incarnation continues them.
var errShutdown = sal.ErrStopping

// Run serves until ctx ends, then returns nil. It first waits until the node is approved. When ctx ends it accepts no
// more jobs, gives running jobs the grace period and then cancels them; cancelled jobs stay `started` in the journal.
// It returns an error only if it cannot serve, for example after the node was removed.
func (r *Runner) Run(ctx context.Context) error {
	drivers, err := r.validate()
	if err != nil {
		return err
	}
	log := cmp.Or(r.Log, slog.New(slog.DiscardHandler))
	err = member.AwaitApproval(ctx, r.Member, r.API, log)
	if member.Left(r.Member.Admission()) {
		r.fence(drivers, nil, log).retire(ctx, false)
	}
	var n *incarnation
	if err == nil {
		n, err = r.begin(ctx, drivers, log)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	r.current.Store(n)
	err = n.run(ctx)
	r.current.Store(nil)
	if member.Left(r.Member.Admission()) {
		r.fence(drivers, n, log).retire(ctx, true)
	}
	return err
}

func (r *Runner) validate() (map[string]sal.Driver, error) {
	if r.Member == nil || r.API == nil || r.Queue == nil || r.Journal == nil {
		return nil, errors.New("a runner needs a member, a node API, a queue and a journal")
	}
	drivers := make(map[string]sal.Driver, len(r.Drivers))
	for _, d := range r.Drivers {
		about := d.Describe()
		if drivers[about.Module] != nil {
			return nil, fmt.Errorf("the module %s has two drivers, %s and %s", about.Module,
				drivers[about.Module].Describe().Name, about.Name)
		}
		drivers[about.Module] = d
	}
	return drivers, nil
}

// run serves until ctx ends. Then it stops in two steps: it accepts no more jobs, and after the grace period it cancels
// the running ones.
func (n *incarnation) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var services sync.WaitGroup
	for _, service := range []func(context.Context){
		n.outbox.run, n.beat, n.listen, n.keepAcks, n.prune, n.lookAfter, n.logs.run, n.loads.run,
		func(ctx context.Context) { n.rosters.follow(ctx, n.log) },
		(&giver{base: n.base, Transfers: n.transfers, locks: n.keeper.locks, drivers: n.drivers}).run,
	} {
		services.Go(func() { service(background) })
	}
	ctx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	removed := make(chan error, 1)
	services.Go(func() {
		if err := n.standing.watch(background); err != nil {
			n.log.ErrorContext(ctx,
				"node removed from its datacenter: the runner exits; resources keep running unless a person has "+
					"declared the node lost", "err", err)
			n.stopWork(errShutdown)
			removed <- err
			stopServing()
		}
	})
	served := make(chan error, 1)
	services.Go(func() { served <- n.queue.Serve(ctx, n.node, n.slots*inHandPerSlot, n.jobs.handle) })
	n.log.InfoContext(ctx, LogServing, "incarnation", n.number, "slots", n.slots)

	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		n.stopping.Store(true)
		grace := time.NewTimer(n.grace)
		defer grace.Stop()
		select {
		case err = <-served:
		case <-grace.C:
			n.stopWork(errShutdown)
			err = <-served
		}
	}
	n.stopWork(errShutdown)
	stop()
	services.Wait()
	for _, w := range n.desk.stuck() {
		n.log.WarnContext(ctx, "driver still works on an expired job", "run", w.Run, "seq", w.Seq)
	}
	select {
	case why := <-removed:
		return why
	default:
	}
	if err != nil {
		return fmt.Errorf("serve the node's queue: %w", err)
	}
	return nil
}
