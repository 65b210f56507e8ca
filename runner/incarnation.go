package runner

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/limit"
	"writ/internal/logring"
	"writ/internal/sleep"
	"writ/runner/hardware"
	"writ/runner/journal"
	"writ/runner/member"
	"writ/runner/queue"
	"writ/sal"
	"writ/supervisor/nodes"
)

// pruneEvery is the interval at which expired records are deleted.
const pruneEvery = 10 * time.Minute

// incarnation is one start of a runner, with all of its state in memory.
type incarnation struct {
	*base
	queue   queue.Queue
	drivers map[string]sal.Driver
	about   []writ.NodeDriver
	slots   int
	grace   time.Duration

	capacity writ.Capacity
	version  string

	transfers *Transfers // nil if other nodes cannot fetch from this node

	desk      *desk
	jobs      *jobs
	outbox    *outbox
	acks      acks
	questions questions
	logs      *logAnswers
	keeper    *keeper
	loads     *loads
	stopping  atomic.Bool
	standing  *standing

	stopWork context.CancelCauseFunc
}

// base holds the state that the parts of an incarnation share.
type base struct {
	member *member.Member
	api    nodes.Backend
	node   writ.NodeID
	now    func() time.Time // wall clock
	log    *slog.Logger
	lines  limit.Lines // limits repeated log lines about messages from the network
	counts *counts

	number int64 // see journal.Begin
	boot   string

	journal *journal.Journal
	store   *nodeStore
	link    *link
	epochs  *epochs
	rosters *rosterWatch
}

// drop counts and logs an ignored message.
func (n *base) drop(ctx context.Context, what, id string, err error) {
	code := writ.CodeOf(err)
	n.counts.drops.WithLabelValues(what, string(code.Info().Code)).Inc()
	// Rate-limited, because an attacker with access to Redis can send any number of messages.
	if times, say := n.lines.Say(what+" "+string(code), time.Now()); say {
		n.log.WarnContext(ctx, "dropped a "+what, "id", clip.OneLine(id, maxSentence), "code", code, "err", err, "times", times)
	}
}

// supervisorKey returns the key of an envelope's signer. An unknown key may belong to a roster that the node does not
// have yet, so supervisorKey then requests newer rosters.
func (n *base) supervisorKey(id envelope.KeyID) (ed25519.PublicKey, error) {
	key, err := n.member.SupervisorKey(id)
	if err != nil {
		n.rosters.want(0)
	}
	return key, err
}

// newBase returns the shared part of an incarnation.
func (r *Runner) newBase(log *slog.Logger) *base {
	log = log.With("dc", r.Member.Datacenter(), "node", r.Member.Node())
	b := &base{
		member: r.Member, api: r.API, node: r.Member.Node(), journal: r.Journal, now: r.Now, log: log,
		counts: r.counters(), boot: logring.Boot(), rosters: newRosterWatch(r.Member, r.API),
		store: &nodeStore{journal: r.Journal, log: log}, link: &link{member: r.Member, queue: r.Queue, log: log},
	}
	b.epochs = &epochs{store: b.store}
	if b.now == nil {
		b.now = time.Now
	}
	return b
}

// begin loads the state that earlier incarnations left.
func (r *Runner) begin(ctx context.Context, drivers map[string]sal.Driver, log *slog.Logger) (*incarnation, error) {
	n := &incarnation{
		base: r.newBase(log), queue: r.Queue, drivers: drivers,
		slots: cmp.Or(r.Slots, DefaultSlots), grace: cmp.Or(r.Grace, DefaultGrace),
		version: r.Version, transfers: r.Transfers,
		desk: &desk{active: map[writ.JobKey]*work{}},
	}
	n.standing = &standing{base: n.base, known: make(chan struct{})}
	n.logs = &logAnswers{base: n.base, stored: r.NodeLog, asked: make(chan nodes.LogQuery, maxLogAsked)}
	n.outbox = newOutbox(n.link.sendResults)
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
	if n.number, err = n.journal.Begin(ctx, r.Member.Node()); err != nil {
		return nil, fmt.Errorf("record the start: %w", err)
	}
	epoch, err := n.journal.Epoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the epoch: %w", err)
	}
	n.epochs.seen.Store(max(epoch, r.Member.State().Epoch))
	n.epochs.kept.Store(n.epochs.highest())
	if n.desk.cancelled, err = n.journal.Cancels.All(ctx); err != nil {
		return nil, fmt.Errorf("read the cancelled runs: %w", err)
	}
	readings, err := n.journal.Usage.Readings(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the usage of resources: %w", err)
	}
	n.keeper = newKeeper(n.base, drivers, readings)
	n.keeper.logs, n.keeper.host, n.keeper.diskList = n.logs, r.Host, r.Disks
	n.loads = newLoads(n.base, drivers)
	open, err := n.journal.Unacknowledged(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the results that were not acknowledged: %w", err)
	}
	for _, u := range open {
		n.outbox.post(u.Result, u.Until)
	}
	n.jobs, n.stopWork = r.newJobs(ctx, n)
	return n, nil
}

// prune deletes expired records every pruneEvery.
func (n *incarnation) prune(ctx context.Context) {
	for {
		now := n.now()
		n.desk.forget(now)
		// A failure is logged by note; the next round retries.
		_ = n.store.note(ctx, n.journal.Prune(context.WithoutCancel(ctx), now))
		if sleep.For(ctx, pruneEvery) != nil {
			return
		}
	}
}

// newJobs returns the jobs of an incarnation. The returned function cancels them.
func (r *Runner) newJobs(ctx context.Context, n *incarnation) (*jobs, context.CancelCauseFunc) {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	a := &acts{base: n.base, desk: n.desk, outbox: n.outbox, keeper: n.keeper, record: r.Record, working: working}
	return &jobs{
		base: n.base, acts: a, drivers: n.drivers, slots: n.slots, peers: r.Peers,
		opener: &envelope.Opener{Keys: n.supervisorKey}, desk: n.desk, locks: n.keeper.locks,
		slotPool: newSlotPool(n.slots), outbox: n.outbox, keeper: n.keeper, working: working,
		permits: &permits{
			member: r.Member, api: r.API, now: n.now, refresh: n.rosters.refresh, say: n.desk.say,
			seen: map[writ.Digest]*permit{}, asking: map[writ.Digest]chan struct{}{},
		},
	}, stop
}
