package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/target"
	"writ/internal/sleep"
	"writ/runner/member"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

// maxPermits limits the verified payloads in memory.
const maxPermits = 1024

// openFor is how long a run counts as open after the supervisor sent the first delivery of a job or returned the run's
// payload. Later, the node asks the node API again before it starts a job. An attacker with access to Redis may have
// delayed the job until its run had ended.
const openFor = 5 * time.Second

// permits verifies that a person signed for a job, so that a thief of the supervisor's key alone cannot make the node
// change anything. A payload is fetched and verified once per run. It is fetched again if the roster has changed, or if
// the run no longer counts as open (see openFor).
type permits struct {
	member  *member.Member
	api     nodes.Backend
	now     func() time.Time
	refresh func(ctx context.Context) error    // fetches newer rosters
	say     func(key writ.JobKey, text string) // reports why a job waits, for people

	mu     sync.Mutex
	seen   map[writ.Digest]*permit
	asking map[writ.Digest]chan struct{} // closed when the fetch of a payload has ended
}

// permit holds the permissions of a verified payload. It is valid for one roster version and acceptance time.
type permit struct {
	payload  *identity.Payload // without texts and parameters
	roster   int
	accepted int64
	end      time.Time // deadline of the run
	fetched  time.Time // start of the request for the payload
}

// isOpen reports whether the run of a job counts as open at the time `now`. Only for the first delivery, the start-by
// time shows when the job was sent.
func (p *permit) isOpen(job *writ.Job, now time.Time) bool {
	sent := time.UnixMilli(job.StartBy).Add(-nodes.StartWithin)
	return now.Sub(p.fetched) < openFor || job.Delivery == 1 && now.Sub(sent) < openFor
}

// check returns nil if the payload of the job's run allows the job. It retries while the node API is unreachable, until
// ctx ends.
func (p *permits) check(ctx context.Context, job *writ.Job, operation *catalog.Operation) error {
	if run := writ.RunIDOf(job.Payload); run != job.Run {
		return writ.Errorf(writ.CodeOperationNotAllowed, "the job belongs to run %s but names the payload of run %s",
			job.Run, run)
	}
	permit, err := p.permit(ctx, job)
	if err != nil {
		return err
	}
	payload := permit.payload
	switch {
	case !slices.Contains(payload.Allow, operation.Name()):
		return writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not allow %s", operation.Name())
	case job.Seq > payload.MaxCalls:
		return writ.Errorf(writ.CodeOperationNotAllowed, "the script was signed for %d calls, and this is call %d",
			payload.MaxCalls, job.Seq)
	case payload.Project != job.Project:
		return writ.Errorf(writ.CodeRoleMissing, "the script was signed for the project %s, the job is for %s",
			payload.Project, job.Project)
	case operation.Destructive && !target.Covered(payload.Targets, operation.Kind, job.Name):
		return writ.Errorf(writ.CodeDestructiveDenied, "the signed header does not list the %s %s as destroyable",
			operation.Kind, job.Name)
	case slices.ContainsFunc(catalog.Images(operation.Args, job.Args),
		func(image string) bool { return !slices.Contains(payload.Images, image) }):
		return writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not name the image of %s", operation.Name())
	case p.now().After(permit.end.Add(identity.Skew)):
		return writ.Errorf(writ.CodeRunExpired, "the run's deadline was %s", permit.end.UTC().Format(time.RFC3339))
	}
	return nil
}

// permit returns the permit of a job's payload. Concurrent jobs of one run share one fetch.
func (p *permits) permit(ctx context.Context, job *writ.Job) (*permit, error) {
	for {
		known, fetched := p.known(job)
		if known != nil {
			return known, nil
		}
		if fetched == nil {
			break
		}
		select {
		case <-fetched:
		case <-ctx.Done():
			return nil, errNoPayload
		}
	}
	defer p.asked(job)
	var since time.Time // time of the first failure
	for {
		found, err := p.fetch(ctx, job)
		if err == nil && !since.IsZero() {
			p.say(job.JobKey, "")
		}
		if err == nil || !writ.AsError(err).Retryable() {
			return found, err
		}
		if since.IsZero() {
			since = p.now()
			p.say(job.JobKey,
				fmt.Sprintf("%s has been waiting for the signed script from its supervisor's node API since %s UTC: %s",
					p.member.Name(), since.UTC().Format(time.TimeOnly), writ.AsError(err).Message))
		}
		if sleep.For(ctx, retryAfter) != nil {
			return found, err
		}
	}
}

// known returns the cached permit of a job. If another job fetches it, known returns a channel to wait on. If it
// returns neither, the caller must fetch the permit and call asked afterwards.
func (p *permits) known(job *writ.Job) (*permit, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.seen[job.Payload]; known != nil && known.roster == p.member.Roster().Version &&
		known.accepted == job.Accepted && known.isOpen(job, p.now()) {
		return known, nil
	}
	fetched := p.asking[job.Payload]
	if fetched == nil {
		p.asking[job.Payload] = make(chan struct{})
	}
	return nil, fetched
}

// asked wakes the jobs that wait for a payload.
func (p *permits) asked(job *writ.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.asking[job.Payload])
	delete(p.asking, job.Payload)
}

// keep caches a permit. If there are too many, it evicts the permits of expired runs first, then arbitrary ones.
func (p *permits) keep(digest writ.Digest, verified *permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxPermits {
		now := p.now()
		maps.DeleteFunc(p.seen, func(_ writ.Digest, old *permit) bool { return now.After(old.end.Add(identity.Skew)) })
	}
	for other := range p.seen {
		if len(p.seen) < maxPermits {
			break
		}
		delete(p.seen, other)
	}
	p.seen[digest] = verified
}

var errNoPayload = writ.Errorf(writ.CodeUnreachable, "the supervisor's node API did not return the payload in time")

// fetch gets the payload from the node API and verifies it with the newest roster.
func (p *permits) fetch(ctx context.Context, job *writ.Job) (*permit, error) {
	began := p.now()
	signed, err := p.api.Payload(ctx, job.Payload)
	if ctx.Err() != nil {
		return nil, errNoPayload
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the payload %s: %w", job.Payload, err)
	}
	accepted := time.UnixMilli(job.Accepted)
	roster := p.member.Roster()
	verified, err := p.verifier(roster).SubmissionAt(signed, accepted)
	if writ.CodeOf(err) == writ.CodeRosterTooOld {
		if err := p.refresh(ctx); err != nil {
			return nil, err
		}
		roster = p.member.Roster()
		verified, err = p.verifier(roster).SubmissionAt(signed, accepted)
	}
	if err != nil {
		return nil, err
	}
	if verified.Digest != job.Payload {
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the supervisor's node API returned the payload %s for %s",
			verified.Digest, job.Payload)
	}
	found := &permit{
		payload: verified.Payload.Header(), roster: roster.Version, accepted: job.Accepted,
		end: accepted.Add(verified.Payload.Deadline), fetched: began,
	}
	p.keep(job.Payload, found)
	return found, nil
}

func (p *permits) verifier(roster *identity.Roster) *identity.Verifier {
	return &identity.Verifier{Roster: roster, Datacenter: p.member.Datacenter(), Now: p.now}
}
