package supervisor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/fair"
	"writ/internal/limit"
)

// maxSteps is how many runs take a step at the same time. Steps mostly wait for a shared commit, or for the evaluator, so there are more than
// cores.
const maxSteps = 128

// maxStepsBeside is how many of them one project gets while another one has some, or waits for some; alone it may have three quarters of all: see
// fair.May. Steps share processors, rounds of the evaluator and commits: with 96 of one project each step of the runs of others took three times
// as long, and it got no further itself.
const maxStepsBeside = 18

// steps gives each run its mail, one step at a time: mail that comes in during a step waits for the next one and comes together. Of the
// projects whose runs have mail the one goes first that has the fewest steps under way: a step may wait long for the evaluator.
type steps struct {
	take   func(ctx context.Context, run writ.RunID, m mail) error
	owners func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) // whose runs are that were not told with begin; those that there are not are left out
	drop   func(results []arrival)                                        // that are of runs that there are not
	log    *slog.Logger
	lines  limit.Lines // by code

	mu    sync.Mutex
	boxes map[writ.RunID]*box
	ready map[writ.ProjectID][]writ.RunID // boxes with mail whose run has no step; those whose project must be looked up are in lines apart
	order []writ.ProjectID                // of ready: who was served last comes last
	under map[writ.ProjectID]int          // steps under way
	slow  map[writ.ProjectID]int          // of those: how many wait until their project may do more, see slowed
	wake  chan struct{}
	// stalled runs could not write their step; retry lets them try again.
	stalled map[writ.RunID]bool
}

type box struct {
	project writ.ProjectID // if it is not known, the line of whoever spoke of the run: see unknown
	busy    bool
	mails   []mail
	held    map[resultID]bool // in mails, or in the step under way; nil if none was
}

// resultID tells results apart: nodes send them again until they are acknowledged.
type resultID struct {
	active
	job writ.Digest
}

func (a *arrival) id() resultID { return resultID{active{a.result.JobKey, a.node}, a.result.Job} }

func newSteps(take func(ctx context.Context, run writ.RunID, m mail) error, log *slog.Logger) *steps {
	return &steps{
		take: take, log: log, boxes: make(map[writ.RunID]*box), wake: make(chan struct{}, 1), stalled: make(map[writ.RunID]bool),
		ready: make(map[writ.ProjectID][]writ.RunID), under: make(map[writ.ProjectID]int), slow: make(map[writ.ProjectID]int),
	}
}

// queue lets a run wait for a step. The caller holds the lock.
func (t *steps) queue(run writ.RunID) {
	project := t.boxes[run].project
	if len(t.ready[project]) == 0 {
		t.order = append(t.order, project)
	}
	t.ready[project] = append(t.ready[project], run)
	t.signal()
}

// postResult gives a result to a run. It reports false if the run has it already and could not write it yet, or if too many wait of its node: then
// nothing is kept.
func (t *steps) postResult(a arrival) bool {
	t.mu.Lock()
	b := t.boxes[a.result.Run]
	known := b != nil && b.held[a.id()]
	t.mu.Unlock()
	return !known && t.postFrom(a.node, a.result.Run, mail{results: []arrival{a}})
}

// begin gives a run its first step. Before that, keep may put the run where the step finds it; it is not called if somebody else was faster
// to notice the run: then a step is under way already that has read it.
func (t *steps) begin(run writ.RunID, project writ.ProjectID, keep func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.boxes[run] == nil {
		keep()
		t.boxes[run] = &box{project: project}
	}
	t.put(run, project, mail{})
}

// post gives mail to a run, which gets a step for it. An empty mail is a plain wake-up.
func (t *steps) post(run writ.RunID, m mail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(run, "", m)
}

// postFrom gives a run what a node says of it, and reports false if too many runs wait of which the node spoke: then it drops it.
func (t *steps) postFrom(node writ.NodeID, run writ.RunID, m mail) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := unknown(node)
	if t.boxes[run] == nil && len(t.ready[line]) >= maxSpokenOf {
		return false
	}
	t.put(run, line, m)
	return true
}

// put is post for who holds the lock. line is where the run waits if nobody knows it yet.
func (t *steps) put(run writ.RunID, line writ.ProjectID, m mail) {
	b := t.boxes[run]
	if b == nil {
		b = &box{project: line}
		t.boxes[run] = b
	}
	n := len(b.mails)
	if n > 0 && m.done == nil && b.mails[n-1].done == nil {
		b.mails[n-1].add(m)
	} else {
		b.mails = append(b.mails, m)
	}
	if len(m.results) > 0 && b.held == nil {
		b.held = make(map[resultID]bool)
	}
	for i := range m.results {
		b.held[m.results[i].id()] = true
	}
	if !b.busy && !t.stalled[run] && n == 0 {
		t.queue(run)
	}
}

