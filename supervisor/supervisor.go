// Package supervisor is one datacenter: it verifies what people signed, evaluates scripts as durable workflows, places their calls on
// nodes, sends signed jobs, collects signed results and watches over all of it. Its journal is the truth; queue, coordinators and
// nodes are believed only as far as a signature proves it. It must not know the HTTP API for people, nor the tools on hosts.
//
// A run advances in steps, one at a time (step.go): what came in for it is taken, a pass of its script says which calls come next
// (package scripts), these are claimed (claim.go), placed (place.go) and sent (send.go), all in one transaction. The collector
// (collect.go) and the watch (watch.go) bring what nodes say and what they do not say any more.
package supervisor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/internal/fair"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/scripts"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/outbox"
	"writ/supervisor/program"
	"writ/supervisor/ratelog"
	"writ/supervisor/workflow"
)

// Config is what a supervisor is made of. All fields are required unless they say otherwise.
type Config struct {
	Datacenter writ.DatacenterID
	Pin        writ.ClusterID     // what its roster must descend from
	Key        ed25519.PrivateKey // the roster names its public half
	Journal    *journal.Journal
	// Protected says that the journal is known to carry authentication codes: then rows without one are refused. Without it those of an earlier
	// version are given theirs, unless the journal shows that this was done before.
	Protected bool
	// ProtectedValues says likewise that values that decide something carry codes, as those of earlier versions do not.
	ProtectedValues bool
	// Adopted is told of each roster that comes into force, so that somebody keeps it where the database cannot take it away; it may be nil.
	// Its error is logged.
	Adopted   func(signed []byte) error
	Queue     queue.Queue
	Accounts  queue.Accounts // of nodes at the queue; nil if it has none
	Evaluator scripts.Evaluator
	// Coordinators are addresses to keep a link to, besides those of the roster; none is possible: work that is here goes on.
	Coordinators []string
	// MaxOpenRuns is how many runs of a project may be open at a time; DefaultMaxOpenRuns if 0.
	MaxOpenRuns int
	// MaxOpenCalls is how many calls of a project may be open before its next run is refused; DefaultMaxOpenCalls if 0.
	MaxOpenCalls int
	// KeepRuns is how long a run is kept after its end; DefaultKeepRuns if 0. One whose submission or resume could still come is kept in any case.
	KeepRuns time.Duration
	// Weights says, by the names of projects, how much of what is scarce each gets, compared with others that want some: CPU time of the
	// evaluator, and room on nodes. It is 1 for those that are missing.
	Weights map[string]int
	// OlderRunners gives runners accounts at the queue that bring their own scripts there, with which a node can stop it. Any node can say that its
	// runner is one.
	OlderRunners bool
	// Backoff is how long to wait after the failure of the n-th attempt, from 1. If nil it doubles from a second to a minute, with jitter.
	// A minute is the most that is possible.
	Backoff func(attempt int) time.Duration
	// Now is the wall clock, time.Now if nil: it may be set at any time, forward and back. What is measured from one moment to another is
	// not read from it.
	Now func() time.Time
	// Held has the datacenter on hold from the start on, until people release it.
	Held bool
	// Marks keeps beside the key how far the journal has come; nil notices less when a journal comes from a backup.
	Marks Marks
	// Certificates are those of the datacenter; nil if nobody asks for any.
	Certificates Certificates
	// DialWith is how coordinators are reached, and verified; as the system does it if nil.
	DialWith *link.HTTPClient
	Version  string // of the program
	Log      *slog.Logger
}

// Supervisor serves one datacenter. Make it with Open, then call Run.
type Supervisor struct {
	Config
	epoch         int64
	roster        atomic.Pointer[identity.Roster]
	forks         chain.Forks // of the roster, that were logged
	adopting      sync.Mutex  // one roster at a time comes into force
	former        formerAddresses
	relink        chan struct{} // holds one if the coordinators of the roster may have changed
	unchecked     chan struct{} // holds one if a roster came into force since the last look for runs to check
	fleet         *fleet
	steps         *mailbox.Scheduler
	freed         *freedNodes
	view          *workflow.View
	advancer      *workflow.Advancer
	shares        *shares
	outbox        *outbox.Outbox
	programs      *program.Store
	refused       *refusedTexts
	checks        *checks
	opened        *openWork
	greeted       *greetings
	pending       *pendingNodes
	batches       *batches
	secrets       *keyring
	accounts      *accounts
	inventories   *inventories
	holds         *hold.Decisions
	heldTold      atomic.Int64 // number of changes of holds that all open runs know
	boots         *boots
	unknownEpochs unknownEpochs
	faults        *faults
	warnings      *ratelog.Log
	refusals      limit.Lines // that are said, by signer and code, or by code alone
	previews      fair.Slots  // of previews under way, by project
	checking      fair.Slots  // of scripts that are being checked, by project
	reports       *reports
	beats         limit.Names // that are heard, by node
	hosts         limit.Names // likewise, of what nodes say of their machines
	nodeLogs      *nodeLogs
	rounds        atomic.Int64 // of the collector: so often it has heard all that had come
	counts        counts
	seen          atomic.Pointer[seen] // by the watch, last
	dialers       dialers
}

