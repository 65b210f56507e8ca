package supervisor

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/program"
)

// Submit verifies a signed submission, checks its script and accepts or refuses it. An accepted submission is stored
// with its run before Submit returns. A refusal that proves a decision is signed and stored. Submitting the same text
// again returns the same answer and has no other effect.
func (s *Supervisor) Submit(ctx context.Context, signed []byte) (_ writ.Run, err error) {
	defer func() { s.counts.noteAnswer("submission", err) }()
	if run, ok := s.repeated(ctx, signed); ok {
		return run, nil
	}
	if refused := s.refusedAgain(ctx, signed); refused != nil {
		return writ.Run{}, refused
	}
	var run writ.Run
	verifier := s.verifier()
	for range rosterAttempts {
		if run, err = s.submit(ctx, verifier, signed); !errors.Is(err, errRosterChanged) {
			break
		}
		verifier = s.verifier()
	}
	switch {
	case err == nil:
		return run, nil
	case errors.Is(err, errRosterChanged):
		return writ.Run{}, s.unknownRoster()
	}
	err = s.refuse(ctx, identity.ScriptNamespace, verifier, signed, err)
	if !errors.Is(err, errDecided) {
		return writ.Run{}, err
	}
	text, _, err := identity.Split(signed)
	if err != nil {
		return writ.Run{}, err
	}
	return s.stored(ctx, writ.RunIDOf(writ.DigestOf(text)))
}

// repeated returns the run of a submission that was accepted before, without verifying the signature again. A
// coordinator may repeat a submission at any rate. ok is false if the submission is not known to be accepted.
func (s *Supervisor) repeated(ctx context.Context, signed []byte) (run writ.Run, ok bool) {
	text, _, err := identity.Split(signed)
	if err != nil {
		return run, false
	}
	id := writ.RunIDOf(writ.DigestOf(text))
	if !s.programs.IsAccepted(id, signed) {
		return run, false
	}
	run, err = s.stored(ctx, id)
	return run, err == nil
}

// refusedAgain returns the stored refusal of a submission, without verifying its signature or checking its script
// again. It returns nil if the submission is not known to be refused.
func (s *Supervisor) refusedAgain(ctx context.Context, signed []byte) error {
	if !s.refused.has(program.ShortDigestOf(signed)) {
		return nil
	}
	text, _, err := identity.Split(signed)
	if err != nil {
		return nil
	}
	if refused := s.wasRefused(ctx, writ.DigestOf(text)); refused != nil {
		return refusedBefore{refused}
	}
	return nil
}

// rosterAttempts limits how often a decision is repeated because the journal got a newer roster in the meantime. A
// supervisor adopts a roster right after it writes it to the journal.
const rosterAttempts = 100

// unknownRoster returns the error for a journal with a newer roster that this supervisor never adopted.
func (s *Supervisor) unknownRoster() error {
	return writ.Errorf(writ.CodeRecordForged,
		"the journal has a newer version of the roster than %d, which this supervisor has not adopted",
		s.roster.Load().Version).
		WithHint("find out who can write to the database of the journal, then bring it back from a backup")
}

// errRosterChanged reports that the journal has a roster newer than the one used for verification.
var errRosterChanged = errors.New("the roster has changed meanwhile")

// submit verifies, checks and accepts a submission under the roster of verifier. It returns errRosterChanged if the
// journal has another roster version at the time of the write.
func (s *Supervisor) submit(ctx context.Context, verifier *identity.Verifier, signed []byte) (writ.Run, error) {
	verified, err := verifier.Submission(signed)
	if err != nil {
		return s.known(ctx, signed, err)
	}
	p := verified.Payload
	if err := s.checkScript(ctx, p); err != nil {
		return writ.Run{}, err
	}
	run := s.newRun(verified)
	run.Roster = verifier.Roster.Version
	if full := s.opened.enter(p.Project, p.ProjectName, p.MaxCalls); full != nil {
		if known, err := s.stored(ctx, run.ID); err == nil { // accepted before
			return known, nil
		}
		return writ.Run{}, full
	}
	var accepted writ.Run // the run before its first step, which may start right after the commit
	added := false
	defer func() {
		if !added {
			s.opened.AddRuns(p.Project, -1)
		}
	}()
	err = s.Journal.Write(failpoint.At(ctx, failpoint.RunAccepted), func(tx *journal.Tx) error {
		newest, err := tx.RosterVersion()
		if err != nil {
			return err
		}
		if newest != verifier.Roster.Version { // adopting a roster rechecks open runs, and this run was not among them
			return errRosterChanged
		}
		run.Accepted = tx.Now
		run.Deadline = tx.Now.Add(p.Deadline)
		if added, err = tx.AddRun(run, newest, signed); err != nil || !added {
			return err
		}
		if err := knowsSecrets(tx, p); err != nil {
			return err
		}
		if err := nextRevision(tx, p); err != nil {
			return err
		}
		accepted = run.Run
		shown := run.Run
		tx.AddEvents(writ.Event{Run: &shown})
		tx.Then(func() { s.begin(run, p, signed) })
		return nil
	})
	if err != nil {
		added = false
		return writ.Run{}, err
	}
	if !added {
		if refused := s.wasRefused(ctx, verified.Digest); refused != nil {
			return writ.Run{}, refused
		}
		return s.stored(ctx, run.ID)
	}
	s.Log.Info("run accepted", "run", accepted.ID, "signer", signedBy(accepted.Signer, verified.Certificate),
		"script", accepted.Script,
		"project", accepted.ProjectName)
	return accepted, nil
}

// signedBy formats the signer's name, with the certificate if the signer used one.
func signedBy(name string, c *identity.Certificate) string {
	if c == nil {
		return name
	}
	return name + ", by " + c.String()
}

