package delivery

import (
	"context"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
)

// Submit verifies and records a signed script. A courier delivers it once its datacenter is connected. If the same
// payload was submitted before, Submit returns the state of the first submission.
func (s *Service) Submit(ctx context.Context, signed []byte, remote string) (writ.Submission, error) {
	log := s.Log.With("remote", remote)
	v, err := s.check(ctx, signed)
	if err != nil {
		s.Refusals.Record(ctx, log, "submission", err)
		return writ.Submission{}, err
	}
	log = log.With("run", v.Run, "signer", v.Signer, "dc", v.Payload.Datacenter)
	if err := s.awaitRate(ctx, v.Payload, len(signed)); err != nil {
		s.Refusals.Record(ctx, log, "submission", err)
		return writ.Submission{}, err
	}
	in := ledger.Incoming{
		Submission: writ.Submission{
			Payload: v.Digest, Run: v.Run, Datacenter: v.Payload.Datacenter, Project: v.Payload.Project, Signer: v.Signer,
			Script: v.Payload.Script.Name, Received: s.Now(), Expires: v.Payload.Expires,
		},
		ProjectName: v.Payload.ProjectName,
		Deployment:  v.Payload.Deployment.Name,
		Plan:        v.Payload.Plan,
		Params:      v.Payload.Params,
		LogsOnly:    v.Payload.LogsOnly(),
		Signed:      signed,
	}
	if full := s.Quota.reserve(ctx, s.Ledger, v.Signer, len(signed)); full != nil {
		known, err := s.Ledger.Submission(ctx, v.Digest)
		if err != nil { // otherwise the submission is recorded already and needs no more room
			s.Refusals.Record(ctx, log, "submission", full)
			return writ.Submission{}, full
		}
		return known, nil
	}
	submission, added, err := s.Ledger.AddSubmission(ctx, in)
	if err != nil || !added {
		s.Quota.release(v.Signer, len(signed))
	}
	if err != nil {
		return writ.Submission{}, err
	}
	if added {
		s.submissions.WithLabelValues("accepted").Inc()
		log.InfoContext(ctx, "submission accepted", "script", submission.Script, "state", submission.State)
		s.News.Wake()
	} else {
		s.submissions.WithLabelValues("repeated").Inc()
		// Anyone with a copy of a submission can resend it, so Lines limits the log lines.
		if times, say := s.Lines.Say("submission repeated", time.Now()); say {
			log.InfoContext(ctx, "submission repeated", "state", submission.State, "times", times)
		}
	}
	s.outbox.wake(submission.Datacenter)
	return submission, nil
}

// submitWithin limits the wait of a submission for the rate of its project.
const submitWithin = 5 * time.Second

// usualBytes is the number of bytes up to which a submission counts as one. Each further usualBytes count as one more.
// The time to verify and compile a script grows with its size.
const usualBytes = 16 << 10

// awaitRate waits until the rate of a project permits a submission. It is called after the signature was verified, so
// that strangers cannot use up the rate.
func (s *Service) awaitRate(ctx context.Context, p *identity.Payload, bytes int) error {
	again, err := s.Projects.Wait(ctx, string(p.Project), 1+bytes/usualBytes, submitWithin)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited, "the project %s hands in more than %g submissions of %d KiB a second",
			p.ProjectName, s.SubmissionsPerSecond, usualBytes>>10).
			WithHint("submit again in %s, or ask an operator to start the coordinator with a higher --project-rate",
				again.Round(time.Second)+time.Second)
	}
	return err
}

// check is the early check of a submission.
func (s *Service) check(ctx context.Context, signed []byte) (*identity.Verified, error) {
	verifier, err := s.Rosters.Verifier(ctx)
	if err != nil {
		return nil, err
	}
	if s.SkipEarlyCheck {
		return s.unchecked(verifier.Roster, signed), nil
	}
	return verifier.Submission(signed)
}

// unchecked parses an unverified submission as far as possible. It assigns an unreadable submission to the first
// datacenter of the roster.
func (s *Service) unchecked(roster *identity.Roster, signed []byte) *identity.Verified {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		text = signed
	}
	payload, err := identity.ParsePayload(text)
	if err != nil {
		payload = &identity.Payload{Expires: s.Now().Add(time.Minute)}
		if len(roster.Datacenters) > 0 {
			payload.Datacenter = roster.Datacenters[0].ID
		}
	}
	digest := writ.DigestOf(text)
	return &identity.Verified{Payload: payload, Digest: digest, Run: writ.RunIDOf(digest), Signer: payload.Signer}
}
