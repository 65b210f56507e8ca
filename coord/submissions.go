package coord

import (
	"context"
	"time"

	"writ"
	"writ/identity"
	"writ/ledger"
	"writ/supervisor/link"
)

// Submit verifies and records a signed script. Its datacenter gets it once it is connected. If the same payload was
// submitted before, Submit returns the state of the first submission.
func (c *Coordinator) Submit(ctx context.Context, signed []byte, remote string) (writ.Submission, error) {
	log := c.Log.With("remote", remote)
	v, err := c.check(ctx, signed)
	if err != nil {
		c.refusals.Record(ctx, log, "submission", err)
		return writ.Submission{}, err
	}
	log = log.With("run", v.Run, "signer", v.Signer, "dc", v.Payload.Datacenter)
	if err := c.awaitRate(ctx, v.Payload, len(signed)); err != nil {
		c.refusals.Record(ctx, log, "submission", err)
		return writ.Submission{}, err
	}
	in := ledger.Incoming{
		Submission: writ.Submission{
			Payload: v.Digest, Run: v.Run, Datacenter: v.Payload.Datacenter, Project: v.Payload.Project, Signer: v.Signer,
			Script: v.Payload.Script.Name, Received: c.Now(), Expires: v.Payload.Expires,
		},
		ProjectName: v.Payload.ProjectName,
		Deployment:  v.Payload.Deployment.Name,
		Plan:        v.Payload.Plan,
		Params:      v.Payload.Params,
		Signed:      signed,
	}
	if full := c.quota.reserve(ctx, c, v.Signer, len(signed)); full != nil {
		known, err := c.Ledger.Submission(ctx, v.Digest)
		if err != nil { // otherwise it is recorded already and takes no more room
			c.refusals.Record(ctx, log, "submission", full)
			return writ.Submission{}, full
		}
		return known, nil
	}
	s, added, err := c.Ledger.AddSubmission(ctx, in)
	if err != nil || !added {
		c.quota.release(v.Signer, len(signed))
	}
	if err != nil {
		return writ.Submission{}, err
	}
	if added {
		c.metrics.submissions.WithLabelValues("accepted").Inc()
		log.InfoContext(ctx, "submission accepted", "script", s.Script, "state", s.State)
		c.news.Wake()
	} else {
		c.metrics.submissions.WithLabelValues("repeated").Inc()
		// Anyone who has seen a submission can resend it.
		if times, say := c.lines.Say("submission repeated", time.Now()); say {
			log.InfoContext(ctx, "submission repeated", "state", s.State, "times", times)
		}
	}
	c.outbox.wake(s.Datacenter)
	return s, nil
}

// submitWithin limits the wait of a submission for the rate of its project.
const submitWithin = 5 * time.Second

// usualBytes is the size of a submission that counts as one. The time to verify and compile a script grows with its
// size.
const usualBytes = 16 << 10

// awaitRate waits until the rate of a project permits a submission. It is called after the signature was verified, so
// that strangers cannot use up the rate.
func (c *Coordinator) awaitRate(ctx context.Context, p *identity.Payload, bytes int) error {
	again, err := c.projects.Wait(ctx, string(p.Project), 1+bytes/usualBytes, submitWithin)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited, "the project %s hands in more than %g submissions of %d KiB a second", p.ProjectName, c.SubmissionsPerSecond, usualBytes>>10).
			WithHint("submit again in %s, or have the coordinator started with a higher --project-rate", again.Round(time.Second)+time.Second)
	}
	return err
}

// check is the early check of a submission.
func (c *Coordinator) check(ctx context.Context, signed []byte) (*identity.Verified, error) {
	verifier, err := c.rosters.Verifier(ctx)
	if err != nil {
		return nil, err
	}
	if c.SkipEarlyCheckForTest {
		return c.unchecked(verifier.Roster, signed), nil
	}
	return verifier.Submission(signed)
}

// unchecked parses an unverified submission as far as possible. An unreadable one is for the first datacenter of the
// roster.
func (c *Coordinator) unchecked(roster *identity.Roster, signed []byte) *identity.Verified {
	text, _, err := identity.Split(signed)
	if err != nil {
		text = signed
	}
	payload, err := identity.ParsePayload(text)
	if err != nil {
		payload = &identity.Payload{Expires: c.Now().Add(time.Minute)}
		if len(roster.Datacenters) > 0 {
			payload.Datacenter = roster.Datacenters[0].ID
		}
	}
	digest := writ.DigestOf(text)
	return &identity.Verified{Payload: payload, Digest: digest, Run: writ.RunIDOf(digest), Signer: payload.Signer, Signed: signed}
}

