// Package delivery accepts signed submissions and statements and carries them to the datacenters that they name. A
// submission is a script. It waits in the ledger until its datacenter is connected and has decided, or until it
// expires. A statement is any other signed text that changes something, such as a cancellation; it is forwarded at once
// or rejected. The package checks signed texts early, to save work in the datacenters; only the check of the datacenter
// is decisive.
package delivery

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/coord/access"
	"writ/coord/rosters"
	"writ/internal/broadcast"
	"writ/internal/limit"
	"writ/internal/metrics"
	"writ/ledger"
	"writ/supervisor/link"
)

// Config configures a Service. All fields except SkipEarlyCheck are required.
type Config struct {
	Ledger   ledger.Ledger
	Rosters  *rosters.Store
	Links    *link.Listener
	Refusals *access.Refusals
	Lines    *limit.Lines      // rate-limited log lines
	News     *broadcast.Signal // signals waiters that the ledger has new rows, or that a run waits for another reason
	Log      *slog.Logger
	Now      func() time.Time
	// SubmissionsPerSecond limits the submissions of one project; 0 means no limit. A large submission counts as several.
	// The statements of one person are limited to a fifth of this rate.
	SubmissionsPerSecond float64
	// SkipEarlyCheck accepts texts that the early check would reject.
	SkipEarlyCheck bool
}

// submissionsPerStatement is the number of submissions that a project may hand in for each statement that one person
// may sign. Cancelling a run costs its datacenter and its node more than starting one.
const submissionsPerStatement = 5

// Service delivers submissions and statements.
type Service struct {
	Config
	Quota    Quota
	Projects limit.Names // rate of submissions by project
	Signers  limit.Names // rate of statements by signer

	outbox      outbox
	unreadable  unreadable
	submissions *prometheus.CounterVec
	statements  prometheus.Counter
}

// New returns a Service that registers its metrics.
func New(config Config, registry prometheus.Registerer) *Service {
	s := &Service{
		Config: config,
		Quota:  Quota{Signer: signerWaits, All: allWait},
		submissions: metrics.Counts("writ_submissions_total",
			"Submissions by outcome: accepted, repeated, delivered, refused, expired.", "outcome"),
		statements: metrics.Events("writ_statements_total", "Statements that datacenters carried out."),
	}
	s.Projects.PerSecond = config.SubmissionsPerSecond
	s.Signers.PerSecond = config.SubmissionsPerSecond / submissionsPerStatement
	registry.MustRegister(s.submissions, s.statements)
	return s
}

// Trouble returns the last error of a waiting submission, nil if its delivery did not fail.
func (s *Service) Trouble(payload writ.Digest) *writ.Error { return s.outbox.trouble(payload) }

// WakeAll makes all couriers read the waiting submissions from the ledger.
func (s *Service) WakeAll() { s.outbox.wakeAll() }
