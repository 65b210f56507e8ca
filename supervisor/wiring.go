package supervisor

import (
	"context"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/admission"
	"writ/supervisor/answers"
	"writ/supervisor/boots"
	"writ/supervisor/collect"
	"writ/supervisor/decision"
	"writ/supervisor/expiry"
	"writ/supervisor/fleet"
	"writ/supervisor/hold"
	"writ/supervisor/links"
	"writ/supervisor/loads"
	"writ/supervisor/misuse"
	"writ/supervisor/preview"
	"writ/supervisor/program"
	"writ/supervisor/query"
	"writ/supervisor/room"
	"writ/supervisor/rosters"
	"writ/supervisor/submission"
	"writ/supervisor/takeover"
	"writ/supervisor/watch"
	"writ/supervisor/workflow"
)

// wireRecords creates the parts that read and write the records of the journal.
func (s *Supervisor) wireRecords() {
	s.records = &query.Reader{Journal: s.Journal, Datacenter: s.Datacenter, KeepRuns: s.KeepRuns}
	s.rosters = rosters.New(rosters.Config{
		Journal: s.Journal, Cluster: s.Pin, Datacenter: s.Datacenter, Key: s.Key, ProjectOf: s.records.ProjectOf,
		Adopted: s.Adopted, InForce: s.rosterInForce, Now: s.Now, Log: s.Log,
	})
	s.Pages, s.holds = rosters.NewPages(s.rosters), hold.New(s.rosters.DatacenterName)
	s.programs = program.New(program.Config{
		Datacenter: s.Datacenter, Journal: s.Journal, Evaluator: s.Evaluator, Roster: s.rosters.Current,
		Verifier: s.rosters.Verifier, RosterText: s.rosters.Text, Refusals: &s.refusals, Now: s.Now, Log: s.Log,
	})
	s.recheck = rosters.NewRecheck(rosters.RecheckConfig{
		Journal: s.Journal, Rosters: s.rosters, Programs: s.programs, Post: s.steps.Post, Log: s.Log,
	})
	s.answers = answers.New(answers.Config{
		Journal: s.Journal, Key: s.Key, Cluster: s.Pin, Datacenter: s.Datacenter, Refusals: &s.refusals, Log: s.Log,
	})
	s.certificates = &decision.Certificates{
		Issuer: s.Certificates, Journal: s.Journal, Answers: s.answers, Datacenter: s.Datacenter,
	}
	s.holding = &decision.Holds{
		Journal: s.Journal, Answers: s.answers, InForce: s.holds, Datacenter: s.Datacenter, Now: s.Now, Log: s.Log,
	}
}

// wireSteps creates the advancer and connects it with its dependencies.
func (s *Supervisor) wireSteps() {
	s.shares = &room.Shares{
		Backlog: s.fleet.Backlog, Mailbox: s.steps, Roster: s.rosters.Current, Weights: s.Weights,
	}
	s.offers = room.NewOffers(s.Journal, s.fleet.Members, s.shares)
	s.inventories = fleet.NewInventories(s.fleet.Members, s.Journal.ReconcilesUntil)
	s.view = &workflow.View{
		Site:  workflow.Site{Datacenter: s.Datacenter, Cluster: s.Pin, Key: s.Key, Epoch: s.epoch, Backoff: s.Backoff},
		Nodes: s.fleet.Members, Presence: s.fleet.Presence, Backlog: s.fleet.Backlog,
		Holds: s.holds, Shares: s.shares, Secrets: s.keyring, Inventories: s.inventories,
	}
	s.advancer = workflow.NewAdvancer(workflow.AdvancerConfig{
		Journal: s.Journal, View: s.view, Outbox: s.outbox, Mailbox: s.steps, Programs: s.programs, Quota: s.opened,
		Freed:   s.offers.Freed,
		Unasked: func(node writ.NodeID, results int) { s.misuse.Count(node, misuse.Unasked, results) },
		Ended: func(run writ.RunID) {
			s.programs.Forget(run)
			s.inventories.Forget(run)
		},
		Now: s.Now, Log: s.Log, Warnings: s.warnings,
	})
	s.steps.Owners, s.steps.Drop = s.advancer.Owners, s.advancer.Drop
}