// Open makes a supervisor from its journal and takes a new epoch. It is journal.ErrHeld while another supervisor has the lease. rosters are
// signed rosters from outside, oldest first; they are needed when the journal is new, and otherwise adopted if they are newer. The
// datacenter must be in the newest with this key. Open runs that need an engine which this program does not have are an ENGINE_UNSUPPORTED
// error; the journal is then as it was.
func Open(ctx context.Context, config Config, rosters [][]byte) (*Supervisor, error) {
	s := &Supervisor{
		Config: config, refused: newRefusedTexts(), checks: newChecks(),
		greeted: newGreetings(), pending: newPendingNodes(), secrets: newKeyring(config.Pin, config.Datacenter, config.Key), boots: newBoots(),
		faults: &faults{log: config.Log}, warnings: ratelog.New(config.Log), reports: newReports(),
		beats:    limit.Names{PerSecond: beatsPerSecond, AtOnce: beatsAtOnce},
		hosts:    limit.Names{PerSecond: hostsPerSecond, AtOnce: hostsAtOnce},
		nodeLogs: newNodeLogs(),
		previews: fair.Slots{Size: maxPreviews, Most: 1}, checking: fair.Slots{Size: maxChecking, Most: 1}, unchecked: make(chan struct{}, 1), relink: make(chan struct{}, 1),
	}
	if s.Backoff == nil {
		s.Backoff = workflow.Backoff
	}
	if s.KeepRuns <= 0 {
		s.KeepRuns = DefaultKeepRuns
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.programs = program.New(program.Config{
		Datacenter: s.Datacenter, Journal: s.Journal, Evaluator: s.Evaluator, Roster: s.roster.Load, Verifier: s.verifier, RosterText: s.rosterText,
		Passed: s.counts.notePass, Refusals: &s.refusals, Now: s.Now, Log: s.Log,
	})
	s.Journal.SetClock(s.Now)
	if err := s.protect(); err != nil {
		return nil, err
	}
	s.steps, s.freed = mailbox.New(func(ctx context.Context, run writ.RunID, m mail.Mail) error { return s.advancer.Step(ctx, run, m) }, config.Log), newFreedNodes()
	s.holds = hold.New(s.datacenterName)
	if err := s.canRunAll(ctx); err != nil {
		return nil, err
	}
	mark, err := s.readMark(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the journal with the mark beside the key: %w", err)
	}
	if s.epoch, err = s.Journal.BeginEpoch(ctx, s.Now()); err != nil {
		return nil, fmt.Errorf("begin epoch: %w", err)
	}
	s.outbox = outbox.New(outbox.Config{Key: s.Key, Epoch: s.epoch, Queue: s.Queue, Warnings: s.warnings, Post: s.steps.Post})
	if mark.Restored {
		if err := s.Marks.Heard(); err != nil {
			return nil, errors.Join(fmt.Errorf("note that the journal is known to come from a backup: %w", err), s.Journal.Release(context.WithoutCancel(ctx)))
		}
	}
	if err = s.loadRosters(ctx, rosters); err == nil {
		err = s.inRoster(s.roster.Load())
	}
	if err == nil {
		err = s.countOpenWork(ctx)
	}
	if err == nil {
		s.fleet, err = loadFleet(ctx, s.Journal, s.Now())
	}
	if err == nil {
		s.batches, err = loadBatches(ctx, s.Journal)
	}
	if err == nil {
		err = s.restoreFloor(ctx)
	}
	if err == nil {
		err = s.loadHolds(ctx)
	}
	if err == nil {
		err = s.holdAtStart(ctx, mark)
	}
	if err != nil {
		return nil, errors.Join(err, s.Journal.Release(context.WithoutCancel(ctx)))
	}
	s.accounts = newAccounts(s)
	s.wireSteps()
	return s, nil
}

// wireSteps connects the steps of runs with what they know and do.
func (s *Supervisor) wireSteps() {
	s.shares = &shares{fleet: s.fleet, steps: s.steps, roster: s.roster.Load, weights: s.Weights}
	s.inventories = newInventories(s.fleet, s.Journal.ReconcilesUntil)
	s.view = &workflow.View{
		Site:  workflow.Site{Datacenter: s.Datacenter, Cluster: s.Pin, Key: s.Key, Epoch: s.epoch, Backoff: s.Backoff},
		Nodes: s.fleet, Backlog: s.fleet, Holds: s.holds, Shares: s.shares, Secrets: s.secrets, Inventories: s.inventories,
	}
	s.advancer = workflow.NewAdvancer(workflow.AdvancerConfig{
		Journal: s.Journal, View: s.view, Outbox: s.outbox, Mailbox: s.steps, Programs: s.programs, Quota: s.opened, Freed: s.freed.add,
		Unasked: func(node writ.NodeID, results int) { s.accounts.countUseless(node, unasked, results) },
		Ended: func(run writ.RunID) {
			s.programs.Forget(run)
			s.inventories.forget(run)
		},
		Now: s.Now, Log: s.Log, Warnings: s.warnings,
	})
	s.steps.Owners, s.steps.Drop = s.advancer.Owners, s.advancer.Drop
}

// datacenterName returns the name of the datacenter in the newest roster, else its ID.
func (s *Supervisor) datacenterName() string {
	if dc := s.roster.Load().Datacenter(s.Datacenter); dc != nil {
		return dc.Name
	}
	return string(s.Datacenter)
}

// Epoch returns the number that fences this supervisor off from the ones before it.
func (s *Supervisor) Epoch() int64 { return s.epoch }

// Roster returns the newest roster that the supervisor has adopted.
func (s *Supervisor) Roster() *identity.Roster { return s.roster.Load() }

// Run serves the datacenter until ctx ends; then it gives the lease back and returns nil. If another supervisor has taken over it is
// journal.ErrFenced. Everything that is open goes on when it is run again.
func (s *Supervisor) Run(ctx context.Context) error {
	s.announce(ctx)
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return s.reign(working) })
	group.Go(func() error { return s.steps.Run(working) })
	group.Go(func() error { return s.outbox.Run(working) })
	group.Go(func() error { return s.outbox.RunAcks(working) })
	group.Go(func() error { return s.offerRooms(working) })
	group.Go(func() error { return s.wakeOpenRuns(working) })
	group.Go(func() error { return s.recheckRuns(working) })
	group.Go(func() error { return s.collect(working) })
	group.Go(func() error { return s.applyReports(working) })
	group.Go(func() error { return s.watch(working) })
	group.Go(func() error { return s.accounts.keep(working) })
	group.Go(func() error { return s.forget(working) })
	group.Go(func() error { return s.keepMark(working) })
	group.Go(func() error { return s.warnOfEnds(working) })
	group.Go(func() error { return s.keepLinks(working) })
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer stop()
	if err := s.Journal.Release(ending, s.keepOnline); err != nil {
		s.Log.Warn("release the lease; a standby waits for its end", "err", err)
	}
	return nil
}

