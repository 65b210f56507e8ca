package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/logring"
	"writ/internal/sleep"
	"writ/internal/tracing"
	"writ/runner/hardware"
	"writ/runner/hosted"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/runner/nodelog"
	"writ/runner/queue"
	"writ/sal"
	"writ/supervisor/nodes"
)

// pruneEvery is the interval at which expired records are deleted.
const pruneEvery = 10 * time.Minute

// incarnation is one start of a runner, with all of its state in memory.
type incarnation struct {
	member  *member.Member
	api     nodes.Backend
	node    writ.NodeID
	queue   queue.Queue
	journal *journal.Journal
	drivers map[string]sal.Driver
	about   []writ.NodeDriver
	slots   int
	grace   time.Duration
	now     func() time.Time // wall clock
	log     *slog.Logger
	lines   limit.Lines // rate-limited log for events that others cause
	counts  *counts

	number   int64 // see journal.Begin
	boot     string
	capacity writ.Capacity
	remnants remnants
	version  string
	host     func() writ.Host   // may be nil
	disks    func() []writ.Disk // may be nil
	record   func(s tracing.Span)
	nodeLog  *nodelog.Log // may be nil

	peers     []netip.Prefix
	transfers *Transfers // nil if other nodes cannot fetch from this one

	opener    *envelope.Opener // opens jobs
	epoch     atomic.Int64     // highest epoch seen
	epochKept atomic.Int64     // highest epoch on disk
	desk      desk
	locks     hosted.Locks
	slotPool  *slotPool
	waiting   atomic.Int32 // jobs that wait for more of a log
	outbox    *outbox
	acks      acks
	questions questions
	logAsked  chan nodes.LogQuery
	permits   *permits
	rosters   *rosterWatch
	keeper    *keeper
	store     fault // the journal
	transit   fault // the queue
	stopping  atomic.Bool
	standing  chan struct{} // closed once the supervisor has confirmed the node's standing
	stood     sync.Once

	working  context.Context // parent of all jobs
	stopWork context.CancelCauseFunc
}

// begin loads the state that earlier incarnations left.
func (r *Runner) begin(ctx context.Context, drivers map[string]sal.Driver, log *slog.Logger) (*incarnation, error) {
	n := &incarnation{
		member: r.Member, api: r.API, node: r.Member.Node(), queue: r.Queue, journal: r.Journal, drivers: drivers,
		slots: cmp.Or(r.Slots, DefaultSlots), grace: cmp.Or(r.Grace, DefaultGrace), counts: &r.counts,
		boot: logring.Boot(), version: r.Version, host: r.Host, disks: r.Disks, nodeLog: r.NodeLog,
		logAsked: make(chan nodes.LogQuery, maxLogAsked), rosters: newRosterWatch(r.Member, r.API),
		transfers: r.Transfers, peers: r.Peers,
		record: r.Record,
	}
	if n.record == nil {
		n.record = func(tracing.Span) {}
	}
	if n.now = r.Now; n.now == nil {
		n.now = time.Now
	}
	n.log = log.With("dc", r.Member.Datacenter(), "node", n.node)
	n.opener = &envelope.Opener{Keys: n.supervisorKey}
	n.slotPool, n.standing = newSlotPool(n.slots), make(chan struct{})
	n.outbox = newOutbox(n.sendResults)
	n.permits = &permits{member: r.Member, api: r.API, now: n.now, refresh: n.rosters.refresh, say: n.desk.say,
		seen: map[writ.Digest]*permit{}, asking: map[writ.Digest]chan struct{}{}}
	for _, lacking := range r.Lacking {
		n.about = append(n.about, fit(lacking))
	}
	for _, d := range drivers {
		about := fit(d.Describe())
		if i := slices.IndexFunc(n.about, func(l writ.NodeDriver) bool { return l.Module == about.Module }); i >= 0 {
			about.Lacks = n.about[i].Lacks
			n.about[i] = about
			continue
		}
		n.about = append(n.about, about)
	}
	slices.SortFunc(n.about, func(a, b writ.NodeDriver) int { return cmp.Compare(a.Module, b.Module) })
	var err error
	if n.capacity, err = hardware.Capacity(r.Member.Dir(), r.Capacity); err != nil {
		return nil, fmt.Errorf("measure the host: %w", err)
	}
	if n.number, err = n.journal.Begin(ctx); err != nil {
		return nil, fmt.Errorf("record the start: %w", err)
	}
	epoch, err := n.journal.Epoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the epoch: %w", err)
	}
	n.epoch.Store(max(epoch, r.Member.State().Epoch))
	n.epochKept.Store(n.epoch.Load())
	n.desk.active = map[writ.JobKey]*work{}
	if n.desk.cancelled, err = n.journal.Cancels(ctx); err != nil {
		return nil, fmt.Errorf("read the cancelled runs: %w", err)
	}
	readings, err := n.journal.Readings(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the usage of resources: %w", err)
	}
	n.keeper = newKeeper(n, readings)
	open, err := n.journal.Unacknowledged(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the results that were not acknowledged: %w", err)
	}
	for _, u := range open {
		n.outbox.post(u.Result, u.Until)
	}
	n.working, n.stopWork = context.WithCancelCause(context.WithoutCancel(ctx))
	return n, nil
}