// wireNodes creates the parts that receive the messages of nodes and notice missing messages.
func (s *Supervisor) wireNodes() {
	s.lease = &takeover.Lease{Journal: s.Journal, Epoch: s.epoch, Now: s.Now, Log: s.Log}
	site := collect.Site{
		Epoch: s.epoch, Fleet: s.fleet, Journal: s.Journal, Mailbox: s.steps, Outbox: s.outbox, Misuse: s.misuse,
		Held: s.lease.Held, Warnings: s.warnings, Now: s.Now, Log: s.Log,
	}
	beats := collect.NewBeats(site, s.inventories, func() int { return s.rosters.Current().Version })
	s.reports, s.nodeLogs, s.loads = collect.NewReports(site), collect.NewLogs(site), loads.New()
	s.collector = collect.New(site, s.Queue, collect.Receivers{
		Beats: beats, Reports: s.reports, Hosts: collect.NewHosts(site), Logs: s.nodeLogs,
		Loads: collect.NewLoads(site, s.loads),
	})
	s.watch = watch.New(watch.Config{
		Epoch: s.epoch, Journal: s.Journal, Queue: s.Queue, Fleet: s.fleet, Mailbox: s.steps, Outbox: s.outbox,
		Offers: s.offers, Holds: s.holds, Nodes: s.nodeDecisions, Rounds: s.collector.Rounds,
		Silence: func() identity.Silence {
			return s.rosters.Current().Datacenter(s.Datacenter).NodeSilence()
		},
		Warnings: s.warnings, Now: s.Now, Log: s.Log,
	})
	s.takeover = &takeover.Takeover{
		Epoch: s.epoch, Journal: s.Journal, Members: s.fleet.Members, Outbox: s.outbox,
		Roster: func() int { return s.rosters.Current().Version },
		Post:   s.steps.Post, Warnings: s.warnings, Log: s.Log,
	}
}

// wireRequests creates the parts that answer the requests of coordinators.
func (s *Supervisor) wireRequests() {
	s.submitter = &submission.Submitter{
		Journal: s.Journal, Datacenter: s.Datacenter, Answers: s.answers, Records: s.records, Programs: s.programs,
		Checks: submission.NewChecker(), Quota: s.opened, Verifier: s.rosters.Verifier, Begin: s.advancer.Begin, Log: s.Log,
	}
	s.previewer = preview.New(preview.Config{
		Journal: s.Journal, Roster: s.rosters.Current, Holds: s.holds, View: s.view,
	})
	s.tokens = &decision.Tokens{
		Journal: s.Journal, Answers: s.answers, Datacenter: s.Datacenter,
		JoinedWith: func(token string) []string { return admission.JoinedWith(s.fleet.Members, token) },
		EndOf: func(maker string, expires time.Time) time.Time {
			return admission.TokenEnds(s.rosters.Current(), maker, expires, s.Now())
		},
		BootTokenRevoked: s.EndToken,
	}
	s.decider = &decision.Decider{
		Verifier: s.rosters.Verifier, Answers: s.answers, Handlers: statementHandlers(s), Log: s.Log,
	}
	s.queues = &query.Queues{Journal: s.Journal, Nodes: s.fleet.Members.List, Ages: s.watch.Ages}
	s.standings = &answers.Standings{
		Journal: s.Journal, Key: s.Key, Cluster: s.Pin, Datacenter: s.Datacenter, Roster: s.rosters.Current,
		RunRecord: s.records.Record, JoinTokens: s.tokens.List, HoldDecisions: s.holding.List, Now: s.Now,
	}
	s.verbs = newVerbTable(s)
	s.links = links.New(links.Config{
		Datacenter: s.Datacenter, Key: s.Key, Epoch: s.epoch, Version: s.Version, Coordinators: s.Coordinators,
		Journal: s.Journal, Rosters: s.rosters, Answer: s.verbs.answer, Fault: s.watch.Faults.Text, HTTP: s.DialWith,
		Now: s.Now, Warnings: s.warnings, Log: s.Log,
	})
	s.expiry = &expiry.Records{
		Journal: s.Journal, KeepRuns: s.KeepRuns, Coordinators: s.links.Addresses, Now: s.Now, Log: s.Log,
	}
}

// wireAdmission creates the parts that admit nodes and serve their API.
func (s *Supervisor) wireAdmission(ctx context.Context) (err error) {
	if s.Accounts != nil {
		s.misuse = misuse.New()
	}
	s.accounts = admission.NewAccounts(admission.AccountsConfig{
		Queue: s.Accounts, Datacenter: s.Datacenter, Cluster: s.Pin, Key: s.Key, Fleet: s.fleet, Misuse: s.misuse,
		Warnings: s.warnings, Now: s.Now, Log: s.Log,
	})
	s.admission = &admission.Site{
		Datacenter: s.Datacenter, Cluster: s.Pin, Key: s.Key, Epoch: s.epoch, Journal: s.Journal,
		Roster: s.rosters.Current, Verifier: s.rosters.Verifier, Fleet: s.fleet, Pending: s.pending,
		Accounts: s.accounts, Refusals: &s.refusals, Now: s.Now, Log: s.Log,
	}
	s.nodeDecisions = &decision.Nodes{
		Journal: s.Journal, Answers: s.answers, Pending: s.pending.Get, Member: s.fleet.Members.Get, Changed: s.admission.Apply,
		Post: s.steps.Post, Log: s.Log,
	}
	s.batches, err = admission.LoadBatches(ctx, s.admission)
	s.Joins, s.Directory = admission.NewJoins(s.admission, s.batches), admission.NewDirectory(s.admission)
	s.Reports = boots.New(boots.Config{
		Datacenter: s.Datacenter, Journal: s.Journal, Roster: s.rosters.Current, Now: s.Now,
	})
	return err
}
