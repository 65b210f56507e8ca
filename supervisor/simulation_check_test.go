package supervisor_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner/queue"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// endsWithin is the time limit of every run after the last fault: retries wait up to a minute, and a lost job is
// detected after two scans.
const endsWithin = 5 * time.Minute

// observer reads the events of the datacenter like a coordinator, across all supervisors.
type observer struct {
	sim  *simulation
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	last  int64
	skews int // number of events with a clock fault
	runs  map[writ.RunID]writ.RunState
	calls map[writ.JobKey]writ.CallState // keys have no attempt
	total int

	moment time.Time // virtual time of the last events
	within int       // number of events at moment
}

func newObserver(s *simulation) *observer {
	ctx, stop := context.WithCancel(context.Background())
	o := &observer{sim: s, stop: stop, runs: make(map[writ.RunID]writ.RunState), calls: make(map[writ.JobKey]writ.CallState)}
	o.done.Go(func() {
		for ctx.Err() == nil {
			o.look(ctx)
		}
	})
	return o
}

// look reads the next events, and waits up to 10 s for them.
func (o *observer) look(ctx context.Context) {
	_, j, err := o.sim.api.get()
	var events []writ.Event
	if err == nil {
		short, stop := context.WithTimeout(ctx, 10*time.Second)
		events, err = j.Events(short, o.last, 1000)
		stop()
	}
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.panicOnLoop(events)
	for _, e := range events {
		if e.Seq != o.last+1 {
			o.sim.t.Errorf("event %d follows event %d", e.Seq, o.last)
		}
		o.last = e.Seq
		o.total++
		if e.Node != nil && strings.Contains(e.Node.Fault, "CLOCK_SKEW") {
			o.skews++
		}
		if e.Run != nil {
			step(o.sim, "run "+string(e.Run.ID), writ.RunMoves, o.runs[e.Run.ID], e.Run.State)
			o.runs[e.Run.ID] = e.Run.State
		}
		if e.Call != nil {
			key := writ.JobKey{Run: e.Call.Run, Seq: e.Call.Seq}
			step(o.sim, fmt.Sprintf("call %d of run %s", key.Seq, key.Run), writ.CallMoves, o.calls[key], e.Call.State)
			o.calls[key] = e.Call.State
		}
	}
}

// mostAtOnce exceeds the possible number of events at one moment: every run may take steps, and no step takes virtual
// time.
const mostAtOnce = 50_000

// panicOnLoop panics if the datacenter loops. Virtual time stops in a loop, so no timeout would end the test.
func (o *observer) panicOnLoop(events []writ.Event) {
	if now := time.Now(); !now.Equal(o.moment) {
		o.moment, o.within = now, 0
	}
	if o.within += len(events); o.within < mostAtOnce {
		return
	}
	var last strings.Builder
	for _, e := range events[max(0, len(events)-20):] {
		switch {
		case e.Call != nil:
			fmt.Fprintf(&last, "call %d of run %s, %s %s: %s, %q\n", e.Call.Seq, e.Call.Run, e.Call.Operation, e.Call.Name, e.Call.State, e.Call.Why.String())
		case e.Run != nil:
			fmt.Fprintf(&last, "run %s: %s, %q\n", e.Run.ID, e.Run.State, e.Run.Why.String())
		default:
			fmt.Fprintf(&last, "%s\n", e.Topic())
		}
	}
	panic(fmt.Sprintf("seed %d: %d events in a moment, the last of them:\n%s", o.sim.seed, o.within, &last))
}

// step fails the test unless moves lead from one state to the other. An event reports the end of a step, which may make
// several moves.
func step[S ~string](s *simulation, what string, moves []writ.Move[S], from, to S) {
	if from == "" || from == to {
		return
	}
	reached := map[S]bool{from: true}
	for grown := true; grown; {
		grown = false
		for _, m := range moves {
			if reached[m.From] && !reached[m.To] {
				reached[m.To], grown = true, true
			}
		}
	}
	if !reached[to] {
		s.t.Errorf("%s moved from %s to %s", what, from, to)
	}
}

