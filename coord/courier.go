package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"writ"
	"writ/coord/live"
	"writ/ledger"
	"writ/supervisor/link"
)

const (
	// Submissions in flight to one datacenter; a supervisor commits concurrent ones as a group.
	carriedAtOnce = 32
	// Submissions of all projects per round, if each project gets at least leastPerProject.
	readAtOnce      = 64
	leastPerProject = 4 // submissions of one project before the next project's turn
	// Afterwards, rosters and failed deliveries are checked again even if more is waiting.
	longestRound  = time.Second
	deliverWithin = 30 * time.Second // for the answer to one submission
	firstPause    = time.Second      // after a datacenter could not accept a submission; doubles each time
	// Limit of the doubling, short because operators watch whether their repair helped.
	lastPause = 5 * time.Second
	retryOne  = 5 * time.Second // for errors that only time or a newer roster resolves
	lookAgain = time.Second
)

// courier delivers to one datacenter for the duration of a session: rosters first, because they decide about all
// rights, then waiting submissions by project, in the order of their arrival within a project.
type courier struct {
	c       *Coordinator
	session *link.Session
	dc      writ.DatacenterID
	log     *slog.Logger
	roster  int // version that the datacenter has

	busy sync.WaitGroup
	free chan struct{} // one token for each submission in flight

	mu       sync.Mutex
	all      rest                      // pause of all deliveries
	projects map[writ.ProjectID]*rest  // projects from which the datacenter accepts no more for now
	delayed  map[writ.Digest]time.Time // time of the next attempt, by failed submission
	finished map[writ.Digest]bool      // completed since the current list was read
}

// rest is the pause after a failed delivery.
type rest struct {
	pause time.Duration // 0 after a success
	until time.Time
}

// begin doubles the previous pause. A failure during a pause comes from an earlier request and does not extend it.
func (r *rest) begin(now time.Time) {
	if now.Before(r.until) {
		return
	}
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	r.until = now.Add(r.pause)
}

