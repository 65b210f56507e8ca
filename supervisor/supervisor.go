// Package supervisor runs one datacenter. It verifies signed submissions and statements, evaluates scripts as durable
// workflows, places their calls on nodes, sends signed jobs and collects signed results. The journal is the source of
// truth. The queue, coordinators and nodes are trusted only as far as a signature proves their messages. The package
// does not depend on the HTTP API for people or on the tools on hosts.
//
// A run advances in steps, one at a time; see package workflow. A step applies the mail of the run. A pass of the
// script then returns the next calls (package scripts). The calls are claimed, placed and prepared for sending. All of
// this is written in one transaction. Package collect handles the messages of nodes. Package watch detects conditions
// that no message reports: missing beats, lost jobs and passed deadlines. This package creates the parts and connects
// them.
package supervisor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/scripts"
	"writ/supervisor/admission"
	"writ/supervisor/answers"
	"writ/supervisor/boots"
	"writ/supervisor/collect"
	"writ/supervisor/decision"
	"writ/supervisor/expiry"
	"writ/supervisor/fleet"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/links"
	"writ/supervisor/loads"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/misuse"
	"writ/supervisor/outbox"
	"writ/supervisor/preview"
	"writ/supervisor/program"
	"writ/supervisor/query"
	"writ/supervisor/quota"
	"writ/supervisor/ratelog"
	"writ/supervisor/room"
	"writ/supervisor/rosters"
	"writ/supervisor/secrets"
	"writ/supervisor/submission"
	"writ/supervisor/takeover"
	"writ/supervisor/watch"
	"writ/supervisor/workflow"
)

// DefaultKeepRuns is how long an ended run is kept, with its calls, results and log lines.
const DefaultKeepRuns = 90 * 24 * time.Hour

// releaseTime limits the release of the lease at the end.
const releaseTime = 3 * time.Second

// Config holds the settings and dependencies of a supervisor. Fields are required unless their comment makes them
// optional.
type Config struct {
	Datacenter writ.DatacenterID
	Pin        writ.ClusterID     // pin of the roster chain
	Key        ed25519.PrivateKey // private key; the roster has its public half
	Journal    *journal.Journal
	// Adopted is called with each roster that comes into force, so that the caller can store it outside the database.
	// It may be nil. Its error is logged.
	Adopted   func(signed []byte) error
	Queue     queue.Queue
	Accounts  queue.Accounts // accounts of nodes at the queue; nil if the queue has no accounts
	Evaluator scripts.Evaluator
	// Coordinators lists addresses to link to, in addition to the coordinators of the roster. Without any coordinator,
	// open work continues.
	Coordinators []string
	// MaxOpenRuns limits the open runs of a project; 0 means quota.DefaultMaxRuns.
	MaxOpenRuns int
	// MaxOpenCalls limits the open calls of a project: at the limit its next run is refused. 0 means
	// quota.DefaultMaxCalls.
	MaxOpenCalls int
	// KeepRuns is the retention time of an ended run; 0 means DefaultKeepRuns. A run is kept longer while its
	// submission or a resume could still arrive.
	KeepRuns time.Duration
	// Weights maps project names to their shares of scarce resources: CPU time of the evaluator, and room on nodes.
	// Missing projects have weight 1.
	Weights map[string]int
	// Backoff returns the pause after the failure of attempt n, from 1. If Backoff is nil, the pause doubles from one
	// second to one minute, with jitter. The maximum is one minute.
	Backoff func(attempt int) time.Duration
	// Now returns the wall clock time; nil means time.Now. The wall clock may be set forward and back at any time.
	// Durations are not measured with it.
	Now func() time.Time
	// Held puts the whole datacenter on hold at the start, until people release it.
	Held bool
	// Marks stores the progress of the journal beside the key. Without it, fewer restores of the journal from a backup
	// are detected.
	Marks takeover.Marks
	// Certificates manages the certificates of the datacenter. It may be nil.
	Certificates decision.CertificateIssuer
	// DialWith connects to coordinators and verifies them; nil means the defaults of the system.
	DialWith *link.HTTPClient
	Version  string // program version
	Log      *slog.Logger
}