// wakeWithin is how long a supervisor tries to read which runs are open before it ends: whoever looks after it starts it again.
const wakeWithin = time.Minute

// wakeOpenRuns lets the runs that were open when the last supervisor ended go on. A database that restarts meanwhile only delays that.
func (s *Supervisor) wakeOpenRuns(ctx context.Context) error {
	for began := time.Now(); ; {
		err := s.wakeOnce(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case time.Since(began) > wakeWithin:
			return fmt.Errorf("list open runs: %w", err)
		}
		s.warnings.Warn("", "continue open runs; trying again", "err", err)
		_ = sleep.For(ctx, watchEvery)
	}
}

// wakeOnce wakes the runs that were not evaluated up to where they are, and those that may wait for a node that was removed. What was out at
// nodes is delivered again, under the new epoch: nodes know what they have done. All others wait for what the watch finds.
func (s *Supervisor) wakeOnce(ctx context.Context) error {
	var pending []writ.RunID
	var sent []*journal.Call
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if pending, err = tx.PendingRuns(); err != nil {
			return err
		}
		ahead, err := tx.RunsStampedAfter(tx.Now.Add(workflow.BackoffMost)) // by a clock that was set back since
		if err != nil {
			return err
		}
		pending = append(pending, ahead...)
		for _, n := range s.fleet.List() {
			if n.Admission != writ.AdmissionRemoved {
				continue
			}
			left, err := tx.RunsOn(n.ID)
			if err != nil {
				return err
			}
			pending = append(pending, left...)
		}
		sent, err = tx.SentCalls()
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range sent {
		s.steps.Post(c.Run, mail.Mail{Resend: []mail.Delivery{mail.DeliveryOf(c)}})
	}
	for _, id := range pending {
		s.steps.Post(id, mail.Mail{})
	}
	if len(pending)+len(sent) > 0 {
		s.Log.Info("open runs continue", "runs_to_evaluate", len(pending), "calls_sent_again", len(sent), "epoch", s.epoch)
	}
	return nil
}
