package runner

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/failpoint"
	"writ/runner/hosted"
	"writ/runner/journal"
	"writ/sal"
)

const (
	// keepEvery is the interval between scans of the node's resources.
	keepEvery = 30 * time.Second
	// usageEvery is the number of reports after which a report contains usage again.
	usageEvery = 10
	// keepFor limits a driver's time for one resource. The driver may have to restart a machine, which takes as long as
	// creating one.
	keepFor = 5 * time.Minute
	// readFor limits a driver's time for a call that only reads, such as List.
	readFor = time.Minute
	// maxFound limits the entries of each list in a report. maxSentence limits each text, in bytes.
	maxFound    = 500
	maxSentence = 500
	// maxRemedy limits the command that removes an orphan, in bytes.
	maxRemedy = 2000
	// maxMendings limits the unacknowledged repairs of one resource. If there are more, the newest are reported, with
	// the total count.
	maxMendings = 10
)

// keepOrder is the order in which modules are scanned: dependencies first. Other modules follow by name.
var keepOrder = []string{"image", "volume", "network", "machine", "container", "herodb"}

// keeper looks after the resources of a node: drivers repair deviations from the spec, and the keeper measures the use
// of the resources and reports repairs, lasting deviations and use.
type keeper struct {
	*base
	locks    *hosted.Locks
	logs     *logAnswers
	remnants *remnants
	host     func() writ.Host   // may be nil
	diskList func() []writ.Disk // may be nil
	drivers  []sal.Driver
	drifts   map[writ.ResourceID]writ.ResourceDrift // resources that deviate from their spec, as of their last scan
	// networked is the last known status of networks, nil before the first successful read.
	networked *writ.NodeNetwork
	states    hosted.States
	deaths    *hosted.ExitWatch
	machine   machine         // as of the last report
	fullDisks map[string]bool // by path: disks that were almost full at the last scan
	warned    warnings

	meter *meter
	calls calls // driver calls that have not returned

	repairs *repairs

	mu        sync.Mutex
	sentRound int64             // round of the last report with usage
	sent      []journal.Version // usage in that report, nil once acknowledged
}

func newKeeper(b *base, drivers map[string]sal.Driver, readings map[writ.UID]journal.Reading) *keeper {
	k := &keeper{
		deaths: hosted.NewExitWatch(b.log), fullDisks: make(map[string]bool),
		base: b, locks: &hosted.Locks{}, remnants: &remnants{}, drivers: slices.Collect(maps.Values(drivers)),
		drifts: make(map[writ.ResourceID]writ.ResourceDrift), repairs: newRepairs(),
	}
	k.meter = &meter{
		base: b, calls: &k.calls, readings: readings, scanned: make(map[writ.UID]journal.Reading),
		begun: make(map[writ.UID]journal.Reading), closed: make(map[writ.UID]bool),
	}
	order := func(d sal.Driver) int {
		if i := slices.Index(keepOrder, d.Describe().Module); i >= 0 {
			return i
		}
		return len(keepOrder)
	}
	slices.SortFunc(k.drivers, func(a, b sal.Driver) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Describe().Module, b.Describe().Module))
	})
	return k
}

// lookAfter waits until the supervisor has confirmed that the node is still a member, but only for a limited time, and
// then runs the keeper.
func (n *incarnation) lookAfter(ctx context.Context) {
	defer n.keeper.deaths.Close()
	if n.standing.await(ctx); ctx.Err() == nil {
		n.keeper.run(ctx)
	}
}

// run scans all resources at the start, because the host may have been restarted, and then every keepEvery. It looks
// after a resource at once when its process exits.
func (k *keeper) run(ctx context.Context) {
	for round := int64(1); ; round++ {
		k.scan(ctx)
		if ctx.Err() != nil {
			return
		}
		k.report(ctx, round)
		k.reportHost(ctx)
		k.tellWarnings(ctx)
		next := time.NewTimer(keepEvery)
		for due := false; !due; {
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-next.C:
				due = true
			case <-k.deaths.Wake:
				if k.handleExits(ctx) {
					round++
					k.report(ctx, round)
				}
			}
		}
	}
}

// handleExits looks after the resources whose processes have exited, and reports whether there were any.
func (k *keeper) handleExits(ctx context.Context) bool {
	dead := k.deaths.Take()
	for resource, d := range dead {
		if ctx.Err() == nil && !k.keep(ctx, d, resource) {
			k.deaths.Postpone(resource)
		}
	}
	return len(dead) > 0
}