// open returns the runs that have not ended.
func (o *observer) open() (open []*simRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.sim.work {
		r.mu.Lock()
		if at := o.runs[r.id]; at != "" && !at.Ended() || at == "" && !r.lost {
			open = append(open, r)
		}
		r.mu.Unlock()
	}
	return open
}

// failed returns the failed runs among the last 20 submissions, in the order of submission.
func (o *observer) failed() (failed []writ.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.sim.work[max(0, len(o.sim.work)-20):] {
		if o.runs[r.id] == writ.RunFailed {
			failed = append(failed, r.id)
		}
	}
	return failed
}

// finish waits until every run has ended, and then checks the final state.
func (s *simulation) finish() {
	began := time.Now()
	for len(s.watch.open()) > 0 && time.Since(began) < endsWithin {
		s.until(time.Now().Add(time.Second))
	}
	took := time.Since(began)
	if open := s.watch.open(); len(open) > 0 {
		for _, r := range open {
			s.explain(r.id)
			r.mu.Lock()
			s.t.Logf("last answer to the submission of run %s: %v", r.id, r.answer)
			r.mu.Unlock()
		}
	}
	s.arrive()
	s.until(time.Now().Add(time.Minute)) // late messages arrive, stuck drivers end
	for _, n := range s.hosts {
		s.kill(n.process) // nodes send unsaved results of a full disk again
	}
	s.until(time.Now().Add(4 * time.Minute))
	s.wantWakers()
	s.check()
	s.took = took
}

// end stops all processes.
func (s *simulation) end() {
	s.calm.Store(true)
	s.watch.stop()
	s.watch.done.Wait()
	processes := []*process{s.process}
	for _, n := range s.hosts {
		processes = append(processes, n.process)
	}
	for _, p := range processes {
		select {
		case <-p.gone:
			continue
		default:
		}
		close(p.gone)
		p.stop()
		if err := s.endOf(p); err != nil {
			s.t.Errorf("%s ended with %v", p.name, err)
		}
	}
	s.late.Wait()
}

