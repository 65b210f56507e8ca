package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/sleep"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/sal"
	"writ/supervisor/nodes"
)

// A person can sign that a node is lost. The node is then removed, and its resources may be created again on other
// nodes. When the node learns of this, it stops its resources and reports this to the supervisor. It retries until all
// of them have stopped, and then exits. It accepts no other work, even after a restart. Data is kept.

const (
	// fenceEvery is the retry interval for resources that could not be stopped and reports that could not be sent.
	fenceEvery = 10 * time.Second
	// fenceFor limits a driver's time for one resource.
	fenceFor = 2 * time.Minute
	// fenceAtOnce is the number of resources that are stopped in parallel.
	fenceAtOnce = 16
	// longestRemedy limits each command in an answer, in bytes, because an answer may contain many commands.
	longestRemedy = 300
)

// fence stops the resources of a removed node.
type fence struct {
	member  *member.Member
	api     nodes.Backend
	journal *journal.Journal
	drivers []sal.Driver
	now     func() time.Time
	log     *slog.Logger
	// acting lists drivers of this process that ignore their deadline and may still act, as sentences.
	acting func() []string

	asking calls // driver calls that have not returned
}

// retire completes the removal of a node from its datacenter. It asks the supervisor whether a person has signed that
// the node is lost. If so, it stops all resources. insist is set if the datacenter was reachable a moment ago; retire
// then repeats the question until the supervisor answers. It returns at the latest when ctx ends.
func (f *fence) retire(ctx context.Context, insist bool) {
	for ctx.Err() == nil && !f.member.State().FenceOrdered {
		switch err := member.LearnFence(ctx, f.member, f.api); {
		case err == nil:
		case writ.CodeOf(err) == writ.CodeNotFound:
			return
		case writ.AsError(err).Decided():
			f.log.ErrorContext(ctx,
				"supervisor declares this node lost without a valid signature of a person: machines, containers and databases keep running", "err", err)
			return
		case !insist || sleep.For(ctx, member.AskEvery) != nil:
			return
		}
	}
	if ctx.Err() != nil || f.member.State().Fenced {
		return
	}
	f.log.WarnContext(ctx,
		"node declared lost by a person: stopping all machines, containers and databases; volumes are kept")
	for ctx.Err() == nil {
		if f.round(ctx) {
			f.log.InfoContext(ctx, "all resources are stopped, and the datacenter is informed")
			return
		}
		_ = sleep.For(ctx, fenceEvery)
	}
}

// round stops all resources that it can and reports to the supervisor. It returns true if all have stopped and the
// supervisor has the report.
func (f *fence) round(ctx context.Context) (done bool) {
	answer := f.stop(ctx)
	if ctx.Err() != nil {
		return false
	}
	if len(answer.Open) > 0 {
		f.log.WarnContext(ctx, "some resources still run", "open", answer.Open)
	}
	err := f.report(ctx, answer)
	if err == nil && len(answer.Open) == 0 {
		err = f.member.Change(func(r *member.Record) { r.Fenced = true })
		done = err == nil
	}
	if err != nil && ctx.Err() == nil {
		f.log.WarnContext(ctx, "report stopped resources; trying again", "err", err)
	}
	return done
}

// report signs the answer of the node and sends it to the supervisor.
func (f *fence) report(ctx context.Context, answer *nodes.FenceAnswer) error {
	if err := f.member.Change(func(r *member.Record) { r.FenceRound++ }); err != nil {
		return err
	}
	answer.Node, answer.Datacenter = f.member.Node(), f.member.Datacenter()
	answer.Round, answer.Clock = f.member.State().FenceRound, f.now().UnixMilli()
	signed, err := envelope.Sign(envelope.Fenced, f.member.PrivateKey(), answer)
	if err != nil {
		return fmt.Errorf("sign the answer to the fence order: %w", err)
	}
	return f.api.Fenced(ctx, answer.Node, signed)
}

// stop makes all drivers stop their resources and describes the remaining ones.
func (f *fence) stop(ctx context.Context) *nodes.FenceAnswer {
	answer := &nodes.FenceAnswer{Open: f.acting()}
	var mu sync.Mutex // guards answer
	var all sync.WaitGroup
	slots := make(chan struct{}, fenceAtOnce)
	for _, d := range f.drivers {
		module := d.Describe().Module
		resources, err := asked(ctx, &f.asking, "list "+module, readFor, d.List)
		if err != nil {
			mu.Lock()
			answer.Open = append(answer.Open,
				fmt.Sprintf("the driver of %s cannot list its resources: %v", module, err))
			mu.Unlock()
			continue
		}
		for _, resource := range resources {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				stopped, open, kept := f.stopOne(ctx, d, resource)
				mu.Lock()
				defer mu.Unlock()
				answer.Stopped, answer.Kept = append(answer.Stopped, stopped...), append(answer.Kept, kept...)
				if open != "" {
					answer.Open = append(answer.Open, open)
				}
			})
		}
	}
	all.Wait()
	f.addUnrecorded(ctx, answer)
	f.addUnacked(ctx, answer)
	slices.SortFunc(answer.Stopped, func(a, b nodes.FencedResource) int { return a.Compare(b.ResourceID) })
	slices.SortFunc(answer.Kept, byRank)
	slices.Sort(answer.Open)
	answer.Stopped, answer.Kept = answer.Stopped[:min(len(answer.Stopped),
		nodes.MaxFenced)], answer.Kept[:min(len(answer.Kept), nodes.MaxFenced)]
	answer.Open = answer.Open[:min(len(answer.Open), nodes.MaxFenced)]
	for i := range answer.Open {
		answer.Open[i] = clip.OneLine(answer.Open[i], maxSentence)
	}
	return answer
}

