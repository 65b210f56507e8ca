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
	carriedAtOnce = 32               // submissions on their way to one datacenter; a supervisor commits those that come together in one group
	pageOfWaiting = 100              // submissions that are read from the ledger at once
	deliverWithin = 30 * time.Second // for the answer to one submission
	firstPause    = time.Second      // after a datacenter could not take something, doubling
	lastPause     = 5 * time.Second  // up to this: whoever ended the trouble looks whether that helped
	retryOne      = 5 * time.Second  // for what only time or a newer roster helps
	lookAgain     = time.Second
)

// courier brings one datacenter what is for it, as long as a session stands: rosters first, because they decide who may do what, then
// waiting submissions in the order in which they came.
type courier struct {
	c       *Coordinator
	session *link.Session
	dc      writ.DatacenterID
	log     *slog.Logger
	roster  int // the version that the datacenter has

	busy sync.WaitGroup
	free chan struct{} // a token for each submission on its way

	mu       sync.Mutex
	pause    time.Duration             // of the last pause, 0 after a success
	until    time.Time                 // nothing is brought before this
	delayed  map[writ.Digest]time.Time // when to try again what could not be delivered
	finished map[writ.Digest]bool      // that waited when this round began and do so no more
}

// attend is told of each session and stays with it to its end.
func (c *Coordinator) attend(ctx context.Context, session *link.Session) {
	dc := session.Hello.Datacenter
	k := &courier{
		c: c, session: session, dc: dc, log: c.Log.With("dc", dc, "session", session.ID),
		roster: session.Hello.Roster, free: make(chan struct{}, carriedAtOnce),
		delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{},
	}
	c.news.wake() // what waits does so for another reason now
	k.busy.Go(func() { k.clearDoubts(ctx) })
	k.run(ctx)
	k.busy.Wait()
}

func (k *courier) run(ctx context.Context) {
	bell := k.c.outbox.bell(k.dc)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		changed := k.c.rosters.changed.next()
		if err := k.bring(ctx); err != nil && ctx.Err() == nil {
			k.rest()
			k.log.WarnContext(ctx, "cannot bring the datacenter what is for it", "err", err)
		}
		for waits := true; waits; {
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

// bring goes once through everything that is for the datacenter. It does not wait for what it sent off last.
func (k *courier) bring(ctx context.Context) error {
	if k.rests() {
		return nil
	}
	k.begin()
	if err := k.bringRosters(ctx); err != nil {
		return err
	}
	var after ledger.Position
	for {
		waiting, err := k.c.Ledger.Waiting(ctx, k.dc, after, pageOfWaiting)
		if err != nil {
			return err
		}
		if len(waiting) == 0 && after == (ledger.Position{}) {
			k.content()
		}
		for _, s := range waiting {
			after = ledger.PositionOf(s)
			if k.rests() {
				return nil
			}
			if err := k.send(ctx, s); err != nil {
				return err
			}
		}
		if len(waiting) < pageOfWaiting {
			return nil
		}
	}
}

// bringRosters makes the datacenter's roster the newest. Without that nothing else is brought: it would be judged by old rights.
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
		k.done(s.Payload)
		log.DebugContext(ctx, "submission "+result)
	case writ.CodeOf(err) == writ.CodeConflict: // it was somewhere else before, and is no longer waiting
		k.done(s.Payload)
		log.WarnContext(ctx, "submission "+result+" too late", "err", err)
	case ctx.Err() == nil:
		level := slog.LevelWarn
		if before := k.c.outbox.trouble(s.Payload); before != nil && before.Code == writ.CodeOf(err) {
			level = slog.LevelDebug // said before, and maybe for thousands
		}
		k.later(s.Payload, err)
		log.Log(ctx, level, "submission cannot be delivered yet", "code", writ.CodeOf(err), "err", err)
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
	if !ok || e.Retryable() {
		return false
	}
	switch e.Code {
	case writ.CodeInternal, writ.CodeExecError, writ.CodeVerbUnsupported:
		return false
	}
	return true
}

// done forgets that a submission ever waited. The datacenter answers, so others need not wait either.
func (k *courier) done(payload writ.Digest) {
	k.c.outbox.forget(payload)
	k.c.news.wake()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.delayed, payload)
	k.finished[payload] = true
	k.pause, k.until = 0, time.Time{}
}

// begin begins a round. What is recorded as delivered by now is not read as waiting any more.
func (k *courier) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.finished)
}

// isFinished reports whether a submission was delivered since the round began: the list that it stands in is older than that.
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
	k.pause, k.until = 0, time.Time{}
}

// later leaves a submission waiting, visibly. Whatever is not its own fault concerns all the others too.
func (k *courier) later(payload writ.Digest, err error) {
	k.c.outbox.note(payload, err)
	k.c.news.wake() // nothing was stored, but there is a new reason to show
	again := time.Now()
	switch writ.CodeOf(err) {
	case writ.CodeNotYetValid, writ.CodeRosterTooOld:
		again = again.Add(retryOne)
	default:
		k.rest()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delayed[payload] = again // it is owed also if another one, delivered meanwhile, ends the pause
}

// rest makes a pause, twice as long as the one before. What fails during a pause was sent before it and does not make it longer.
func (k *courier) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Before(k.until) {
		return
	}
	k.pause = min(max(2*k.pause, firstPause), lastPause)
	k.until = now.Add(k.pause)
}

// rests reports whether there is a pause.
func (k *courier) rests() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.until)
}

// owes reports whether something is to be tried again now.
func (k *courier) owes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().After(k.until) && (k.pause > 0 || len(k.delayed) > 0)
}

// due reports whether a submission may be tried now.
func (k *courier) due(payload writ.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.delayed[payload])
}