// begin starts the first step of a stored run. It passes on the run, payload and signed text, so the step does not read
// them again.
func (s *Supervisor) begin(run *journal.Run, p *identity.Payload, signed []byte) {
	run.Committed()
	s.programs.Accepted(run, p, signed)
	s.advancer.Begin(run)
}

// known returns the run of a submission that has expired but was accepted in time. For every other submission it
// returns the error refused.
func (s *Supervisor) known(ctx context.Context, signed []byte, refused error) (writ.Run, error) {
	text, _, err := identity.Split(signed)
	if err != nil || writ.CodeOf(refused) != writ.CodeExpired {
		return writ.Run{}, refused
	}
	run, err := s.stored(ctx, writ.RunIDOf(writ.DigestOf(text)))
	if err != nil {
		return writ.Run{}, refused
	}
	return run, nil
}

// stored loads a run from the journal for display, without its output.
func (s *Supervisor) stored(ctx context.Context, id writ.RunID) (writ.Run, error) {
	run, err := s.row(ctx, id)
	if err != nil {
		return writ.Run{}, err
	}
	shown := run.Run
	shown.Output = nil
	return shown, nil
}

// row loads a run from the journal. It returns CodeNotFound if the run is missing.
func (s *Supervisor) row(ctx context.Context, id writ.RunID) (run *journal.Run, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		run, err = tx.Run(id)
		return err
	})
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no run %s in this datacenter", id).
			WithHint("it forgets runs %d days after their end", int(s.KeepRuns.Hours()/24))
	}
	return run, err
}

func (s *Supervisor) newRun(v *identity.Verified) *journal.Run {
	p := v.Payload
	run := &journal.Run{
		Run: writ.Run{
			ID: v.Run, Datacenter: s.Datacenter, Project: p.Project, ProjectName: p.ProjectName, Deployment: p.Deployment.Name,
			Signer: v.Signer, Script: p.Script.Name, Payload: v.Digest, Plan: p.Plan, State: writ.RunAccepted,
		},
		// the verifier checked that the roster has this datacenter
		DatacenterName: s.roster.Load().Datacenter(s.Datacenter).Name,
		Engine:         p.Engine,
		Destructive:    len(p.Targets) > 0, Targets: p.Targets, Allow: p.Allow, Signed: p.Created, Expires: p.Expires,
	}
	if run.Deployment != "" {
		run.Revision = p.Deployment.Base + 1
	}
	return run
}

// nextRevision increments the revision of the payload's deployment. It returns a conflict if the script was planned
// against a revision other than the newest.
func nextRevision(tx *journal.Tx, p *identity.Payload) error {
	if p.Deployment.Name == "" {
		return nil
	}
	have, err := tx.Revision(p.Project, p.Deployment.Name)
	if err != nil {
		return err
	}
	if have != p.Deployment.Base {
		return otherRevision(p.Deployment.Name, have, p.Deployment.Base)
	}
	if have == 0 {
		if err := roomForDeployment(tx, p); err != nil {
			return err
		}
	}
	return tx.SetRevision(p.Project, p.Deployment.Name, have+1)
}

// maxDeployments limits the deployment names of a project. The journal keeps their revisions forever.
const maxDeployments = 10_000

func roomForDeployment(tx *journal.Tx, p *identity.Payload) error {
	n, err := tx.CountDeployments(p.Project)
	if err != nil || n < maxDeployments {
		return err
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the project has %d deployments in this datacenter, the maximum", n).
		WithHint("use the name of an existing deployment: writ resource list shows the deployments")
}

func otherRevision(deployment string, have, base int) *writ.Error {
	return writ.Errorf(writ.CodeConflict, "the deployment %s is at revision %d, the script was signed against %d",
		deployment, have, base).
		WithHint("`writ plan FILE --deployment %s` shows what the script would change now, and how to sign it again",
			deployment)
}

// checkScript applies the checks of `writ check`. It also refuses signed parameters that are incomplete or invalid, and
// operations that the signed header does not allow.
func (s *Supervisor) checkScript(ctx context.Context, p *identity.Payload) error {
	report, err := s.check(ctx, p)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	filled, err := report.Params.Fill(p.Params)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(filled, orEmpty(p.Params)) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the signed parameters are not all that the script has").
			WithHint("sign it again with this version of writ")
	}
	for _, operation := range report.Operations {
		if !slices.Contains(p.Allow, operation) && !strings.HasPrefix(operation, "run.") {
			return writ.Errorf(writ.CodeOperationNotAllowed, "the script calls %s, which its signed header does not allow",
				operation).
				WithHint("sign it again with this version of writ")
		}
	}
	return nil
}

func orEmpty(params map[string]any) map[string]any {
	if params == nil {
		return map[string]any{}
	}
	return params
}

// verifier returns a verifier that uses the newest roster.
func (s *Supervisor) verifier() *identity.Verifier {
	return &identity.Verifier{
		Roster: s.roster.Load(), Datacenter: s.Datacenter, Engines: scripts.Engines(), Now: s.Now, ProjectOf: s.projectOf,
		Forked: s.forked,
	}
}

// forked logs, once per error, that a signer has seen a different roster than the one in force in this datacenter.
func (s *Supervisor) forked(signer string, err error) {
	if s.forks.First(err) {
		s.Log.Error("two rosters of one version exist", "signer", signer, "code", writ.CodeOf(err), "err", err)
	}
}

// projectOf returns the project of a run. The verifier needs it for statements about runs.
func (s *Supervisor) projectOf(id writ.RunID) (writ.ProjectID, error) {
	run, err := s.stored(context.Background(), id)
	return run.Project, err
}
