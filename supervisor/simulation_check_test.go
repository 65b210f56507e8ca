package supervisor_test

import (
	"context"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"writ"
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
	runs  map[writ.RunID]writ.RunState
	calls map[writ.JobKey]writ.CallState // of no try
	total int
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
	_, j, err := o.sim.door.get()
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
	for _, e := range events {
		if e.Seq != o.last+1 {
			o.sim.t.Errorf("event %d follows event %d", e.Seq, o.last)
		}
		o.last = e.Seq
		o.total++
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

// step fails the test unless the moves lead from one state to the other: what is told is where turns end, not each move in them.
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
		if !o.runs[r.id].Ended() || o.runs[r.id] == "" {
			open = append(open, r)
		}
	}
	return open
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
	s.late.Wait()
	s.until(time.Now().Add(time.Minute)) // late words arrive, wedged drivers end
	for _, n := range s.hosts {
		s.takeAway(n.process) // what could not be written while a disk was full is said again
	}
	s.until(time.Now().Add(4 * time.Minute))
	synctest.Wait()
	s.check()
	s.t.Logf("%d runs, %d events, %d lives of processes; all ended %s after the last fault", len(s.work), s.watch.total, s.lives, took)
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
		if err := <-p.ended; err != nil {
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
	_, j, err := s.door.get()
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
		s.t.Errorf("run %s is %s (%s) since %s, waits for %v", id, run.State, run.Reason, run.Accepted, run.Waiting)
		for _, c := range calls {
			s.t.Logf("  %d %s %s: %s on %s, try %d delivery %d, start by %s, %q %v", c.Seq, c.Operation, c.Name, c.State, c.NodeName, c.Try, c.Delivery,
				c.StartBy, c.Reason, c.Error)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// check holds the journal, the nodes and their hosts against each other.
func (s *simulation) check() {
	_, j, err := s.door.get()
	if err != nil {
		s.t.Fatal("there is no supervisor")
	}
	s.makers = make(map[writ.UID]string)
	hosts := make(map[writ.NodeID]*simHost)
	for _, n := range s.hosts {
		hosts[n.id] = n.host
		left, err := n.journal.Unacknowledged(s.t.Context())
		if err != nil || len(left) > 0 {
			s.t.Errorf("%s has %d results that nobody acknowledged, %v", n.name, len(left), err)
		}
		s.checkEffects(n)
	}
	err = j.Read(s.t.Context(), func(tx *journal.Tx) error {
		want := make(map[writ.NodeID]writ.Capacity)
		doubtful := make(map[writ.ResourceID]bool) // calls on them were sent and given up, or failed on the way
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
				if op, _ := catalog.Lookup(c.Operation); c.Delivery > 0 && c.State != writ.CallSucceeded && op.Effect != catalog.Look {
					doubtful[c.Resource()] = true
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
			if got := h.resources[r.ResourceID]; got != r.UID && !doubtful[r.ResourceID] {
				s.t.Errorf("the journal has the %s as %s on %s, its host has %q", r.ResourceID, r.UID, r.Node, got)
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

// checkEffects holds what happened on a host to what may happen once.
func (s *simulation) checkEffects(n *simNode) {
	n.host.mu.Lock()
	defer n.host.mu.Unlock()
	for uid := range n.host.made {
		if other := s.makers[uid]; other != "" {
			s.t.Errorf("%s was made on %s and on %s", uid, other, n.name)
		}
		s.makers[uid] = n.name
	}
	tries := make(map[writ.JobKey]int)
	for key, times := range n.host.once {
		call := writ.JobKey{Run: key.Run, Seq: key.Seq}
		if tries[call] += times; tries[call] > 1 {
			s.t.Errorf("call %d of run %s, which must not be repeated, took effect %d times on %s", key.Seq, key.Run, tries[call], n.name)
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
	for key.Try > 1 && h.uids[key] == "" { // a success of an earlier try that was told late is taken, if the next one was not sent
		key.Try--
	}
	if out, ok := c.Values["stdout"]; ok && out != key.String() {
		s.t.Errorf("call %d of run %s took the result of %v for that of %s", c.Seq, c.Run, out, key)
	}
	if op.Repeat == catalog.Once && h.once[key] != 1 {
		s.t.Errorf("%s succeeded, and took effect %d times", key, h.once[key])
	}
	if uid, ok := h.uids[key]; op.Effect == catalog.Make && (!ok || uid != c.UID || !h.made[c.UID]) {
		s.t.Errorf("%s %s succeeded as %s; its host did it to %q", c.Operation, c.Name, c.UID, uid)
	}
}
