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

// Submit decides on a submission: every check of the signed text, then of the script in it. What passes is on disk with its run when
// Submit returns, and what is refused with the signed refusal. The same submission again gets the same answer and has no other effect.
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

// repeated answers a submission that was accepted, without verifying it again: coordinators can bring it as often as they like.
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

// refusedAgain returns the refusal of a submission that was refused, without looking at its signature and script again; nil if it is not known to be.
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

// rosterAttempts is how often something is decided anew because the journal has a newer roster than the one it was decided by. Who adopts one
// does so right after it is in the journal.
const rosterAttempts = 100

// unknownRoster says that the journal has a newer roster that nobody adopted.
func (s *Supervisor) unknownRoster() error {
	return writ.Errorf(writ.CodeRecordForged, "the journal has a newer version of the roster than %d, which this supervisor has not adopted",
		s.roster.Load().Version).
		WithHint("find out who can write to the database of the journal, then bring it back from a backup")
}

// errRosterChanged says that a submission was verified by a roster which is not the newest any more.
var errRosterChanged = errors.New("the roster has changed meanwhile")

// submit decides on a submission by one roster.
func (s *Supervisor) submit(ctx context.Context, verifier *identity.Verifier, signed []byte) (writ.Run, error) {
	verified, err := verifier.Submission(signed)
	if err != nil {
		return s.known(ctx, signed, err)
	}
	p := verified.Payload
	if err := s.checkScript(ctx, p); err != nil {
		if known, missing := s.stored(ctx, verified.Run); missing == nil { // an earlier version accepted it
			return known, nil
		}
		return writ.Run{}, err
	}
	run := s.newRun(verified)
	run.Roster = verifier.Roster.Version
	if full := s.opened.enter(p.Project, p.ProjectName, p.MaxCalls); full != nil {
		if known, err := s.stored(ctx, run.ID); err == nil { // it was accepted before
			return known, nil
		}
		return writ.Run{}, full
	}
	var accepted writ.Run // as it is before its first step, which may come any time after the commit
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
		if newest != verifier.Roster.Version { // who adopted it did not see this run among the open ones
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
	s.Log.Info("run accepted", "run", accepted.ID, "signer", signedBy(accepted.Signer, verified.Certificate), "script", accepted.Script,
		"project", accepted.ProjectName)
	return accepted, nil
}

// signedBy says who signed, and by which certificate if one did.
func signedBy(name string, c *identity.Certificate) string {
	if c == nil {
		return name
	}
	return name + ", by " + c.String()
}

// begin gives a run that is on disk its first step, which needs to read nothing again of what was decided on just now.
func (s *Supervisor) begin(run *journal.Run, p *identity.Payload, signed []byte) {
	run.Committed()
	s.programs.Accepted(run, p, signed)
	s.advancer.Begin(run)
}

// known answers a submission that may not be accepted any more, but was: with its run. refused is the answer to all others.
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

// stored returns a run of the journal, as it is shown.
func (s *Supervisor) stored(ctx context.Context, id writ.RunID) (writ.Run, error) {
	run, err := s.row(ctx, id)
	if err != nil {
		return writ.Run{}, err
	}
	shown := run.Run
	shown.Output = nil
	return shown, nil
}

// row returns a run of the journal.
func (s *Supervisor) row(ctx context.Context, id writ.RunID) (run *journal.Run, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		run, err = tx.Run(id)
		return err
	})
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no run %s in this datacenter", id).WithHint("it forgets runs %d days after their end", int(s.KeepRuns.Hours()/24))
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
		DatacenterName: s.roster.Load().Datacenter(s.Datacenter).Name, // the verifier has found it there
		Engine:         p.Engine,
		Destructive:    p.Destroys(), Targets: p.Targets, Allow: p.Allow, Signed: p.Created, Expires: p.Expires,
	}
	if run.Deployment != "" {
		run.Revision = p.Deployment.Base + 1
	}
	return run
}

// nextRevision counts the revisions of a deployment. A script that was planned against another one than the newest is refused.
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

// maxDeployments limits the names of deployments of a project. The journal never forgets their revisions.
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
	return writ.Errorf(writ.CodeConflict, "the deployment %s is at revision %d, the script was signed against %d", deployment, have, base).
		WithHint("`writ plan FILE --deployment %s` shows what the script would change now, and how to sign it again", deployment)
}

// checkScript refuses what `writ check` refuses, parameters that do not fit, and a header that does not allow what the script calls.
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
		return writ.Errorf(writ.CodeArgumentsInvalid, "the signed parameters are not all that the script has").WithHint("sign it again with this version of writ")
	}
	for _, operation := range report.Operations {
		if !slices.Contains(p.Allow, operation) && !strings.HasPrefix(operation, "run.") {
			return writ.Errorf(writ.CodeOperationNotAllowed, "the script calls %s, which its signed header does not allow", operation).
				WithHint("sign it again with this version of writ")
		}
	}
	if p.Format == identity.FormatV1 && report.Destructive { // what was accepted before goes on
		return writ.Errorf(writ.CodeDestructiveDenied, "the script destroys, and its signed header does not name what it may destroy").
			WithHint("sign it again with this version of writ, which names it: --destructive=volume/web-0,volume/data-*")
	}
	return nil
}

func orEmpty(params map[string]any) map[string]any {
	if params == nil {
		return map[string]any{}
	}
	return params
}

// verifier verifies signed texts by the newest roster.
func (s *Supervisor) verifier() *identity.Verifier {
	return &identity.Verifier{
		Roster: s.roster.Load(), Datacenter: s.Datacenter, Engines: scripts.Engines(), Now: s.Now, ProjectOf: s.projectOf, Forked: s.forked,
	}
}

// forked logs once that a signer was shown another roster than the one that is in force here.
func (s *Supervisor) forked(signer string, err error) {
	if s.forks.First(err) {
		s.Log.Error("two rosters of one version exist", "signer", signer, "code", writ.CodeOf(err), "err", err)
	}
}

// projectOf returns the project of a run, for statements about runs.
func (s *Supervisor) projectOf(id writ.RunID) (writ.ProjectID, error) {
	run, err := s.stored(context.Background(), id)
	return run.Project, err
}