// attend delivers to the datacenter of a session until the session ends.
func (c *Coordinator) attend(ctx context.Context, session *link.Session) {
	dc := session.Hello.Datacenter
	k := &courier{
		c: c, session: session, dc: dc, log: c.Log.With("dc", dc, "session", session.ID),
		roster: session.Hello.Roster, free: make(chan struct{}, carriedAtOnce),
		projects: map[writ.ProjectID]*rest{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{},
	}
	c.news.Wake() // waiting runs have another reason now
	k.busy.Go(func() { k.clearUnreported(ctx) })
	k.run(ctx)
	k.busy.Wait()
}

func (k *courier) run(ctx context.Context) {
	bell := k.c.outbox.bell(k.dc)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		changed := k.c.rosters.Changed.Next()
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

// bring delivers rosters and submissions for at most longestRound, and reports whether it reached the end of the list.
// It does not wait for the last deliveries to finish.
func (k *courier) bring(ctx context.Context) (all bool, err error) {
	if k.rests() {
		return true, nil
	}
	if err := k.bringRosters(ctx); err != nil {
		return false, err
	}
	passed := map[writ.ProjectID]ledger.Position{} // position of the round by project
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

// sendProject sends at most `most` waiting submissions of a project, from the position in passed, and returns their
// number.
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

// bringRosters updates the roster of the datacenter to the newest version. Until it succeeds, no submission is sent:
// the datacenter would verify it with outdated rights.
func (k *courier) bringRosters(ctx context.Context) error {
	newest, err := k.c.rosters.Newest(ctx)
	if err != nil || newest.Version <= k.roster {
		return err
	}
	k.roster, err = k.c.pushRosters(ctx, k.session, k.roster)
	return err
}

// send delivers a submission in a new goroutine once a token is free. It skips a submission that is not due or that
// another goroutine holds.
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

// deliver delivers one submission and records the decision of the datacenter.
func (k *courier) deliver(ctx context.Context, s writ.Submission) {
	log := k.log.With("run", s.Run)
	run, err := k.hand(ctx, s.Payload)
	result := "delivered"
	switch {
	case err == nil:
		err = k.c.Ledger.Deliver(ctx, s.Payload, run)
	case decided(err):
		result = "refused"
		k.c.refusals.Record(ctx, log, "submission", err)
		err = k.c.Ledger.Reject(ctx, s.Payload, writ.SubmissionRefused, writ.AsError(err))
	}
	switch {
	case err == nil:
		k.c.metrics.submissions.WithLabelValues(result).Inc()
		k.done(s)
		log.DebugContext(ctx, "submission "+result)
	case writ.CodeOf(err) == writ.CodeConflict: // it was delivered elsewhere before and no longer waits
		k.done(s)
		if times, say := k.c.lines.Say(result+" too late "+string(k.dc), time.Now()); say {
			log.WarnContext(ctx, "submission "+result+" too late", "err", err, "times", times)
		}
	case ctx.Err() == nil:
		k.later(s, err)
		// Thousands may fail alike.
		if times, say := k.c.lines.Say("deliver "+string(k.dc)+" "+string(writ.CodeOf(err)), time.Now()); say {
			log.WarnContext(ctx, "deliver submissions; trying again", "code", writ.CodeOf(err), "err", err, "times", times)
		}
	}
}

// hand sends a submission to the datacenter and returns its run.
func (k *courier) hand(ctx context.Context, payload writ.Digest) (run writ.Run, err error) {
	signed, err := k.c.Ledger.Signed(ctx, payload)
	if err != nil {
		return run, err
	}
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	err = k.session.Request(ctx, link.VerbSubmit, link.Submit{Signed: signed}, &run, nil)
	live.BoundReason(&run.Why, &run.Reason)
	return run, err
}

// decided reports whether err is a decision of the datacenter, rather than a temporary inability to decide.
func decided(err error) bool {
	e, ok := errors.AsType[*writ.Error](err)
	return ok && e.Decided()
}

// done removes a submission from all pauses. Since the datacenter has answered, the other pauses end too.
func (k *courier) done(s writ.Submission) {
	k.c.outbox.forget(s.Payload)
	k.c.news.Wake()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.delayed, s.Payload)
	delete(k.projects, s.Project)
	k.finished[s.Payload] = true
	k.all = rest{}
}

// forgetFinished runs before a list is read: the list no longer contains submissions that are recorded as delivered.
func (k *courier) forgetFinished() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.finished)
}

// isFinished reports whether a submission was completed after the current list was read.
func (k *courier) isFinished(payload writ.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.finished[payload]
}

// content ends all pauses, because no submission waits.
func (k *courier) content() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.delayed)
	clear(k.projects)
	k.all = rest{}
}

// later keeps a submission waiting and records the reason. An error about its validity time or the roster delays only
// this submission, a rate limit delays its project, and any other error delays all deliveries.
func (k *courier) later(s writ.Submission, err error) {
	k.c.outbox.note(s.Payload, err)
	k.c.news.Wake() // the ledger is unchanged, but there is a new reason to show
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
	k.delayed[s.Payload] = again // it stays due even if another delivery ends the pause
}

// rest begins a pause of all deliveries.
func (k *courier) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all.begin(time.Now())
}

// rests reports whether all deliveries are paused.
func (k *courier) rests() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.all.until)
}

// projectRests reports whether the deliveries of a project are paused.
func (k *courier) projectRests(project writ.ProjectID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.projects[project]
	return r != nil && time.Now().Before(r.until)
}

// owes reports whether a failed delivery is due now.
func (k *courier) owes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().After(k.all.until) && (k.all.pause > 0 || len(k.delayed) > 0)
}

// due reports whether a submission may be sent now.
func (k *courier) due(payload writ.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.delayed[payload])
}
