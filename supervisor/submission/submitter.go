// Package submission accepts signed submissions: it checks their scripts, limits and deployments, and creates their
// runs. It does not advance runs: package workflow does.
package submission

import (
	"context"
	"errors"
	"log/slog"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/scripts"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/program"
	"writ/supervisor/query"
	"writ/supervisor/quota"
	"writ/supervisor/rosters"
	"writ/supervisor/secrets"
)

// Submitter accepts or refuses submissions. All fields are required.
type Submitter struct {
	Journal    *journal.Journal
	Datacenter writ.DatacenterID
	Answers    *answers.Store
	Records    *query.Reader
	Programs   *program.Store
	Checks     *Checker
	Quota      *quota.Open
	Verifier   func() *identity.Verifier // verifier with the newest roster
	// Begin starts the first step of an accepted run.
	Begin func(run *journal.Run)
	Log   *slog.Logger
}

// Submit verifies a signed submission, checks its script and accepts or refuses it. An accepted submission is stored
// with its run before Submit returns. A refusal that is a decision is signed and stored. Submitting the same text again
// returns the same answer and has no other effect.
func (s *Submitter) Submit(ctx context.Context, signed []byte) (writ.Run, error) {
	if text, _, err := sshsig.Split(signed); err == nil {
		digest := writ.DigestOf(text)
		whole := program.SignedDigestOf(digest, signed)
		if run, ok := s.repeated(ctx, digest, whole); ok {
			return run, nil
		}
		if refused := s.Answers.RefusedAgain(ctx, digest, whole); refused != nil {
			return writ.Run{}, refused
		}
	}
	var run writ.Run
	err := rosters.WithNewest(s.Verifier, func(verifier *identity.Verifier) (err error) {
		if run, err = s.submit(ctx, verifier, signed); err != nil && !errors.Is(err, rosters.ErrChanged) {
			run, err = s.refuse(ctx, verifier, signed, err)
		}
		return err
	})
	return run, err
}

// refuse refuses a submission. If it was accepted before, it returns the run.
func (s *Submitter) refuse(
	ctx context.Context, verifier *identity.Verifier, signed []byte, why error,
) (writ.Run, error) {
	err := s.Answers.Refuse(ctx, sshsig.ScriptNamespace, verifier, signed, why)
	if !errors.Is(err, answers.ErrDecided) {
		return writ.Run{}, err
	}
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return writ.Run{}, err
	}
	return s.Records.Run(ctx, writ.RunIDOf(writ.DigestOf(text)))
}

// repeated returns the run of a submission that was accepted before, without verifying the signature again. A
// coordinator may repeat a submission at any rate. ok is false if the submission is not known to be accepted.
func (s *Submitter) repeated(
	ctx context.Context, text writ.Digest, signed program.ShortDigest,
) (run writ.Run, ok bool) {
	id := writ.RunIDOf(text)
	if !s.Programs.IsAccepted(id, signed) {
		return run, false
	}
	run, err := s.Records.Run(ctx, id)
	return run, err == nil
}

// submit verifies, checks and accepts a submission under the roster of verifier. It returns rosters.ErrChanged if the
// journal has another roster version at the time of the write.
func (s *Submitter) submit(ctx context.Context, verifier *identity.Verifier, signed []byte) (writ.Run, error) {
	verified, err := verifier.Submission(signed)
	if err != nil {
		return s.known(ctx, signed, err)
	}
	p := verified.Payload
	bundle := program.BundleOf(p)
	if err := s.Checks.Check(ctx, p, bundle); err != nil {
		return writ.Run{}, err
	}
	run := s.newRun(verified, verifier.Roster)
	if full := s.Quota.Enter(p.Project, p.ProjectName, p.MaxCalls); full != nil {
		if known, err := s.Records.Run(ctx, run.ID); err == nil { // accepted before
			return known, nil
		}
		return writ.Run{}, full
	}
	var accepted writ.Run // the run before its first step, which may start right after the commit
	added := false
	defer func() {
		if !added {
			s.Quota.AddRuns(p.Project, -1)
		}
	}()
	err = s.Journal.Write(failpoint.At(ctx, failpoint.RunAccepted), func(tx *journal.Tx) error {
		run.Accepted = tx.Now
		run.Deadline = tx.Now.Add(p.Deadline)
		isNew, newest, err := tx.AddRun(run, verifier.Roster.Version, signed)
		if err != nil {
			return err
		}
		if newest != verifier.Roster.Version { // adopting a roster rechecks open runs, and this run was not among them
			return rosters.ErrChanged
		}
		if added = isNew; !added {
			return nil
		}
		if err := secrets.CheckNamed(tx, p); err != nil {
			return err
		}
		if err := nextRevision(tx, p); err != nil {
			return err
		}
		accepted = run.Run
		shown := run.Run
		tx.AddEvents(writ.Event{Run: &shown})
		tx.Then(func() { s.begin(run, p, bundle, signed) })
		return nil
	})
	if err != nil {
		added = false
		return writ.Run{}, err
	}
	if !added {
		if refused := s.Answers.Refusal(ctx, verified.Digest); refused != nil {
			return writ.Run{}, refused
		}
		return s.Records.Run(ctx, run.ID)
	}
	s.Log.Info("run accepted", "run", accepted.ID, "signer", answers.SignedBy(accepted.Signer, verified.Certificate),
		"script", accepted.Script, "project", accepted.ProjectName)
	return accepted, nil
}

// begin starts the first step of a stored run. It passes on the run, payload, sources and signed text, so the step does
// not read them again.
func (s *Submitter) begin(run *journal.Run, p *identity.Payload, bundle scripts.Bundle, signed []byte) {
	run.Committed()
	s.Programs.Accepted(run, p, bundle, signed)
	s.Begin(run)
}

// known returns the run of a submission that has expired but was accepted in time. For every other submission it
// returns the error `refused`.
func (s *Submitter) known(ctx context.Context, signed []byte, refused error) (writ.Run, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil || writ.CodeOf(refused) != writ.CodeExpired {
		return writ.Run{}, refused
	}
	run, err := s.Records.Run(ctx, writ.RunIDOf(writ.DigestOf(text)))
	if err != nil {
		return writ.Run{}, refused
	}
	return run, nil
}

// newRun returns the run of a submission, without the times of its acceptance.
func (s *Submitter) newRun(v *identity.Verified, roster *identity.Roster) *journal.Run {
	p := v.Payload
	run := &journal.Run{
		Run: writ.Run{
			ID: v.Run, Datacenter: s.Datacenter, Project: p.Project, ProjectName: p.ProjectName, Deployment: p.Deployment.Name,
			Signer: v.Signer, Script: p.Script.Name, Payload: v.Digest, Plan: p.Plan, LogsOnly: p.LogsOnly(),
			State: writ.RunAccepted,
		},
		// the verifier checked that the roster has this datacenter
		DatacenterName: roster.Datacenter(s.Datacenter).Name,
		Roster:         roster.Version,
		Engine:         p.Engine,
		Destructive:    len(p.Targets) > 0, Targets: p.Targets, Allow: p.Allow, Uses: p.Uses, Signed: p.Created, Expires: p.Expires,
	}
	if run.Deployment != "" {
		run.Revision = p.Deployment.Base + 1
	}
	return run
}
