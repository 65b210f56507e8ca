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

// endsWithin is how long after the last fault every run must have ended: retries wait up to a minute, and a job that was lost on the way is
// found after two looks.
const endsWithin = 5 * time.Minute

// observer reads the datacenter's events as a coordinator does, over every life of the supervisor.
type observer struct {
	sim  *simulation
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	last  int64
	skews int // times that a node was said to have a wrong clock
	runs  map[writ.RunID]writ.RunState
	calls map[writ.JobKey]writ.CallState // of no attempt
	total int

	moment time.Time // in virtual time
	within int       // events since then, which is still now
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

// look takes the next events, if there are some soon.
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
	o.holdStill(events)
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

// mostAtOnce is more than what can happen in a moment: every run has its steps, and none of them takes time.
const mostAtOnce = 50_000

// holdStill ends the process if the datacenter runs in circles: virtual time stands still meanwhile, so nothing else would ever end it.
func (o *observer) holdStill(events []writ.Event) {
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

// step fails the test unless the moves lead from one state to the other: what is told is where steps end, not each move in them.
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
		s.t.Errorf("%s went from %s to %s", what, from, to)
	}
}

// open counts the runs that have not ended.
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

// failed returns the runs that have failed last, in the order in which they were handed in.
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

// finish waits until every run has ended, and holds what is left to what was promised.
func (s *simulation) finish() {
	began := time.Now()
	for len(s.watch.open()) > 0 && time.Since(began) < endsWithin {
		s.until(time.Now().Add(time.Second))
	}
	took := time.Since(began)
	if open := s.watch.open(); len(open) > 0 {
		for _, r := range open {
			s.explain(r)
		}
	}
	s.arrive()
	s.until(time.Now().Add(time.Minute)) // late words arrive, stuck drivers end
	for _, n := range s.hosts {
		s.takeAway(n.process) // what could not be written while a disk was full is said again
	}
	s.until(time.Now().Add(4 * time.Minute))
	s.wantWakers()
	s.check()
	s.took = took
}

// end stops everything.
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

// explain says why a run has not ended.
func (s *simulation) explain(r *simRun) {
	id := r.id
	r.mu.Lock()
	defer r.mu.Unlock()
	_, j, err := s.api.get()
	if err != nil {
		s.t.Errorf("run %s has not ended, and there is no supervisor", id)
		return
	}
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		run, err := tx.Run(id)
		if err != nil || run == nil {
			s.t.Errorf("run %s is not in the journal: %v; its submission was answered with %v", id, err, r.said)
			return err
		}
		calls, err := tx.Calls(id)
		s.t.Errorf("run %s is %s (%s) since %s, waits for %v", id, run.State, run.Why.String(), run.Accepted, run.Waiting)
		for _, c := range calls {
			s.t.Logf("  %d %s %s: %s on %s, attempt %d delivery %d, start by %s, %q %v", c.Seq, c.Operation, c.Name, c.State, c.NodeName, c.Attempt, c.Delivery,
				c.StartBy, c.Why.String(), c.Error)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// check holds the journal, the nodes and their hosts against each other.
func (s *simulation) check() {
	_, j, err := s.api.get()
	if err != nil {
		s.t.Fatal("there is no supervisor")
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
			s.t.Errorf("%s has %d results that nobody acknowledged, %v", n.name, len(left), err)
		}
		s.checkEffects(n)
	}
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		want := make(map[writ.NodeID]writ.Capacity)
		unsure := make(map[writ.ResourceID]bool) // calls on them were sent and given up, or failed on the way
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
				s.t.Errorf("the journal has the %s as %s on %s since run %s, its host has %q%s", r.ResourceID, r.UID, r.Node, r.Run, got, s.callsOn(tx, r.ResourceID))
			}
			h.mu.Unlock()
		}
		loads, err := tx.Loads()
		for node, load := range loads {
			if load.Reserved != want[node] {
				s.t.Errorf("on %s %+v is reserved, what there is needs %+v", node, load.Reserved, want[node])
			}
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// wantWakers holds the datacenter to its promise that every open run has something that wakes it: what the journal says or, where a pass is due, a
// step.
func (s *simulation) wantWakers() {
	synctest.Wait() // between two moments: no step is half done, unless it waits
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
				s.t.Errorf("seed %d: nothing wakes %s", s.seed, sleeper)
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
				s.t.Errorf("seed %d: a pass of run %s is due, and it gets no step", s.seed, id)
			}
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// callsOn tells what runs did to a resource.
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

// checkPlacement fails the test if new work goes to a node whose clock has been wrong for so long that everybody must know.
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
		if strings.HasSuffix(t.ID, "-1-1") { // the first delivery of the first attempt
			s.t.Errorf("%s is sent to %s, whose clock is off by %s", t.ID, n.name, apart)
		}
	}
}

