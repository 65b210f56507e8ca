package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"writ"
	"writ/ledger"
	"writ/supervisor/link"
)

const (
	carriedAtOnce   = 32               // submissions on their way to one datacenter; a supervisor commits those that come together in one group
	readAtOnce      = 64               // submissions of all projects together, as far as each gets leastPerProject
	leastPerProject = 4                // submissions of one project before the next one
	longestRound    = time.Second      // then rosters, and what could not be delivered, are looked at again, however much waits
	deliverWithin   = 30 * time.Second // for the answer to one submission
	firstPause      = time.Second      // after a datacenter could not take something, doubling
	lastPause       = 5 * time.Second  // up to this: an operator who ended the trouble looks whether that helped
	retryOne        = 5 * time.Second  // for what only time or a newer roster helps
	lookAgain       = time.Second
)

// courier brings one datacenter what is for it, as long as a session stands: rosters first, because they decide who may do what, then
// waiting submissions, project by project, those of one in the order in which they came.
type courier struct {
	c       *Coordinator
	session *link.Session
	dc      writ.DatacenterID
	log     *slog.Logger
	roster  int // the version that the datacenter has

	busy sync.WaitGroup
	free chan struct{} // a token for each submission on its way

	mu       sync.Mutex
	all      rest                      // of everything
	projects map[writ.ProjectID]*rest  // of those of which the datacenter takes no more for now
	delayed  map[writ.Digest]time.Time // when to try again what could not be delivered
	finished map[writ.Digest]bool      // that waited when the list was read which is sent now, and do so no more
}

// rest is a pause after something could not be brought.
type rest struct {
	pause time.Duration // 0 after a success
	until time.Time
}

// begin makes the pause twice as long as the one before. What fails during a pause was sent before it and does not make it longer.
func (r *rest) begin(now time.Time) {
	if now.Before(r.until) {
		return
	}
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	r.until = now.Add(r.pause)
}

// attend is told of each session and stays with it to its end.
func (c *Coordinator) attend(ctx context.Context, session *link.Session) {
	dc := session.Hello.Datacenter
	k := &courier{
		c: c, session: session, dc: dc, log: c.Log.With("dc", dc, "session", session.ID),
		roster: session.Hello.Roster, free: make(chan struct{}, carriedAtOnce),
		projects: map[writ.ProjectID]*rest{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{},
	}
	c.news.wake() // what waits does so for another reason now
	k.busy.Go(func() { k.clearUnreported(ctx) })
	k.run(ctx)
	k.busy.Wait()
}

func (k *courier) run(ctx context.Context) {
	bell := k.c.outbox.bell(k.dc)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		changed := k.c.rosters.changed.next()
		all, err := k.bring(ctx)
		if err != nil && ctx.Err() == nil {
			k.rest()
			k.log.WarnContext(ctx, "deliver to the datacenter", "err", err)
		}
		for waits := all || err != nil; waits; {
			select {
			case <-ctx.Done():
				return
			case <-bell:
				waits = false
			case <-changed:
				waits = false
			case <-tick.C:
				waits = !k.owes()
			}
		}
	}
}

// bring goes through what is for the datacenter, for as long as a round may take, and reports whether that was all. It does not wait for what
// it sent off last.
func (k *courier) bring(ctx context.Context) (all bool, err error) {
	if k.rests() {
		return true, nil
	}
	if err := k.bringRosters(ctx); err != nil {
		return false, err
	}
	passed := map[writ.ProjectID]ledger.Position{} // how far the round has come
	for began := time.Now(); time.Since(began) < longestRound; {
		projects, err := k.c.Ledger.WaitingProjects(ctx, k.dc)
		if err != nil {
			return false, err
		}
		if len(projects) == 0 {
			k.content()
		}
		found := 0
		for _, project := range projects {
			n, err := k.sendProject(ctx, project, passed, max(readAtOnce/len(projects), leastPerProject))
			if err != nil {
				return false, err
			}
			found += n
		}
		if found == 0 || k.rests() {
			return true, nil
		}
	}
	return false, nil
}

// sendProject sends what waits of one project, at most so much, from where the round has passed, and returns how much that was.
func (k *courier) sendProject(ctx context.Context, project writ.ProjectID, passed map[writ.ProjectID]ledger.Position, most int) (int, error) {
	if k.projectRests(project) {
		return 0, nil
	}
	k.forgetFinished()
	waiting, err := k.c.Ledger.Waiting(ctx, k.dc, project, passed[project], most)
	if err != nil {
		return 0, err
	}
	for _, s := range waiting {
		if k.rests() {
			break
		}
		passed[project] = ledger.PositionOf(s)
		if err := k.send(ctx, s); err != nil {
			return 0, err
		}
	}
	return len(waiting), nil
}

// bringRosters makes the datacenter's roster the newest. Without that nothing else is brought: it would be verified by old rights.
func (k *courier) bringRosters(ctx context.Context) error {
	newest, err := k.c.rosters.newest(ctx, k.c)
	if err != nil || newest.Version <= k.roster {
		return err
	}
	k.roster, err = k.c.pushRosters(ctx, k.session, k.roster)
	return err
}