// has reports whether a run has a step, waits for one, or could not write its last one.
func (t *steps) has(run writ.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.boxes[run] != nil
}

// count returns how many runs take a step, wait for one, and could not write their last one.
func (t *steps) count() (under, waiting, stalled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.under {
		under += n
	}
	for _, runs := range t.ready {
		waiting += len(runs)
	}
	return under, waiting, len(t.stalled)
}

// isStalled reports whether the last step of a run could not be written, and was not tried again yet.
func (t *steps) isStalled(run writ.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stalled[run]
}

// anyStalled reports whether there is such a run.
func (t *steps) anyStalled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.stalled) > 0
}

// retry lets the runs whose last step could not be written try again.
func (t *steps) retry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for run := range t.stalled {
		delete(t.stalled, run)
		if b := t.boxes[run]; b != nil && !b.busy {
			t.queue(run)
		}
	}
	t.signal()
}

func (t *steps) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// due is a run that has a step, with what came in for it, or else the runs of a line that are to be looked up.
type due struct {
	run     writ.RunID
	project writ.ProjectID // as that of the box
	mails   []mail
	unknown []due
}

// unknown is the line of runs of which a node spoke, and whose projects must be looked up. Each node has one of its own: it may name any number
// of runs, and those that others name must not come behind them.
func unknown(node writ.NodeID) writ.ProjectID { return writ.ProjectID("?" + node) }

// forgedLine is the line of runs whose records somebody has changed: their steps say so.
const forgedLine writ.ProjectID = "!"

// isUnknown reports whether a line is one of runs whose projects must be looked up. That of whom no node spoke is "".
func isUnknown(project writ.ProjectID) bool { return project == "" || project[0] == '?' }

const (
	// maxUnknown is how many runs of such a line are looked up at a time, with one question to the journal.
	maxUnknown = 100
	// maxSpokenOf is how many runs wait in the line of a node; what it says of others is dropped, and it says so again.
	maxSpokenOf = 10_000
)