// tally is what simulations did.
type tally struct {
	mu           sync.Mutex
	seeds        int
	hours        float64
	runs, calls  int
	events       int
	lives, skews int
	moments      int // after which the open runs were to be checked for something that wakes them
	looks        int // of these moments, those with a supervisor, which was checked
	faults       map[string]int
}

var total = tally{faults: make(map[string]int)}

// tally adds what this simulation did to what all have done, and says both.
func (s *simulation) tally(faulty time.Duration) {
	total.mu.Lock()
	defer total.mu.Unlock()
	one := tally{
		seeds: 1, hours: faulty.Hours(), runs: len(s.work), calls: len(s.watch.calls), events: s.watch.total, lives: s.lives, skews: s.watch.skews,
		faults: s.faults,
	}
	s.t.Logf("seed %d: %s; all had ended %s after the last fault", s.seed, &one, s.took)
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

// String says it in one line.
func (t *tally) String() string {
	text := fmt.Sprintf("%.1f h, %d runs, %d calls, %d events, %d lives of processes, %d times said that a clock is wrong", t.hours, t.runs, t.calls, t.events, t.lives, t.skews)
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		text += fmt.Sprintf(", %d %s", t.faults[kind], kind)
	}
	if made, opened := countEnvelopes(); checksumsOnly {
		text += fmt.Sprintf(" (in all %d envelopes made and %d opened)", made, opened)
	}
	return text
}

// checkEffects holds what happened on a host to what may happen once.
func (s *simulation) checkEffects(n *simNode) {
	n.host.mu.Lock()
	for uid := range n.host.made {
		if other := s.makers[uid]; other != "" {
			s.t.Errorf("%s was made on %s and on %s", uid, other, n.name)
		}
		s.makers[uid] = n.name
	}
	n.host.mu.Unlock()
	s.checkOnce(n)
}

// checkOnce holds what must not be repeated to that. Of machines that are gone nobody asks more: what they had is made anew elsewhere.
func (s *simulation) checkOnce(n *simNode) {
	n.host.mu.Lock()
	defer n.host.mu.Unlock()
	attempts := make(map[writ.JobKey]int)
	for key, times := range n.host.once {
		call := writ.JobKey{Run: key.Run, Seq: key.Seq}
		if attempts[call] += times; attempts[call] > 1+s.resumed[key.Run] { // who resumes a run has a job that may have been done done again
			s.t.Errorf("call %d of run %s, which must not be repeated, took effect %d times on %s", key.Seq, key.Run, attempts[call], n.name)
		}
	}
}

// checkCall holds a call that succeeded to what its host did.
func (s *simulation) checkCall(c *journal.Call, h *simHost) {
	op, _ := catalog.Lookup(c.Operation)
	if c.State != writ.CallSucceeded || h == nil || c.Driver == "supervisor" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := c.Key()
	for key.Attempt > 1 && h.uids[key] == "" { // a success of an earlier attempt that was told late is taken, if the next one was not sent
		key.Attempt--
	}
	out, ok := c.Values["stdout"].(string)
	if op.Repeat == catalog.Resume { // an earlier attempt may have run the program
		key.Attempt = min(key.Attempt, max(keyOf(out).Attempt, 1))
	}
	if ok && out != key.String() {
		s.t.Errorf("call %d of run %s took the result of %v for that of %s", c.Seq, c.Run, out, key)
	}
	if op.Repeat != catalog.Safe && h.once[key] != 1 {
		s.t.Errorf("%s succeeded, and took effect %d times", key, h.once[key])
	}
	if uid, ok := h.uids[key]; op.Effect == catalog.Make && (!ok || uid != c.UID || !h.made[c.UID]) {
		s.t.Errorf("%s %s succeeded as %s; its host did it to %q", c.Operation, c.Name, c.UID, uid)
	}
}