// scan scans all resources once.
func (k *keeper) scan(ctx context.Context) {
	there := make(map[writ.ResourceID]bool)
	var used []journal.Use
	for _, d := range k.drivers {
		keeping, keeps := d.(sal.Keeper)
		metered, meters := d.(sal.Metered)
		if !keeps && !meters {
			continue
		}
		resources, err := asked(ctx, &k.calls, "list "+d.Describe().Module, readFor, d.List)
		if err != nil {
			k.log.WarnContext(ctx, "list the resources of a driver", "driver", d.Describe().Name, "err", err)
			k.stillThere(there, d.Describe().Module)
			continue
		}
		for _, resource := range resources {
			if ctx.Err() != nil {
				return
			}
			there[resource] = true
			k.handleExits(ctx)
			if keeps {
				k.keep(ctx, keeping, resource)
			}
			if meters {
				used = append(used, k.meter.scan(ctx, metered, resource)...)
			}
		}
	}
	maps.DeleteFunc(k.drifts, func(r writ.ResourceID, _ writ.ResourceDrift) bool { return !there[r] })
	k.repairs.keepOnly(there)
	k.states.MarkGone(there)
	k.remnants.measure(ctx, k)
	k.meter.commit(ctx, used)
}

// stillThere marks the known resources of a module as present, because they cannot be listed at the moment.
func (k *keeper) stillThere(there map[writ.ResourceID]bool, module string) {
	for _, known := range []iter.Seq[writ.ResourceID]{
		maps.Keys(k.drifts), slices.Values(k.repairs.resources()), k.states.Resources(),
	} {
		for r := range known {
			if string(r.Kind) == module {
				there[r] = true
			}
		}
	}
}

// keep calls the driver's Keep for one resource and returns true. If a job or a transfer holds the resource, keep
// changes nothing and returns false. A driver that ignores its deadline keeps the resource locked; keep does not wait
// for it.
func (k *keeper) keep(ctx context.Context, d sal.Keeper, resource writ.ResourceID) bool {
	lock := k.locks.Try(resource)
	if lock == nil {
		return false
	}
	type answer struct {
		drift []sal.Drift
		uid   writ.UID
	}
	a, err := asked(ctx, &k.calls, "keep "+resource.HostName(), keepFor, func(ctx context.Context) (a answer, err error) {
		defer lock.Release()
		a.drift, err = d.Keep(ctx, resource)
		// Observe is called even after an error, because the report needs the UID: the datacenter identifies the
		// resource by it.
		seen, unseen := d.Observe(ctx, resource)
		a.uid = seen.UID
		if seen.Exists || err == nil && unseen == nil { // otherwise the state is unknown
			k.states.Note(hosted.StateOf(resource, seen)) // under the lock, so that no operation runs in between
		}
		k.deaths.Watch(d, resource)
		return a, cmp.Or(err, unseen)
	})
	if errors.Is(err, errNotAsked) {
		lock.Release() // the function with the deferred Release was not called
	}
	if ctx.Err() == nil {
		k.note(ctx, resource, cmp.Or(a.uid, k.drifts[resource].UID), a.drift, err)
	}
	return true
}

// note records the findings of a scan of one resource.
func (k *keeper) note(ctx context.Context, resource writ.ResourceID, uid writ.UID, drift []sal.Drift, err error) {
	var mended []string
	found := writ.ResourceDrift{ResourceID: resource, UID: uid}
	for _, d := range drift {
		if d.Mended {
			k.log.InfoContext(ctx, "resource repaired", "resource", resource.String(), "was", d.What)
			mended = append(mended, d.What)
		} else {
			found.Lasts = append(found.Lasts, clip.OneLine(d.What, maxSentence))
		}
	}
	if err != nil {
		found.Lasts = append(found.Lasts, clip.OneLine("maintenance failed: "+err.Error(), maxSentence))
	}
	before := k.drifts[resource]
	if !slices.Equal(found.Lasts, before.Lasts) && len(found.Lasts) > 0 {
		k.log.WarnContext(ctx, "resource differs from its spec", "resource", resource.String(), "drift", found.Lasts)
	}
	if len(mended) > 0 && uid != "" { // a resource without a UID is unknown to the datacenter
		k.repairs.add(resource, uid, strings.Join(mended, "; "), k.now())
	}
	delete(k.drifts, resource)
	if len(found.Lasts) > 0 {
		k.drifts[resource] = found
	}
}