// run hands out steps until ctx ends and the steps under way are over. Who has carried out a step stays for the next one: the stack that a
// step takes grows in steps, each of which copies it.
func (t *steps) run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	work := make(chan due)
	defer close(work)
	workers := 0
	for {
		for d, ok := t.next(); ok; d, ok = t.next() {
			select {
			case work <- d:
				continue
			default:
			}
			if workers == maxSteps {
				work <- d
				continue
			}
			workers++
			group.Go(func() {
				t.serve(ctx, d)
				for d := range work {
					t.serve(ctx, d)
				}
			})
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// next takes the run out that has the next step.
func (t *steps) next() (due, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, free := -1, t.free()
	for i, project := range t.order {
		if t.may(project, free) && (first < 0 || t.under[project] < t.under[t.order[first]]) {
			first = i
		}
	}
	if first < 0 {
		return due{}, false
	}
	project := t.order[first]
	runs := t.ready[project][:1]
	if t.looksUp(project) {
		runs = t.ready[project][:min(maxUnknown, len(t.ready[project]))]
	}
	t.order = slices.Delete(t.order, first, first+1)
	if t.ready[project] = t.ready[project][len(runs):]; len(t.ready[project]) > 0 {
		t.order = append(t.order, project)
	} else {
		delete(t.ready, project)
	}
	t.under[project]++
	all := make([]due, len(runs))
	for i, run := range runs {
		b := t.boxes[run]
		b.busy = true
		all[i] = due{run: run, project: project}
		all[i].mails, b.mails = portion(b.mails)
	}
	if t.looksUp(project) {
		return due{project: project, unknown: all}, true
	}
	return all[0], true
}

// looksUp reports whether the runs of a line are looked up before they have steps.
func (t *steps) looksUp(line writ.ProjectID) bool { return isUnknown(line) && t.owners != nil }

// maxStepResults bounds the results of one step. A step is one transaction, and whoever writes at the same time waits for it: what a run has
// beyond that comes in its next step, after those of other projects.
const maxStepResults = 250

// portion divides mails into those of one step and the rest.
func portion(mails []mail) (now, rest []mail) {
	results := 0
	for i, m := range mails {
		room := maxStepResults - results
		if results += len(m.results); results <= maxStepResults {
			continue
		}
		if m.done != nil || room == 0 { // somebody waits for it as a whole
			at := max(i, 1)
			return mails[:at:at], mails[at:]
		}
		first := mail{results: m.results[:room:room]}
		m.results = slices.Clone(m.results[room:]) // what else is said, that a node was lost, may be about what one of these is the result of
		return append(slices.Clone(mails[:i]), first), append([]mail{m}, mails[i+1:]...)
	}
	return mails, nil
}

// may reports whether a line may have one more step while so many are free. The caller holds the lock.
func (t *steps) may(line writ.ProjectID, free int) bool {
	if t.under[line] >= maxStepsBeside && (t.slow[line] > 0 || t.others(line)) {
		return false
	}
	return fair.May(t.under[line], free) && (!t.looksUp(line) || t.under[line] == 0)
}

// slowed notes that a step waits until its project may do more, and returns what notes that it goes on. Meanwhile the project gets no more steps than
// beside others: those would wait, too, and all go on at once.
func (t *steps) slowed(project writ.ProjectID) (goesOn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slow[project]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.slow[project]--; t.slow[project] == 0 {
			delete(t.slow, project)
			t.signal()
		}
	}
}

// others reports whether somebody besides the project of a line has steps under way, or waits for one. The caller holds the lock.
func (t *steps) others(line writ.ProjectID) bool {
	for project := range t.under {
		if project != line {
			return true
		}
	}
	return slices.ContainsFunc(t.order, func(project writ.ProjectID) bool { return project != line })
}

// free is how many more steps there may be now. The caller holds the lock.
func (t *steps) free() int {
	free := maxSteps
	for _, n := range t.under {
		free -= n
	}
	return free
}

// serve gives a run its step, or looks up runs of whom nobody knew whose they are.
func (t *steps) serve(ctx context.Context, d due) {
	if d.unknown != nil {
		t.lookUp(ctx, d.unknown)
	} else {
		t.step(ctx, d.run, d.mails)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(d.project)
}

// lookUp finds out whose runs are, and lets them wait in the lines of their projects. What came in for a run that there is not is dropped, unless
// somebody waits for an answer: a node can name as many as it likes, and none of them gets a step.
func (t *steps) lookUp(ctx context.Context, all []due) {
	runs := make([]writ.RunID, len(all))
	for i, d := range all {
		runs[i] = d.run
	}
	owners, err := t.owners(runs)
	var none []arrival
	for _, d := range all {
		project, known := owners[d.run]
		switch {
		case known:
			t.giveBack(d, project)
		case err != nil || slices.ContainsFunc(d.mails, func(m mail) bool { return m.done != nil }):
			t.step(ctx, d.run, d.mails) // finds out what is wrong
		default:
			for _, m := range d.mails {
				none = append(none, m.results...)
			}
			t.giveBack(due{run: d.run}, d.project)
		}
	}
	if len(none) > 0 {
		t.drop(none)
	}
}

// giveBack lets a run that had no step wait in a line with what came in for it, and forgets it if that is nothing.
func (t *steps) giveBack(d due, line writ.ProjectID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.boxes[d.run]
	b.busy, b.project, b.mails = false, line, append(d.mails, b.mails...)
	if len(b.mails) == 0 {
		delete(t.boxes, d.run)
		return
	}
	t.queue(d.run)
}

// end notes that a step of a project is over. The caller holds the lock.
func (t *steps) end(project writ.ProjectID) {
	if t.under[project]--; t.under[project] == 0 {
		delete(t.under, project)
	}
	t.signal() // somebody may have waited for just that
}

// step takes mails in their order: one that somebody waits for has a step of its own, so that an error is its own. What could not be taken is kept,
// with all that came after it.
func (t *steps) step(ctx context.Context, run writ.RunID, mails []mail) {
	var kept mail
	var taken []arrival
	var failed error
	for _, m := range mails {
		switch {
		case m.done != nil:
			m.done <- t.take(ctx, run, m)
			continue
		case failed == nil:
			failed = t.take(ctx, run, m)
		}
		if failed != nil {
			kept.add(m)
		} else {
			taken = append(taken, m.results...)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.boxes[run]
	b.busy = false
	for i := range taken {
		delete(b.held, taken[i].id())
	}
	if failed != nil {
		code := writ.CodeOf(failed)
		if ctx.Err() == nil && !code.IsStoreUnavailable() && code != writ.CodeStoreDamaged && code != writ.CodeRecordForged { // these are logged once, not for each run
			if times, say := t.lines.Say(string(code), time.Now()); say {
				t.log.Warn("advance a run; trying again", "run", run, "code", code, "err", failed, "times", times)
			}
		}
		kept.compact()
		b.mails = append([]mail{kept}, b.mails...)
		t.stalled[run] = true
		return
	}
	switch {
	case len(b.mails) > 0:
		t.queue(run)
	default:
		delete(t.boxes, run)
	}
}