// send delivers a submission in a goroutine of its own, when one is free and nobody else is busy with it.
func (k *courier) send(ctx context.Context, s writ.Submission) error {
	if !k.due(s.Payload) {
		return nil
	}
	select {
	case k.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	release, ok := k.c.outbox.hold(s.Payload)
	if !ok || k.isFinished(s.Payload) {
		if ok {
			release()
		}
		<-k.free
		return nil
	}
	k.busy.Go(func() {
		k.deliver(ctx, s)
		release()
		<-k.free
	})
	return nil
}

// deliver brings one submission and records what the datacenter decided.
func (k *courier) deliver(ctx context.Context, s writ.Submission) {
	log := k.log.With("run", s.Run)
	run, err := k.hand(ctx, s.Payload)
	result := "delivered"
	switch {
	case err == nil:
		err = k.c.Ledger.Deliver(ctx, s.Payload, run)
	case decided(err):
		result = "refused"
		k.c.refused(ctx, log, "submission", err)
		err = k.c.Ledger.Reject(ctx, s.Payload, writ.SubmissionRefused, writ.AsError(err))
	}
	switch {
	case err == nil:
		k.c.metrics.submissions.WithLabelValues(result).Inc()
		k.done(s)
		log.DebugContext(ctx, "submission "+result)
	case writ.CodeOf(err) == writ.CodeConflict: // it was somewhere else before, and is no longer waiting
		k.done(s)
		if times, say := k.c.lines.Say(result+" too late "+string(k.dc), time.Now()); say {
			log.WarnContext(ctx, "submission "+result+" too late", "err", err, "times", times)
		}
	case ctx.Err() == nil:
		k.later(s, err)
		if times, say := k.c.lines.Say("deliver "+string(k.dc)+" "+string(writ.CodeOf(err)), time.Now()); say { // it may be so for thousands
			log.WarnContext(ctx, "deliver submissions; trying again", "code", writ.CodeOf(err), "err", err, "times", times)
		}
	}
}

// hand hands a submission in and returns the run that it is.
func (k *courier) hand(ctx context.Context, payload writ.Digest) (run writ.Run, err error) {
	signed, err := k.c.Ledger.Signed(ctx, payload)
	if err != nil {
		return run, err
	}
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	err = k.session.Request(ctx, link.VerbSubmit, link.Submit{Signed: signed}, &run, nil)
	return run, err
}

// decided tells a decision of the datacenter from its inability to decide, which may pass.
func decided(err error) bool {
	e, ok := errors.AsType[*writ.Error](err)
	return ok && e.Decided()
}

// done forgets that a submission ever waited. The datacenter answers, so others need not wait either.
func (k *courier) done(s writ.Submission) {
	k.c.outbox.forget(s.Payload)
	k.c.news.wake()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.delayed, s.Payload)
	delete(k.projects, s.Project)
	k.finished[s.Payload] = true
	k.all = rest{}
}

// forgetFinished is called before a list is read: what is recorded as delivered by now does not stand in it.
func (k *courier) forgetFinished() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.finished)
}

// isFinished reports whether a submission was delivered since the list was read in which it stands.
func (k *courier) isFinished(payload writ.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.finished[payload]
}

// content forgets old trouble: nothing waits.
func (k *courier) content() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.delayed)
	clear(k.projects)
	k.all = rest{}
}

// later leaves a submission waiting, visibly. What is too early concerns it alone; what is too much, its project; and whatever else it is, all.
func (k *courier) later(s writ.Submission, err error) {
	k.c.outbox.note(s.Payload, err)
	k.c.news.wake() // nothing was stored, but there is a new reason to show
	k.mu.Lock()
	defer k.mu.Unlock()
	again := time.Now()
	switch writ.CodeOf(err) {
	case writ.CodeNotYetValid, writ.CodeRosterTooOld:
		again = again.Add(retryOne)
	case writ.CodeRateLimited:
		if k.projects[s.Project] == nil {
			k.projects[s.Project] = new(rest)
		}
		k.projects[s.Project].begin(again)
	default:
		k.all.begin(again)
	}
	k.delayed[s.Payload] = again // it is owed also if another one, delivered meanwhile, ends the pause
}

// rest makes a pause.
func (k *courier) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all.begin(time.Now())
}

// rests reports whether there is a pause.
func (k *courier) rests() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.all.until)
}

// projectRests reports whether there is a pause for a project.
func (k *courier) projectRests(project writ.ProjectID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.projects[project]
	return r != nil && time.Now().Before(r.until)
}

// owes reports whether something is to be tried again now.
func (k *courier) owes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().After(k.all.until) && (k.all.pause > 0 || len(k.delayed) > 0)
}

// due reports whether a submission may be tried now.
func (k *courier) due(payload writ.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.delayed[payload])
}