// Supervisor serves one datacenter. Create it with Open, then call Run.
type Supervisor struct {
	Config
	// These parts serve the node API.
	*admission.Joins
	*admission.Directory
	*boots.Reports
	*rosters.Pages

	epoch         int64
	rosters       *rosters.Keeper
	recheck       *rosters.Recheck
	marker        *takeover.Marker
	takeover      *takeover.Takeover
	lease         *takeover.Lease
	fleet         *fleet.Fleet
	steps         *mailbox.Scheduler
	view          *workflow.View
	advancer      *workflow.Advancer
	shares        *room.Shares
	offers        *room.Offers
	outbox        *outbox.Outbox
	programs      *program.Store
	answers       *answers.Store
	standings     *answers.Standings
	records       *query.Reader
	queues        *query.Queues
	tokens        *decision.Tokens
	nodeDecisions *decision.Nodes
	holding       *decision.Holds
	certificates  *decision.Certificates
	decider       *decision.Decider
	submitter     *submission.Submitter
	previewer     *preview.Previewer
	verbs         verbTable
	links         *links.Links
	opened        *quota.Open
	admission     *admission.Site
	pending       *admission.Pending
	batches       *admission.Batches
	keyring       *secrets.Keyring
	accounts      *admission.Accounts
	inventories   *fleet.Inventories
	holds         *hold.Decisions
	misuse        *misuse.Counter // nil if the queue has no accounts
	warnings      *ratelog.Log
	refusals      limit.Lines // rate limit of logged refusals, by signer and code, or by code alone
	collector     *collect.Collector
	reports       *collect.Reports
	nodeLogs      *collect.Logs
	loads         *loads.Book
	watch         *watch.Watch
	expiry        *expiry.Records
	refused       refusals
}

