package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

// maxPermits bounds the payloads that a runner remembers to have verified.
const maxPermits = 64

// permits lets a node see for itself that somebody with the right to do so signed for what deletes or overwrites data: a supervisor
// that was taken over can keep a node busy, but not make it destroy what nobody signed for.
type permits struct {
	member  *Member
	door    nodes.Backend
	now     func() time.Time
	refresh func(ctx context.Context) error // fetches newer rosters

	mu   sync.Mutex
	seen map[writ.Digest]permit
}

// permit is a verified payload, as long as roster and acceptance are those that it was verified with.
type permit struct {
	payload  *identity.Payload
	roster   int
	accepted int64
}

// check returns nil if the user's payload allows the job. It waits for a door that does not answer until ctx ends.
func (p *permits) check(ctx context.Context, job *writ.Job, operation *catalog.Operation) error {
	if run := writ.RunIDOf(job.Payload); run != job.Run {
		return writ.Errorf(writ.CodeOperationNotAllowed, "the job is one of the run %s and names the payload of the run %s", job.Run, run)
	}
	payload, err := p.payload(ctx, job)
	switch {
	case err != nil:
		return err
	case !slices.Contains(payload.Allow, operation.Name()):
		return writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not allow %s", operation.Name())
	case !payload.Destructive:
		return writ.Errorf(writ.CodeDestructiveDenied, "%s destroys, and the script was signed with `destructive: no`", operation.Name())
	case payload.Project != job.Project:
		return writ.Errorf(writ.CodeRoleMissing, "the script was signed for the project %s, the job is about %s", payload.Project, job.Project)
	}
	if end := time.UnixMilli(job.Accepted).Add(payload.Deadline); p.now().After(end.Add(identity.Skew)) {
		return writ.Errorf(writ.CodeRunExpired, "the run's deadline was %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// payload returns the verified payload of a job.
func (p *permits) payload(ctx context.Context, job *writ.Job) (*identity.Payload, error) {
	p.mu.Lock()
	known, ok := p.seen[job.Payload]
	p.mu.Unlock()
	if ok && known.roster == p.member.Roster().Version && known.accepted == job.Accepted {
		return known.payload, nil
	}
	for {
		payload, err := p.fetch(ctx, job)
		if err == nil || !writ.AsError(err).Retryable() || !sleep(ctx, retryAfter) {
			return payload, err
		}
	}
}

// fetch gets the payload from the door and verifies it with the newest roster.
func (p *permits) fetch(ctx context.Context, job *writ.Job) (*identity.Payload, error) {
	signed, err := p.door.Payload(ctx, job.Payload)
	if ctx.Err() != nil {
		return nil, writ.Errorf(writ.CodeUnreachable, "the supervisor's door did not give the payload in time")
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
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the supervisor's door gave the payload %s for %s", verified.Digest, job.Payload)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxPermits {
		clear(p.seen)
	}
	p.seen[job.Payload] = permit{verified.Payload, roster.Version, job.Accepted}
	return verified.Payload, nil
}

func (p *permits) verifier(roster *identity.Roster) *identity.Verifier {
	return &identity.Verifier{Roster: roster, Datacenter: p.member.Datacenter(), Now: p.now}
}