// State verifies any other signed statement, forwards it to its datacenter and returns the answer. If the datacenter is
// not connected, nothing happens, and the client may retry until the statement expires.
func (c *Coordinator) State(ctx context.Context, signed []byte, remote string) (link.StatementAnswer, error) {
	log := c.Log.With("remote", remote)
	statement, err := c.checkStatement(ctx, signed)
	if err != nil {
		c.refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	log = log.With("subject", statement.Subject, "decision", statement.Decision, "signer", statement.Signer, "dc", statement.Datacenter)
	if err := c.awaitStatement(ctx, statement.Signer); err != nil {
		c.refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	var answer link.StatementAnswer
	err = c.links.Request(ctx, statement.Datacenter, link.VerbStatement, link.Statement{Signed: signed}, &answer, nil)
	if err != nil {
		c.refusals.Record(ctx, log, "statement", err)
		return link.StatementAnswer{}, err
	}
	c.metrics.statements.Inc()
	log.InfoContext(ctx, "statement carried out", "done", answer.Done)
	return answer, nil
}

// awaitStatement limits the rate of statements of a person. Statements do not count for projects: cancelling the runs
// of a project that submits too much must not wait for that project's rate.
func (c *Coordinator) awaitStatement(ctx context.Context, signer string) error {
	again, err := c.signers.Wait(ctx, signer, 1, submitWithin)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited, "%s signs more than %g statements a second", signer, c.signers.PerSecond).
			WithHint("try again in %s, or have the coordinator started with a higher --project-rate", again.Round(time.Second)+time.Second)
	}
	return err
}

func (c *Coordinator) checkStatement(ctx context.Context, signed []byte) (*identity.Statement, error) {
	if c.SkipEarlyCheckForTest {
		text, _, err := identity.Split(signed)
		if err != nil {
			return nil, err
		}
		return identity.ParseStatement(text)
	}
	verifier, err := c.rosters.Verifier(ctx)
	if err != nil {
		return nil, err
	}
	v, err := verifier.Statement(signed)
	if err != nil {
		return nil, err
	}
	return v.Statement, nil
}

// expireAtOnce is the number of submissions that are read from the ledger at a time.
const expireAtOnce = 100

// expire ends submissions that waited too long. It skips a submission that is being delivered: the datacenter decides
// about it.
func (c *Coordinator) expire(ctx context.Context) {
	for more := true; more; {
		overdue, err := c.Ledger.Overdue(ctx, c.Now(), expireAtOnce)
		if err != nil {
			if ctx.Err() == nil {
				c.Log.WarnContext(ctx, "find expired submissions", "err", err)
			}
			return
		}
		ended := 0
		for _, s := range overdue {
			release, free := c.outbox.hold(s.Payload)
			if !free {
				continue
			}
			if c.expireOne(ctx, s) {
				ended++
			}
			release()
		}
		more = len(overdue) == expireAtOnce && ended > 0
	}
}

// expireOne reports whether the submission no longer waits.
func (c *Coordinator) expireOne(ctx context.Context, s writ.Submission) bool {
	log := c.Log.With("run", s.Run, "dc", s.Datacenter)
	reason := writ.Errorf(writ.CodeExpired, "it could be accepted until %s, and its datacenter did not take it before", s.Expires.Format(time.RFC3339))
	if trouble := c.outbox.trouble(s.Payload); trouble != nil {
		reason = writ.Errorf(writ.CodeExpired, "it could be accepted until %s; until then its datacenter said: %s", s.Expires.Format(time.RFC3339), trouble.Message)
	}
	err := c.Ledger.Reject(ctx, s.Payload, writ.SubmissionExpired, reason.WithHint("sign it again, with a longer --expires if the datacenter may be away for long"))
	switch {
	case err == nil:
		c.metrics.submissions.WithLabelValues("expired").Inc()
		log.InfoContext(ctx, "submission expired", "expires", s.Expires)
		c.outbox.forget(s.Payload)
		c.news.Wake()
		return true
	case writ.CodeOf(err) == writ.CodeConflict:
		return true // its datacenter decided in the meantime
	default:
		if ctx.Err() == nil {
			log.WarnContext(ctx, "expire submission", "err", err)
		}
		return false
	}
}