// report sends the supervisor all unacknowledged findings. If the report is lost, the next report contains them.
func (k *keeper) report(ctx context.Context, round int64) {
	r := &writ.Report{
		Findings: writ.Findings{Orphans: k.orphans(ctx), Network: k.network(ctx), Disks: k.disks(ctx)},
		Node:     k.node, Incarnation: k.number, Round: round, Epoch: k.epochs.highest(), Clock: k.now().UnixMilli(),
	}
	for _, resource := range slices.SortedFunc(maps.Keys(k.drifts), writ.ResourceID.Compare) {
		if len(r.Drifts) < maxFound {
			r.Drifts = append(r.Drifts, k.drifts[resource])
		}
	}
	r.States = k.states.Unacked(round, k.epochs.highest(), maxFound)
	r.Mendings, r.Mended = k.repairs.unacked(round)
	if (round-1)%usageEvery == 0 {
		r.Usage = k.usage(ctx, round)
	}
	k.log.DebugContext(ctx, "findings reported", "round", round, "mended", r.Mended, "drifted", len(k.drifts),
		"orphans", len(r.Orphans))
	_ = k.link.send(failpoint.At(ctx, failpoint.ReportSent), envelope.Report, r) // failures are logged by send
}

// usage returns the unacknowledged usage of resources.
func (k *keeper) usage(ctx context.Context, round int64) []writ.Usage {
	usage, versions, err := k.journal.Usage.Unacknowledged(ctx, maxFound)
	if k.store.note(ctx, err) != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sentRound, k.sent = round, versions // if the previous report was lost, this one contains its rows again
	return usage
}

// acknowledge records that the supervisor received a report.
func (k *keeper) acknowledge(ctx context.Context, t writ.ReportID) {
	if t.Incarnation != k.number {
		return
	}
	var versions []journal.Version
	k.mu.Lock()
	if t.Round == k.sentRound {
		versions, k.sent = k.sent, nil
	}
	k.states.Acknowledged(t.Round)
	k.mu.Unlock()
	k.repairs.acknowledge(t.Round)
	if len(versions) > 0 {
		// If this fails, a later report contains the rows again.
		_ = k.store.note(ctx, k.journal.Usage.Acknowledge(context.WithoutCancel(ctx), versions))
	}
}

// networkFor limits how long a driver reads the status of networks. Another client may block the daemon of the overlay
// for longer.
const networkFor = 5 * time.Second

// network returns the status of networks, or nil if no driver provides it. After an error it returns the last known
// status.
func (k *keeper) network(ctx context.Context) *writ.NodeNetwork {
	for _, d := range k.drivers {
		networked, ok := d.(sal.Networked)
		if !ok {
			continue
		}
		status, err := asked(ctx, &k.calls, "network", networkFor, networked.Network)
		if err == nil {
			k.networked = &status
			return &status
		}
		k.log.WarnContext(ctx, "read the status of networks", "driver", d.Describe().Name, "err", err)
		return k.networked
	}
	return nil
}

// orphans asks all drivers for objects without a resource.
func (k *keeper) orphans(ctx context.Context) []writ.Orphan {
	var all []writ.Orphan
	for _, d := range k.drivers {
		keeping, ok := d.(sal.Keeper)
		if !ok {
			continue
		}
		module := d.Describe().Module
		found, err := asked(ctx, &k.calls, "orphans "+module, readFor, keeping.Orphans)
		if err != nil {
			k.log.WarnContext(ctx, "find the orphans of a driver", "driver", d.Describe().Name, "err", err)
		}
		for _, o := range found {
			all = append(all, orphanOf(module, o, maxRemedy))
		}
	}
	slices.SortFunc(all, byRank)
	return all[:min(len(all), maxFound)]
}

// orphanOf returns the report of an orphan. It omits a remedy of more than longest bytes.
func orphanOf(module string, o sal.Orphan, longest int) writ.Orphan {
	orphan := writ.Orphan{
		Module: module, Kind: clip.OneLine(o.Kind, maxSentence), Name: clip.OneLine(o.Name, maxSentence),
		Of: clip.OneLine(o.Of, maxSentence),
	}
	if isCommand(o.Remedy, longest) { // a truncated or altered command could do harm
		orphan.Remedy = o.Remedy
	}
	return orphan
}

// isCommand reports whether a line can be sent and shown unchanged.
func isCommand(line string, longest int) bool {
	return len(line) <= longest && utf8.ValidString(line) && !strings.ContainsFunc(line, unicode.IsControl)
}

// byRank orders orphans by module, and within a module in the best order of removal.
func byRank(a, b writ.Orphan) int {
	return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name))
}

// kindProcess is the kind of an orphan that is a running process.
const kindProcess = "process"

// rank orders orphans for removal: processes come first, because they use the other orphans.
func rank(o writ.Orphan) int {
	if o.Kind == kindProcess {
		return 0
	}
	return 1
}
