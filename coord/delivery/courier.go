package delivery

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
	// carriedAtOnce limits the submissions in flight to one datacenter. A supervisor commits concurrent submissions as a
	// group.
	carriedAtOnce = 32
	// Submissions per round, divided equally among the projects; each project gets at least leastPerProject.
	readAtOnce      = 64
	leastPerProject = 4 // submissions of one project before the next project's turn
	// longestRound is the time after which rosters and failed deliveries are checked again, even if more submissions
	// wait.
	longestRound  = time.Second
	deliverWithin = 30 * time.Second // limit of the wait for the answer to one submission
	lookAgain     = time.Second
)

// courier delivers to one datacenter for the duration of a session: rosters first, because they decide about all
// rights, then waiting submissions by project, in the order of their arrival within a project.
type courier struct {
	*Service
	*backoff
	session *link.Session
	dc      writ.DatacenterID
	log     *slog.Logger
	roster  int // version that the datacenter has

	busy sync.WaitGroup
	free chan struct{} // one token for each submission in flight
}

// Attend delivers to the datacenter of a session until the session ends.
func (s *Service) Attend(ctx context.Context, session *link.Session) {
	dc := session.Hello.Datacenter
	k := &courier{
		Service: s, backoff: newBackoff(), session: session, dc: dc, log: s.Log.With("dc", dc, "session", session.ID),
		roster: session.Hello.Roster, free: make(chan struct{}, carriedAtOnce),
	}
	s.News.Wake() // waiting clients reload the reasons of runs: these no longer wait for a connection
	// Unreported runs are read before the first delivery, because the ledger also lists a delivered run until its first
	// event arrives.
	if unreported, err := k.unreported(ctx, ""); err != nil || len(unreported) > 0 {
		k.busy.Go(func() { k.clearUnreported(ctx) })
	}
	k.run(ctx)
	k.busy.Wait()
}

func (k *courier) run(ctx context.Context) {
	bell := k.outbox.bell(k.dc)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		changed := k.Rosters.Changed.Next()
		all, err := k.deliverAll(ctx)
		if err != nil && ctx.Err() == nil {
			k.pauseAll()
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
				waits = !k.pending()
			}
		}
	}
}

// deliverAll delivers rosters and submissions for at most longestRound. all is true if no further submission waits or
// if deliveries are paused. deliverAll does not wait until the last deliveries finish.
func (k *courier) deliverAll(ctx context.Context) (all bool, err error) {
	if k.paused() {
		return true, nil
	}
	if err := k.sendRosters(ctx); err != nil {
		return false, err
	}
	passed := map[writ.ProjectID]ledger.Position{} // position of the last submission that was read, by project
	for began := time.Now(); time.Since(began) < longestRound; {
		projects, err := k.Ledger.WaitingProjects(ctx, k.dc)
		if err != nil {
			return false, err
		}
		if len(projects) == 0 {
			k.reset()
		}
		found := 0
		for _, project := range projects {
			n, err := k.sendProject(ctx, project, passed, max(readAtOnce/len(projects), leastPerProject))
			if err != nil {
				return false, err
			}
			found += n
		}
		if found == 0 || k.paused() {
			return true, nil
		}
	}
	return false, nil
}

// sendProject sends at most `most` waiting submissions of a project after its position in `passed`, and returns their
// number.
func (k *courier) sendProject(
	ctx context.Context, project writ.ProjectID, passed map[writ.ProjectID]ledger.Position, most int,
) (int, error) {
	if k.projectPaused(project) {
		return 0, nil
	}
	k.forgetFinished()
	waiting, err := k.Ledger.Waiting(ctx, k.dc, project, passed[project], most)
	if err != nil {
		return 0, err
	}
	for _, s := range waiting {
		if k.paused() {
			break
		}
		passed[project] = ledger.PositionOf(s)
		if err := k.send(ctx, s); err != nil {
			return 0, err
		}
	}
	return len(waiting), nil
}

// sendRosters updates the roster of the datacenter to the newest version. No submission is sent before this succeeds,
// because the datacenter would verify the submission with outdated rights.
func (k *courier) sendRosters(ctx context.Context) error {
	newest, err := k.Rosters.Newest(ctx)
	if err != nil || newest.Version <= k.roster {
		return err
	}
	k.roster, err = pushRosters(ctx, k.Rosters, k.session, k.roster)
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
	release, ok := k.outbox.hold(s.Payload)
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
	run, err := k.submit(ctx, s.Payload)
	result := "delivered"
	switch {
	case err == nil:
		err = k.Ledger.Deliver(ctx, s.Payload, run)
	case decided(err):
		result = "refused"
		k.Refusals.Record(ctx, log, "submission", err)
		err = k.Ledger.Reject(ctx, s.Payload, writ.SubmissionRefused, writ.AsError(err))
	}
	switch {
	case err == nil:
		k.submissions.WithLabelValues(result).Inc()
		k.done(s)
		log.DebugContext(ctx, "submission "+result)
	case writ.CodeOf(err) == writ.CodeConflict: // another coordinator has delivered it, so it no longer waits
		k.done(s)
		if times, say := k.Lines.Say(result+" too late "+string(k.dc), time.Now()); say {
			log.WarnContext(ctx, "submission "+result+" too late", "err", err, "times", times)
		}
	case ctx.Err() == nil:
		k.retryLater(s, err)
		// Thousands of submissions may fail with the same error, so Lines limits the log lines.
		if times, say := k.Lines.Say("deliver "+string(k.dc)+" "+string(writ.CodeOf(err)), time.Now()); say {
			log.WarnContext(ctx, "deliver submissions; trying again", "code", writ.CodeOf(err), "err", err, "times", times)
		}
	}
}

// submit sends a submission to the datacenter and returns its run.
func (k *courier) submit(ctx context.Context, payload writ.Digest) (run writ.Run, err error) {
	signed, err := k.Ledger.Signed(ctx, payload)
	if err != nil {
		return run, err
	}
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	err = k.session.Request(ctx, link.VerbSubmit, link.Submit{Signed: signed}, &run)
	live.BoundReason(&run.Why, &run.Reason)
	return run, err
}

// decided reports whether err is a decision of the datacenter, rather than a temporary inability to decide.
func decided(err error) bool {
	e, ok := errors.AsType[*writ.Error](err)
	return ok && e.Decided()
}

// done records that a submission is completed.
func (k *courier) done(s writ.Submission) {
	k.outbox.forget(s.Payload)
	k.News.Wake()
	k.backoff.done(s)
}

// retryLater keeps a submission waiting and records the reason.
func (k *courier) retryLater(s writ.Submission, err error) {
	k.outbox.note(s.Payload, err)
	k.News.Wake() // the ledger is unchanged, but there is a new reason to show
	k.failed(s, writ.CodeOf(err))
}