// sendResults sends results as one message with one signature.
func (n *incarnation) sendResults(ctx context.Context, results []*writ.Result) error {
	records := make([]any, len(results))
	for i, r := range results {
		records[i] = r
	}
	return n.send(failpoint.At(ctx, failpoint.ResultsSent), envelope.Result, records...)
}

// send signs records and sends them to the supervisor.
//
//failpoint:none the caller names the message
func (n *incarnation) send(ctx context.Context, kind envelope.Kind, records ...any) error {
	signed, err := envelope.Sign(kind, n.member.PrivateKey(), records...)
	if err != nil {
		return fmt.Errorf("sign %d records: %w", len(records), err)
	}
	err = n.queue.Send(ctx, queue.Stream{Node: n.node, Direction: queue.Out}, signed)
	n.noteTransit(ctx, err)
	return err
}

// noteTransit logs when the queue becomes unavailable and when it recovers, not every failure.
func (n *incarnation) noteTransit(ctx context.Context, err error) {
	if ctx.Err() != nil || !n.transit.set(err) {
		return
	}
	if err != nil {
		n.log.WarnContext(ctx, LogNoQueue, "err", err)
	} else {
		n.log.InfoContext(ctx, LogQueue)
	}
}

// noteStore stores a write failure of the journal and returns err as NODE_STORE_UNAVAILABLE. A successful write does
// not clear the failure, because small writes may fit on a full disk; only a probe clears it.
func (n *incarnation) noteStore(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if n.store.set(err) {
		n.log.ErrorContext(ctx, "write the node's journal; jobs are refused", "err", err)
	}
	e := &writ.Error{
		Code: writ.CodeNodeStore, Message: "the node cannot write its journal",
		Hint: "free disk space on the node; it continues automatically", Err: err,
	}
	if writ.CodeOf(err) == writ.CodeStoreDamaged {
		e.Message, e.Hint = "the journal of the node is damaged", journal.DamagedHint
	}
	return e
}

// probeStore checks the journal. If the last write failed, it also tries to write.
func (n *incarnation) probeStore(ctx context.Context) {
	if n.store.get() == nil {
		_ = n.noteStore(ctx, n.journal.Check(context.WithoutCancel(ctx))) // noted
		return
	}
	if err := n.noteStore(ctx, n.journal.Probe(context.WithoutCancel(ctx))); err == nil && n.store.set(nil) {
		n.log.InfoContext(ctx, "the node's journal can be written again")
	}
}

// drop counts and logs an ignored message.
func (n *incarnation) drop(ctx context.Context, what, id string, err error) {
	code := writ.CodeOf(err)
	n.counts.drops.Add(Drop{what, code.Info().Code})
	// Rate-limited: an attacker with access to Redis can send any number.
	if times, say := n.lines.Say(what+" "+string(code), time.Now()); say {
		n.log.WarnContext(ctx, "dropped a "+what, "id", clip.OneLine(id, maxSentence), "code", code, "err", err, "times", times)
	}
}

// faultText returns why the node refuses work at the moment, or "".
func (n *incarnation) faultText(now time.Time) string {
	if n.stopping.Load() {
		return errShutdown.Error()
	}
	if _, err := n.member.Trusted(now); err != nil {
		return err.Error()
	}
	if err := n.store.get(); err != nil {
		return "the node's journal cannot be written: " + err.Error()
	}
	if stuck := n.desk.stuck(); len(stuck) >= n.slots {
		return fmt.Sprintf("the drivers of %d jobs ignore their deadlines, for example that of job %s", len(stuck),
			stuck[0].JobKey)
	}
	return ""
}

// prune deletes expired records every pruneEvery.
func (n *incarnation) prune(ctx context.Context) {
	for {
		now := n.now()
		n.desk.forget(now)
		// Retried at the next round; logged by noteStore.
		_ = n.noteStore(ctx, n.journal.Prune(context.WithoutCancel(ctx), now))
		if sleep.For(ctx, pruneEvery) != nil {
			return
		}
	}
}

// fault holds a persistent error.
type fault struct {
	mu  sync.Mutex
	err error
}

// set stores the error and reports whether the fault began or ended.
func (f *fault) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := (f.err == nil) != (err == nil)
	f.err = err
	return changed
}

func (f *fault) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