// explain logs the state of a run.
func (s *simulation) explain(id writ.RunID) {
	_, j, err := s.api.get()
	if err != nil {
		s.t.Errorf("run %s is open, without a supervisor", id)
		return
	}
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		run, err := tx.Run(id)
		if err != nil || run == nil {
			s.t.Errorf("run %s is missing in the journal: %v", id, err)
			return err
		}
		calls, err := tx.Calls(id)
		s.t.Errorf("run %s is %s (%s), accepted %s, waits for %v", id, run.State, run.Why.String(), run.Accepted, run.Waiting)
		for _, c := range calls {
			s.t.Logf("  %d %s %s: %s on %s, attempt %d, delivery %d, %d withdrawn, moved at %d, started %s, start by %s, %+v, %q %v", c.Seq,
				c.Operation, c.Name, c.State, c.NodeName, c.Attempt, c.Delivery, c.Withdrawn, c.Moved, c.Started, c.StartBy, c.Options,
				c.Why.String(), c.Error)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// check compares the journal, the nodes and their hosts.
func (s *simulation) check() {
	_, j, err := s.api.get()
	if err != nil {
		s.t.Fatal("no supervisor")
	}
	s.makers = make(map[writ.UID]string)
	hosts := make(map[writ.NodeID]*simHost)
	for _, n := range s.left {
		hosts[n.number()] = n.host
		s.checkOnce(n)
	}
	for _, n := range s.hosts {
		hosts[n.number()] = n.host
		left, err := n.journal.Unacknowledged(s.t.Context())
		if err != nil || len(left) > 0 {
			s.t.Errorf("%s has %d unacknowledged results, %v", n.name, len(left), err)
		}
		s.checkEffects(n)
	}
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		want := make(map[writ.NodeID]writ.Capacity)
		unsure := make(map[writ.ResourceID]bool) // resources with calls that were abandoned, or failed on the way
		for _, r := range s.work {
			calls, err := tx.Calls(r.id)
			if err != nil {
				return err
			}
			for _, c := range calls {
				if !c.State.Ended() {
					want[c.Node] = want[c.Node].Plus(c.Need)
				}
				s.checkCall(c, hosts[c.Node])
				if op, _ := catalog.Lookup(c.Operation); (c.Attempt > 1 || c.Delivery > 0) && c.State != writ.CallSucceeded && op.Effect != catalog.Look {
					unsure[c.Resource()] = true
				}
			}
		}
		resources, err := tx.Resources()
		if err != nil {
			return err
		}
		for _, r := range resources {
			want[r.Node] = want[r.Node].Plus(r.Need)
			h := hosts[r.Node]
			h.mu.Lock()
			if got := h.resources[r.ResourceID]; got != r.UID && !unsure[r.ResourceID] {
				s.t.Errorf("the journal has %s as %s on %s since run %s, the host has %q%s", r.ResourceID, r.UID, r.Node, r.Run, got, s.callsOn(tx, r.ResourceID))
			}
			h.mu.Unlock()
		}
		loads, err := tx.Loads()
		for node, load := range loads {
			if load.Reserved != want[node] {
				s.t.Errorf("node %s has %+v reserved, its resources need %+v", node, load.Reserved, want[node])
			}
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// wantWakers checks that every open run has a waker: an entry of the journal or, if a pass is due, a step.
func (s *simulation) wantWakers() {
	synctest.Wait() // no step is in progress now, except waiting ones
	s.events++
	sup, j, err := s.api.get()
	if err != nil || s.process.dead.Load() {
		return
	}
	s.looks++
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		sleepers, err := tx.AllSleepers()
		for _, sleeper := range sleepers {
			if !sup.IsAwaited(sleeper.Run) {
				s.t.Errorf("seed %d: %s has no waker", s.seed, sleeper)
			}
		}
		if err != nil {
			return err
		}
		pending, err := tx.PendingRuns()
		for _, id := range pending {
			run, err := tx.Run(id)
			if err != nil {
				return err
			}
			if !sup.HasStep(id) && !sup.MayNotBegin(run) {
				s.t.Errorf("seed %d: run %s has a due pass and no step", s.seed, id)
			}
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// callsOn formats the calls on a resource.
func (s *simulation) callsOn(tx *journal.Tx, id writ.ResourceID) string {
	var text strings.Builder
	for _, r := range s.work {
		calls, err := tx.Calls(r.id)
		if err != nil {
			return err.Error()
		}
		for _, c := range calls {
			if c.Resource() == id {
				fmt.Fprintf(&text, "\n  call %d of run %s, %s: %s, attempt %d, delivery %d on %s, uid %s, change %q, sent %s, ended %s, %v", c.Seq, c.Run, c.Operation,
					c.State, c.Attempt, c.Delivery, c.Node, c.UID, c.Change, c.Queued.Format(time.TimeOnly), c.Ended.Format(time.TimeOnly), c.Error)
			}
		}
	}
	return text.String()
}

// checkPlacement fails the test if new work goes to a node whose clock was wrong for so long that the supervisor must
// have detected it.
func (s *simulation) checkPlacement(p *process, node writ.NodeID, tasks []queue.Task) {
	const known = 20 * time.Second
	life, ok := s.byID.Load(node)
	if !ok || !life.(*process).hears(known) || !p.hears(known) {
		return
	}
	n := life.(*process).node
	apart := n.clock.now().Sub(s.wall.now()).Abs()
	if apart < 31*time.Second || min(n.clock.since(), s.wall.since()) < known {
		return
	}
	for _, t := range tasks {
		if strings.HasSuffix(t.ID, "-1-1") { // first delivery of the first attempt
			s.t.Errorf("%s was sent to %s, whose clock is off by %s", t.ID, n.name, apart)
		}
	}
}

// tally counts the events of simulations.
type tally struct {
	mu           sync.Mutex
	seeds        int
	hours        float64
	runs, calls  int
	events       int
	lives, skews int
	moments      int // number of moments at which wakers should be checked
	looks        int // number of moments at which wakers were checked, because a supervisor was running
	faults       map[string]int
}

var total = tally{faults: make(map[string]int)}

// tally adds this simulation to the total, and logs it.
func (s *simulation) tally(faulty time.Duration) {
	total.mu.Lock()
	defer total.mu.Unlock()
	one := tally{
		seeds: 1, hours: faulty.Hours(), runs: len(s.work), calls: len(s.watch.calls), events: s.watch.total, lives: s.lives, skews: s.watch.skews,
		faults: s.faults,
	}
	s.t.Logf("seed %d: %s; all runs ended within %s after the last fault", s.seed, &one, s.took)
	total.seeds++
	total.hours += one.hours
	total.runs += one.runs
	total.calls += one.calls
	total.events += one.events
	total.lives += one.lives
	total.skews += one.skews
	total.moments += s.events
	total.looks += s.looks
	for kind, n := range one.faults {
		total.faults[kind] += n
	}
}

// String formats the tally as one line.
func (t *tally) String() string {
	text := fmt.Sprintf("%.1f h, %d runs, %d calls, %d events, %d lives of processes, %d clock faults", t.hours, t.runs, t.calls, t.events, t.lives, t.skews)
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		text += fmt.Sprintf(", %d %s", t.faults[kind], kind)
	}
	if made, opened := countEnvelopes(); checksumsOnly {
		text += fmt.Sprintf(" (%d envelopes signed and %d opened in total)", made, opened)
	}
	return text
}

// checkEffects checks that each effect on a host happened once.
func (s *simulation) checkEffects(n *simNode) {
	n.host.mu.Lock()
	for uid := range n.host.made {
		if other := s.makers[uid]; other != "" {
			s.t.Errorf("%s was created on %s and on %s", uid, other, n.name)
		}
		s.makers[uid] = n.name
	}
	n.host.mu.Unlock()
	s.checkOnce(n)
}

// checkOnce checks that non-repeatable operations were not repeated. It excludes lost machines, whose resources are
// created again elsewhere.
func (s *simulation) checkOnce(n *simNode) {
	n.host.mu.Lock()
	defer n.host.mu.Unlock()
	attempts := make(map[writ.JobKey]int)
	for key, times := range n.host.once {
		call := writ.JobKey{Run: key.Run, Seq: key.Seq}
		// Each resume permits one repetition of a job with an unknown outcome.
		if attempts[call] += times; attempts[call] > 1+s.resumed[key.Run] {
			s.t.Errorf("non-repeatable call %d of run %s took effect %d times on %s", key.Seq, key.Run, attempts[call], n.name)
		}
	}
}

// checkCall checks that a successful call had its effect on the host.
func (s *simulation) checkCall(c *journal.Call, h *simHost) {
	op, _ := catalog.Lookup(c.Operation)
	if c.State != writ.CallSucceeded || h == nil || c.Driver == "supervisor" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := c.Key()
	// A late success of an earlier attempt counts if the next attempt was not sent.
	for key.Attempt > 1 && h.uids[key] == "" {
		key.Attempt--
	}
	out, ok := c.Values["stdout"].(string)
	if op.Repeat == catalog.Resume { // an earlier attempt may have run the program
		key.Attempt = min(key.Attempt, max(keyOf(out).Attempt, 1))
	}
	if ok && out != key.String() {
		s.t.Errorf("call %d of run %s accepted the result of %v for %s", c.Seq, c.Run, out, key)
	}
	if op.Repeat != catalog.Safe && h.once[key] != 1 {
		s.t.Errorf("%s succeeded and took effect %d times", key, h.once[key])
	}
	if uid, ok := h.uids[key]; op.Effect == catalog.Make && (!ok || uid != c.UID || !h.made[c.UID]) {
		s.t.Errorf("%s %s succeeded as %s, the host has %q", c.Operation, c.Name, c.UID, uid)
	}
}
