package supervisor

import (
	"context"
	"maps"
	"time"

	"writ"
	"writ/internal/tally"
	"writ/supervisor/journal"
	"writ/supervisor/ratelog"
)

// Metrics is a snapshot of the supervisor's metrics. Metrics of the watch are of its last scan, and missing before the
// first scan.
type Metrics struct {
	Epoch        int64
	Looked       time.Time // end of the watcher's last scan of open runs
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

// seen holds the results of the last scan of the watch.
type seen struct {
	at              time.Time
	calls           map[writ.CallState]int
	planned, queued map[writ.NodeID]time.Time // oldest planned and queued call of each node; "" is the start of OldestWait
	running         time.Time                 // start of the oldest running call
	behind          map[string]int64          // see sight
}

// agesEvery is the interval at which the ages of waiting calls are read: one query per node.
const agesEvery = 5 * time.Second

// readAges reads the figures that only metrics need, at most every agesEvery.
func (w *watcher) readAges(tx *journal.Tx, to *sight) (err error) {
	if !w.aged.IsZero() && w.last.Sub(w.aged) < agesEvery {
		return nil
	}
	planned := make(map[writ.NodeID]time.Time)
	if planned[""], err = tx.OldestWait(); err != nil {
		return err
	}
	for node, load := range to.loads {
		if node == "" || load.Planned == 0 {
			continue
		}
		if planned[node], err = tx.OldestPlaced(node); err != nil {
			return err
		}
	}
	behind, all, err := tx.Unconfirmed()
	if err != nil {
		return err
	}
	for url := range w.s.dialers.list() {
		if _, confirmed := behind[url]; !confirmed {
			behind[url] = all
		}
	}
	to.planned, to.behind, w.aged = planned, behind, w.last
	return nil
}

// note stores the results of a scan for metrics.
func (w *watcher) note(from sight, now time.Time) {
	next := &seen{
		at: now, calls: map[writ.CallState]int{writ.CallPlanned: 0, writ.CallQueued: 0, writ.CallRunning: 0},
		planned: from.planned, queued: make(map[writ.NodeID]time.Time), behind: from.behind,
	}
	if before := w.s.seen.Load(); from.planned == nil && before != nil {
		next.planned, next.behind = before.planned, before.behind
	}
	for _, l := range from.loads {
		next.calls[writ.CallPlanned] += l.Planned
		next.calls[writ.CallQueued] += l.Queued
		next.calls[writ.CallRunning] += l.Running
	}
	for _, c := range from.sent {
		if c.State == writ.CallQueued {
			next.queued[c.Node] = older(next.queued[c.Node], c.Queued)
		} else {
			next.running = older(next.running, c.Started)
		}
	}
	w.s.seen.Store(next)
}

// older returns the earlier of two times and ignores a zero time.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// age returns the time from since to now: 0 if since is zero, or if a clock was set back in between.
func age(now, since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0)
}

// Metrics returns the current metrics. It reads only memory, so it never waits for a journal or queue that hangs.
func (s *Supervisor) Metrics() Metrics {
	m := Metrics{
		Epoch: s.epoch, Renewed: s.counts.renewed.Last(), Runs: s.opened.Runs(), Passes: s.counts.passes.Spread(),
		Crashes: s.counts.crashes.All(), Nodes: s.countNodes(), Refusals: s.counts.refusals.All(),
		Complaints: s.warnings.Counts(), Links: make(map[string]Link),
	}
	m.JournalFault, m.Queue = s.faults.works()
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
	last := s.seen.Load()
	if last == nil {
		last = new(seen)
	}
	for url, d := range s.dialers.list() {
		m.Links[url] = Link{Connected: d.Connected(), Unconfirmed: last.behind[url]}
	}
	if !last.at.IsZero() {
		m.setSeen(last, s.Now())
	}
	return m
}

// setSeen sets the metrics from the last scan of the watch.
func (m *Metrics) setSeen(last *seen, now time.Time) {
	m.Looked, m.Calls = last.at, maps.Clone(last.calls)
	m.Waiting = age(now, last.planned[""])
	m.Oldest = map[writ.CallState]time.Duration{
		writ.CallPlanned: 0, writ.CallQueued: 0, writ.CallRunning: age(now, last.running),
	}
	for node, since := range last.planned {
		if node != "" {
			m.Oldest[writ.CallPlanned] = max(m.Oldest[writ.CallPlanned], age(now, since))
		}
	}
	for _, since := range last.queued {
		m.Oldest[writ.CallQueued] = max(m.Oldest[writ.CallQueued], age(now, since))
	}
}

// countNodes counts approved nodes by liveness, and pending nodes.
func (s *Supervisor) countNodes() map[string]int {
	nodes := map[string]int{
		string(writ.LivenessReady): 0, string(writ.LivenessSilent): 0, string(writ.LivenessLost): 0,
		string(writ.AdmissionPending): len(s.pending.List()),
	}
	for _, n := range s.fleet.Members.List() {
		switch n.Admission {
		case writ.AdmissionApproved:
			nodes[string(n.Liveness)]++
		case writ.AdmissionPending:
			nodes[string(writ.AdmissionPending)]++
		}
	}
	return nodes
}