// stopOne stops one resource if its driver supports that, and describes the remains. open is the error if the resource
// could not be stopped, or "".
func (f *fence) stopOne(ctx context.Context, d sal.Driver, resource writ.ResourceID) (stopped []nodes.FencedResource,
	open string, kept []writ.Orphan) {
	if fencing, ok := d.(sal.Fencing); ok {
		_, err := asked(ctx, &f.asking, "fence "+resource.HostName(), fenceFor,
			func(ctx context.Context) (struct{}, error) {
				return struct{}{}, fencing.Fence(ctx, resource)
			})
		if err != nil {
			return nil, fmt.Sprintf("the %s cannot be stopped: %v", resource, err), nil
		}
	}
	seen, err := asked(ctx, &f.asking, "see "+resource.HostName(), readFor,
		func(ctx context.Context) (sal.Observation, error) { return d.Observe(ctx, resource) })
	if _, ok := d.(sal.Fencing); ok {
		stopped = []nodes.FencedResource{{ResourceID: resource, UID: seen.UID}}
	}
	if err != nil || seen.Exists {
		kept = []writ.Orphan{superseded(d.Describe().Module, resource, seen)}
	}
	return stopped, "", kept
}

// superseded describes the remains of a resource that may exist on another node by now.
func superseded(module string, resource writ.ResourceID, seen sal.Observation) writ.Orphan {
	o := writ.Orphan{
		Module: module, Kind: writ.OrphanSuperseded + " " + string(resource.Kind), Name: resource.Name,
		Of: resource.HostName(),
	}
	if path, _ := seen.Values["path"].(string); path != "" {
		o.Name = clip.OneLine(path, maxSentence)
		if remedy := sal.Command("rm", "-r", path); isCommand(remedy, longestRemedy) {
			o.Remedy = remedy
		}
	}
	return o
}

// addUnrecorded adds objects on the host that follow the naming scheme of a driver but have no record. Processes among
// them count as still running.
func (f *fence) addUnrecorded(ctx context.Context, answer *nodes.FenceAnswer) {
	for _, d := range f.drivers {
		keeping, ok := d.(sal.Keeper)
		if !ok {
			continue
		}
		module := d.Describe().Module
		found, err := asked(ctx, &f.asking, "orphans "+module, readFor, keeping.Orphans)
		if err != nil {
			answer.Open = append(answer.Open,
				fmt.Sprintf("the driver of %s cannot find objects without a record: %v", module, err))
		}
		for _, o := range found {
			answer.Kept = append(answer.Kept, orphanOf(module, o, longestRemedy))
			if o.Kind == kindProcess {
				answer.Open = append(answer.Open,
					fmt.Sprintf("the process %s has no record; end it: %s", o.Name, o.Remedy))
			}
		}
	}
}

// addUnacked adds the keys of unacknowledged results. They serve as evidence only.
func (f *fence) addUnacked(ctx context.Context, answer *nodes.FenceAnswer) {
	results, err := f.journal.Unacknowledged(ctx)
	if err != nil {
		f.log.WarnContext(ctx, "read unacknowledged results", "err", err)
		return
	}
	for _, u := range results[:min(len(results), nodes.MaxFenced)] {
		answer.Results = append(answer.Results, u.Result.JobKey)
	}
}

// fence returns the fence of this node. n is the incarnation that served in this process, or nil.
func (r *Runner) fence(drivers map[string]sal.Driver, n *incarnation, log *slog.Logger) *fence {
	f := &fence{
		member: r.Member, api: r.API, journal: r.Journal, now: time.Now,
		log:    log.With("dc", r.Member.Datacenter(), "node", r.Member.Node()),
		acting: func() []string { return nil },
	}
	if r.Now != nil {
		f.now = r.Now
	}
	for _, module := range slices.Sorted(maps.Keys(drivers)) {
		f.drivers = append(f.drivers, drivers[module])
	}
	if n != nil {
		f.acting = n.acting
	}
	return f
}

// acting lists drivers that still work although all jobs were cancelled.
func (n *incarnation) acting() (all []string) {
	for _, w := range n.desk.stuck() {
		all = append(all, fmt.Sprintf("the driver of the job %s ignores its deadline", w.JobKey))
	}
	n.keeper.calls.open.Range(func(what, _ any) bool {
		all = append(all, fmt.Sprintf("a driver still has an unfinished call: %s", what))
		return true
	})
	return all
}
