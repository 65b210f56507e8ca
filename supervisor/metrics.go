package supervisor

import (
	"context"
	"maps"
	"time"

	"writ"
	"writ/internal/tally"
	"writ/supervisor/ratelog"
)

// Metrics is a snapshot of the supervisor's metrics. Metrics of the watch are of its last scan, and missing before the
// first scan.
type Metrics struct {
	Epoch        int64
	Looked       time.Time // time of the last scan of the watch
	Journal      bool      // whether the journal can be written
	JournalFault string    // the reason if it cannot
	Queue        bool      // whether the queue answers
	Writes       tally.Spread
	Failed       int64     // failed writes of the journal
	Renewed      time.Time // last renewal of the lease; zero if the journal is for one process
	Runs         int       // open runs
	Steps        map[string]int
	Calls        map[writ.CallState]int           // open calls
	Oldest       map[writ.CallState]time.Duration // age of the oldest call in the state
	Waiting      time.Duration                    // longest wait of a call without a node, for its present reason
	Passes       tally.Spread
	Crashes      map[writ.Code]int64 // passes without an outcome
	Nodes        map[string]int      // approved nodes by liveness, and pending ones
	Holds        int
	Links        map[string]Link // by address of the coordinator
	Refusals     map[Refusal]int64
	Complaints   map[ratelog.Warning]int64
	Roster       int
	Expires      time.Time // of the roster
}

// Link is the link to one coordinator.
type Link struct {
	Connected   bool
	Unconfirmed int64 // events that the coordinator has not confirmed
}

// Refusal is a kind of refused signed text: a submission or a statement, with the error code.
type Refusal struct {
	What string
	Code writ.Code
}

// counts holds the counters of the supervisor itself.
type counts struct {
	passes   tally.Durations
	crashes  tally.Counts[writ.Code]
	refusals tally.Counts[Refusal]
	renewed  tally.Moment
}

// noteAnswer counts a signed text if it was refused.
func (c *counts) noteAnswer(what string, err error) {
	if err != nil {
		c.refusals.Add(Refusal{what, writ.CodeOf(err).Info().Code})
	}
}

// notePass counts a pass of a script.
func (c *counts) notePass(ctx context.Context, took time.Duration, err error) {
	switch {
	case err == nil:
		c.passes.Note(took)
	case ctx.Err() == nil:
		c.crashes.Add(writ.CodeOf(err).Info().Code)
	}
}

// Metrics returns the current metrics. It reads only memory, so it never waits for a journal or queue that hangs.
func (s *Supervisor) Metrics() Metrics {
	m := Metrics{
		Epoch: s.epoch, Renewed: s.counts.renewed.Last(), Runs: s.opened.Runs(), Passes: s.counts.passes.Spread(),
		Crashes: s.counts.crashes.All(), Nodes: countNodes(s.fleet.Members.List(), s.pending.List()), Refusals: s.counts.refusals.All(),
		Complaints: s.warnings.Counts(), Links: make(map[string]Link),
	}
	m.JournalFault, m.Queue = s.watch.Faults.Works()
	m.Journal = m.JournalFault == ""
	m.Writes, m.Failed = s.Journal.Writes()
	under, waiting, stalled := s.steps.Count()
	m.Steps = map[string]int{"under_way": under, "waiting": waiting, "stalled": stalled}
	for _, h := range s.holds.All() {
		if h.Held {
			m.Holds++
		}
	}
	roster := s.rosters.Current()
	m.Roster, m.Expires = roster.Version, roster.Expires
	last, now := s.watch.Figures(), s.Now()
	for url, connected := range s.links.Connected() {
		m.Links[url] = Link{Connected: connected, Unconfirmed: last.Unconfirmed(url)}
	}
	if !last.At.IsZero() {
		m.Looked, m.Calls = last.At, maps.Clone(last.Calls)
		m.Waiting, m.Oldest = last.Waiting(now), last.Oldest(now)
	}
	return m
}

// countNodes counts approved nodes by liveness, and pending nodes.
func countNodes(members, pending []writ.Node) map[string]int {
	nodes := map[string]int{
		string(writ.LivenessReady): 0, string(writ.LivenessSilent): 0, string(writ.LivenessLost): 0,
		string(writ.AdmissionPending): len(pending),
	}
	for _, n := range members {
		switch n.Admission {
		case writ.AdmissionApproved:
			nodes[string(n.Liveness)]++
		case writ.AdmissionPending:
			nodes[string(writ.AdmissionPending)]++
		}
	}
	return nodes
}
