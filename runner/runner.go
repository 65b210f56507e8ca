// Package runner is one node: it takes signed jobs from its queue, verifies them, remembers them, acts through drivers, and reports.
// It trusts nobody on the way: a job counts by the envelope of its datacenter's supervisor in the newest roster that leads back to the
// cluster's root, and what changes anything counts by the signature of a person besides. It knows its own node only, no scripts and no
// tenants.
//
// The life of a job here: open the envelope, find or make its entry in the journal (`started`, on disk), act, record the result (on
// disk), send it, and send it again until the supervisor acknowledges it. A crash at any point leaves an entry that tells the next
// incarnation what may still be done.
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
	"writ/internal/tally"
	"writ/internal/tracing"
	"writ/runner/journal"
	"writ/runner/nodelog"
	"writ/runner/queue"
	"writ/sal"
	"writ/supervisor/nodes"
)

const (
	// DefaultSlots is how many jobs run at a time unless Runner says otherwise. It also bounds how many results share a commit.
	DefaultSlots = 64
	// DefaultGrace is how long running jobs may go on after the runner was told to stop.
	DefaultGrace = 10 * time.Second
)

// Runner serves one node. Fill it in and call Run once.
type Runner struct {
	Member  *Member          // from Join
	API     nodes.Backend    // of the datacenter's supervisor
	Queue   queue.Queue      // of the datacenter
	Journal *journal.Journal // of this node
	Drivers []sal.Driver     // at most one for each module
	// Lacking are drivers with which the node makes nothing new, each with what it lacks. They are told, and nothing else; one of them is among
	// Drivers if there is something that it looks after.
	Lacking []writ.NodeDriver
	Slots   int // jobs at a time, besides those that fetch; DefaultSlots if 0
	// Capacity is what the node offers. Parts that are 0 are measured: the CPUs of the host, its memory, and the size of the disk that holds
	// the data directory; of the last two the host keeps some for itself.
	Capacity writ.Capacity
	Grace    time.Duration // DefaultGrace if 0
	// Transfers is where other nodes fetch copies of what is here; nil gives nothing away.
	Transfers *Transfers
	// Peers are ranges of addresses at which this node fetches from others, besides those on the internet.
	Peers []netip.Prefix
	// Now is the node's wall clock, time.Now if nil: envelopes expire by it. It may be set at any time, forward and back.
	Now     func() time.Time
	Version string // of the program
	// Host returns what the machine is, for people; nothing is told of it if nil.
	Host func() writ.Host
	// Disks returns the file systems that hold data of the node; they are not reported if nil.
	Disks func() []writ.Disk
	Log   *slog.Logger // nothing is logged if nil
	// Record takes the span of each job; nil if there are no traces.
	Record func(s tracing.Span)
	// NodeLog is what the node keeps of its log; nothing is told of that if nil.
	NodeLog *nodelog.Log

	counts  counts
	current atomic.Pointer[incarnation] // that serves, nil if none does
}

// Counts says how often something happened since the runner was made.
type Counts struct {
	Acted    int64 // operations that were carried out
	Repeated int64 // deliveries that were answered from the journal
	Refused  int64 // jobs that were answered without acting
	Dropped  int64 // deliveries and messages that were not authentic, not for this node, or too late
}

type counts struct {
	acted, repeated, refused atomic.Int64

	jobs     tally.Counts[Job]
	took     tally.DurationsOf[string] // operations, by name
	refusals tally.Counts[writ.Code]
	drops    tally.Counts[Drop]
	sent     tally.Moment // a beat
	heard    tally.Moment // a message of the supervisor, by the queue
	answered tally.Moment // by the supervisor, at its node API
}

// Counts returns the counters.
func (r *Runner) Counts() Counts {
	return Counts{r.counts.acted.Load(), r.counts.repeated.Load(), r.counts.refused.Load(), r.counts.drops.Total()}
}

// errShutdown ends what the runner cuts because it is told to stop. What it cuts is not failed: the next incarnation goes on.
var errShutdown = errors.New("the runner is being stopped")

// Run serves until ctx ends, and returns nil then. It waits first until the node is approved. When ctx ends it takes no more jobs,
// gives running ones Grace, then ends their contexts; those stay `started` in the journal. It returns an error only if it cannot
// serve at all.
func (r *Runner) Run(ctx context.Context) error {
	drivers, err := r.validate()
	if err != nil {
		return err
	}
	log := cmp.Or(r.Log, slog.New(slog.DiscardHandler))
	err = r.Member.awaitApproval(ctx, r.API, log)
	if left(r.Member.Admission()) {
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
	if left(r.Member.Admission()) {
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
			return nil, fmt.Errorf("the module %s has two drivers, %s and %s", about.Module, drivers[about.Module].Describe().Name, about.Name)
		}
		drivers[about.Module] = d
	}
	return drivers, nil
}

// run serves until ctx ends, and then stops in two steps: no more jobs, then no more time for those that run.
func (n *incarnation) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var services sync.WaitGroup
	for _, service := range []func(context.Context){n.outbox.run, n.beat, n.listen, n.keepAcks, n.followRosters, n.prune, n.lookAfter, n.give, n.answerLog} {
		services.Go(func() { service(background) })
	}
	ctx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	removed := make(chan error, 1)
	services.Go(func() {
		if err := n.watchStanding(background); err != nil {
			n.log.ErrorContext(ctx, "the datacenter has this node no more: it ends, and leaves what runs here as it is unless a person has "+
				"signed that it is lost", "err", err)
			n.stopWork(errShutdown)
			removed <- err
			stopServing()
		}
	})
	served := make(chan error, 1)
	services.Go(func() { served <- n.queue.Serve(ctx, n.node, n.slots*inHandPerSlot, n.handle) })
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
