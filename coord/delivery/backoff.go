package delivery

import (
	"sync"
	"time"

	"writ"
)

const (
	firstPause = time.Second // first pause after a datacenter could not accept a submission; doubles each time
	// lastPause limits the doubling. It is short, because an operator who repairs the cause waits for the next attempt.
	lastPause = 5 * time.Second
	retryOne  = 5 * time.Second // pause of one submission after an error that only time or a newer roster resolves
)

// pause is the time until the next attempt after a failed delivery.
type pause struct {
	length time.Duration // 0 after a success
	until  time.Time
}

// begin doubles the previous pause. A failure during a pause belongs to an earlier request and does not extend the
// pause.
func (p *pause) begin(now time.Time) {
	if now.Before(p.until) {
		return
	}
	p.length = min(max(2*p.length, firstPause), lastPause)
	p.until = now.Add(p.length)
}

// backoff decides which submissions a courier may send now.
type backoff struct {
	mu       sync.Mutex
	all      pause                     // pause of all deliveries
	projects map[writ.ProjectID]*pause // pauses of projects that have reached their limit in the datacenter
	delayed  map[writ.Digest]time.Time // time of the next attempt, by failed submission
	finished map[writ.Digest]bool      // completed since the current list was read
}

func newBackoff() *backoff {
	return &backoff{
		projects: map[writ.ProjectID]*pause{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{},
	}
}

// done records a completed submission. The datacenter has answered, so the pauses of all deliveries and of the
// submission's project end.
func (b *backoff) done(s writ.Submission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.delayed, s.Payload)
	delete(b.projects, s.Project)
	b.finished[s.Payload] = true
	b.all = pause{}
}

// forgetFinished runs before a list of waiting submissions is read: the ledger no longer lists completed ones.
func (b *backoff) forgetFinished() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.finished)
}

// isFinished reports whether a submission was completed after the current list was read.
func (b *backoff) isFinished(payload writ.Digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.finished[payload]
}

// reset ends all pauses, because no submission waits.
func (b *backoff) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.delayed)
	clear(b.projects)
	b.all = pause{}
}

// failed delays the next attempt after an error. An error about the validity time, the roster or the submission's own
// row in the ledger delays only this submission, a rate limit delays its project, and any other error delays all
// deliveries.
func (b *backoff) failed(s writ.Submission, code writ.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := time.Now()
	switch code {
	case writ.CodeNotYetValid, writ.CodeRosterTooOld, writ.CodeNotFound, writ.CodeExecError:
		again = again.Add(retryOne)
	case writ.CodeRateLimited:
		if b.projects[s.Project] == nil {
			b.projects[s.Project] = new(pause)
		}
		b.projects[s.Project].begin(again)
	default:
		b.all.begin(again)
	}
	b.delayed[s.Payload] = again // so that pending reports it even if another delivery ends the pause
}

// pauseAll begins a pause of all deliveries.
func (b *backoff) pauseAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.begin(time.Now())
}

// paused reports whether all deliveries are paused.
func (b *backoff) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.all.until)
}

// projectPaused reports whether the deliveries of a project are paused.
func (b *backoff) projectPaused(project writ.ProjectID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.projects[project]
	return p != nil && time.Now().Before(p.until)
}

// pending reports whether a failed delivery is due now.
func (b *backoff) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().After(b.all.until) && (b.all.length > 0 || len(b.delayed) > 0)
}

// due reports whether a submission may be sent now.
func (b *backoff) due(payload writ.Digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !time.Now().Before(b.delayed[payload])
}