// Open creates a supervisor from its journal and begins a new epoch. It returns journal.ErrHeld while another
// supervisor has the lease.
//
// outside holds signed rosters from outside the journal, oldest first. They are required for a new journal; with an
// existing journal, Open adopts the newer rosters among them. The newest roster must have the datacenter with this key.
// If open runs need an engine that this program lacks, Open returns ENGINE_UNSUPPORTED and leaves the journal
// unchanged.
func Open(ctx context.Context, config Config, outside [][]byte) (*Supervisor, error) {
	s := &Supervisor{
		Config: config, pending: admission.NewPending(),
		keyring:  secrets.NewKeyring(config.Pin, config.Datacenter, config.Key),
		warnings: ratelog.New(config.Log), refused: newRefusals(),
		marker: &takeover.Marker{Marks: config.Marks, Journal: config.Journal, Log: config.Log},
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
	s.steps = mailbox.New(func(ctx context.Context, run writ.RunID, m mail.Mail) error {
		return s.advancer.Step(ctx, run, m)
	}, config.Log)
	s.wireRecords()
	s.Journal.SetClock(s.Now)
	if err := s.Journal.Protect(protection(s.Key, s.warnings)); err != nil {
		return nil, err
	}
	if err := submission.CheckEngines(ctx, s.Journal); err != nil {
		return nil, err
	}
	mark, err := s.marker.Compare(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the journal with the mark beside the key: %w", err)
	}
	if s.epoch, err = s.Journal.BeginEpoch(ctx, s.Now()); err != nil {
		return nil, fmt.Errorf("begin epoch: %w", err)
	}
	s.outbox = outbox.New(outbox.Config{
		Key: s.Key, Epoch: s.epoch, Queue: s.Queue, Warnings: s.warnings, Post: s.steps.Post,
	})
	if mark.Restored {
		if err := s.Marks.Heard(); err != nil {
			return nil, errors.Join(fmt.Errorf("record that the restore of the journal is known: %w", err),
				s.Journal.Release(context.WithoutCancel(ctx)))
		}
	}
	if err = s.rosters.Load(ctx, outside); err == nil {
		err = s.rosters.CheckKey()
	}
	if err == nil {
		s.opened, err = quota.Load(ctx, s.Journal, s.MaxOpenRuns, s.MaxOpenCalls)
	}
	if err == nil {
		s.fleet, err = fleet.Load(ctx, s.Journal, s.Now())
	}
	if err == nil {
		err = s.wireAdmission(ctx)
	}
	if err == nil {
		err = s.certificates.Restore(ctx)
	}
	if err == nil {
		err = s.holding.Load(ctx)
	}
	if err == nil {
		err = s.holding.HoldAtStart(ctx, mark.Holds, s.Held)
	}
	if err != nil {
		return nil, errors.Join(err, s.Journal.Release(context.WithoutCancel(ctx)))
	}
	s.wireSteps()
	s.wireNodes()
	s.wireRequests()
	return s, nil
}

// protection returns the settings for the authentication of the journal's rows. The key is the seed of the supervisor's
// private key, which is not in the journal.
func protection(key ed25519.PrivateKey, warnings *ratelog.Log) journal.Protection {
	return journal.Protection{
		Key: key.Seed(),
		Refused: func(err *writ.Error) {
			warnings.Refused("", "record of the journal changed by another program; it is not used", err, "hint", err.Hint)
		},
	}
}

// Epoch returns the epoch of this supervisor. Nodes and the journal reject supervisors with lower epochs.
func (s *Supervisor) Epoch() int64 { return s.epoch }

// Roster returns the newest roster that the supervisor has adopted.
func (s *Supervisor) Roster() *identity.Roster { return s.rosters.Current() }

// Submit verifies a signed submission, checks its script and accepts or refuses it. An accepted submission is stored
// with its run before Submit returns. Submitting the same text again returns the same answer and has no other effect.
func (s *Supervisor) Submit(ctx context.Context, signed []byte) (writ.Run, error) {
	run, err := s.submitter.Submit(ctx, signed)
	s.refused.record("submission", err)
	return run, err
}

// Decide verifies a signed statement and applies or refuses it. A repeated statement gets the same answer and has no
// second effect.
func (s *Supervisor) Decide(ctx context.Context, signed []byte) (link.StatementAnswer, error) {
	answer, err := s.decider.Decide(ctx, signed)
	s.refused.record("statement", err)
	return answer, err
}

// Preview predicts the effects of a run of the proposal, without changing the journal.
func (s *Supervisor) Preview(ctx context.Context, proposal writ.Proposal) (writ.Preview, error) {
	return s.previewer.Preview(ctx, proposal)
}

// AdoptRosters verifies and adopts links that follow the newest roster, and skips known rosters. It returns the version
// in force afterwards.
func (s *Supervisor) AdoptRosters(ctx context.Context, links [][]byte) (int, error) {
	return s.rosters.Adopt(ctx, links)
}

// rosterInForce applies a new roster: open runs are checked, links restarted, and nodes notified.
func (s *Supervisor) rosterInForce(ctx context.Context, roster *identity.Roster) {
	s.recheck.Wake()
	if s.links == nil {
		return // before Open has finished; Run does the rest
	}
	s.links.Update()
	for _, node := range s.fleet.Members.Serving() {
		s.outbox.Control(failpoint.At(ctx, failpoint.RosterSent), writ.Control{Node: node, Roster: roster.Version})
	}
}

// trimEvery is the interval at which the memory of runs without a step is released.
const trimEvery = time.Minute

// trim releases the memory of runs and programs that were not used for trimEvery or longer.
func trim(ctx context.Context, s *Supervisor) error {
	for sleep.For(ctx, trimEvery) == nil {
		s.advancer.Trim()
		s.programs.Trim()
	}
	return nil
}

// Run serves the datacenter until ctx ends; then it releases the lease and returns nil. It returns journal.ErrFenced if
// another supervisor has taken over. Open work continues at the next start.
func (s *Supervisor) Run(ctx context.Context) error {
	s.takeover.Announce(ctx)
	group, working := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		s.lease.Run, s.steps.Run, s.outbox.Run, s.outbox.RunAcks, s.offers.Run, s.takeover.Run, s.recheck.Run,
		s.collector.Run, s.reports.Run, s.watch.Run, s.accounts.Run, s.expiry.Run, s.marker.Run, s.rosters.WarnOfEnds,
		s.links.Run, func(ctx context.Context) error { return trim(ctx, s) },
	} {
		group.Go(func() error { return run(working) })
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer stop()
	if err := s.Journal.Release(ending, func(tx *journal.Tx) error {
		s.fleet.Machines.AddOnline(s.Now())
		return fleet.PutLives(tx, s.fleet.Machines.Unstored(0))
	}); err != nil {
		s.Log.Warn("release the lease; a standby waits for its end", "err", err)
	}
	return nil
}
