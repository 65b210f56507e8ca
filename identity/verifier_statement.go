package identity

import (
	"fmt"
	"time"

	"writ"
	"writ/identity/sshsig"
)

// VerifiedStatement is a statement that passed every check.
type VerifiedStatement struct {
	Statement *Statement
	Rule      Rule
	Project   writ.ProjectID // project of the subject, "" if none
	Digest    writ.Digest    // SHA-256 of the text; identifies the statement
	Signer    string
	Signed    []byte  // text and signature
	Roster    *Roster // roster used for the verification

	Certificate *Certificate // signing certificate, nil for a plain key

	by proof
}

// Allows returns nil if the signer may perform another action in all projects at the time `at`, with the proof of the
// statement's signature. The errors are those of Roster.Allows.
func (v *VerifiedStatement) Allows(action Action, at time.Time) error {
	return v.Roster.rightsOf(v.Signer, at, v.by).allow(action, "")
}

// Statement makes every check of a statement that needs no store, in the same order as Submission.
func (v *Verifier) Statement(signed []byte) (*VerifiedStatement, error) {
	now := v.now()
	return v.statement(signed, moment{at: now, now: now})
}

// PastStatement repeats the checks for a statement that a supervisor has applied. It checks everything as of the
// creation of the statement, because only the supervisor knows when it was applied. Keys that were removed since then
// still count. Revoked keys and withdrawn rights do not count.
func (v *Verifier) PastStatement(signed []byte) (*VerifiedStatement, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, err
	}
	s, err := ParseStatement(text)
	if err != nil {
		return nil, err
	}
	now := v.now()
	if err := isCreated(s.Created, now); err != nil {
		return nil, err
	}
	return v.statement(signed, moment{at: s.Created, now: now, later: true})
}

func (v *Verifier) statement(signed []byte, m moment) (*VerifiedStatement, error) {
	text, who, err := v.authenticate(sshsig.StatementNamespace, signed, m)
	if err != nil {
		return nil, err
	}
	s, err := ParseStatement(text)
	if err != nil {
		return nil, err
	}
	if err := v.addressed(s.Cluster, s.Datacenter, s.Roster, s.RosterDigest, who, m); err != nil {
		return nil, err
	}
	if d := v.Roster.Datacenter(s.Datacenter); d.Name != s.DatacenterName {
		return nil, writ.Errorf(writ.CodeConflict,
			"the statement was signed for the datacenter %s, but its id belongs to %s", s.DatacenterName, d.Name).
			WithHint("get the newest roster, and decide again")
	}
	if err := who.is(s.Signer, s.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	if err := inTime(s.Created, s.Expires, m); err != nil {
		return nil, err
	}
	rule, _ := RuleOf(sshsig.StatementNamespace, s.Kind(), s.Decision) // ParseStatement rejects statements without a rule
	var project writ.ProjectID
	if rule.Project {
		if project, err = v.projectSeen(rule, s, m, who.proof()); err != nil {
			return nil, err
		}
	}
	if err := v.Roster.rightsOf(s.Signer, m.at, who.proof()).allow(rule.Action, project); err != nil {
		return nil, err
	}
	return &VerifiedStatement{
		Statement: s, Rule: rule, Project: project, Digest: writ.DigestOf(text), Signer: s.Signer, Signed: signed,
		Certificate: who.certificate(), Roster: v.Roster, by: who.proof(),
	}, nil
}

// projectSeen returns the project of a statement's subject, which must be the project that the signer saw. It checks
// the right in that project before it looks up a run. A signer without the right learns nothing about the run, not even
// whether it exists.
func (v *Verifier) projectSeen(rule Rule, s *Statement, m moment, by proof) (writ.ProjectID, error) {
	if rule.projectOf == nil {
		if err := v.Roster.rightsOf(s.Signer, m.at, by).allow(rule.Action, s.Seen.Project); err != nil {
			return "", err
		}
	}
	project, err := v.projectOf(rule, s)
	hidden := err == nil && rule.projectOf == nil && project != s.Seen.Project &&
		!v.Roster.rightsOf(s.Signer, m.at, by).reads(project)
	switch {
	case hidden, writ.CodeOf(err) == writ.CodeNotFound: // the same message in both cases
		return "", writ.Errorf(writ.CodeNotFound, "unknown run %s", s.ID()).
			WithHint("a datacenter forgets runs some time after their end")
	case err != nil:
		return "", err
	}
	return project, isSeen(v.Roster, s, project)
}

// projectOf returns the project of a statement's subject.
func (v *Verifier) projectOf(rule Rule, s *Statement) (writ.ProjectID, error) {
	if rule.projectOf != nil {
		project := rule.projectOf(s)
		if v.Roster.Project(project) == nil {
			return "", writ.Errorf(writ.CodeProjectUnknown, "the roster has no project with the id %s", project).
				WithHint("`writ project list` lists the projects; sign it again with one of them")
		}
		return project, nil
	}
	if v.ProjectOf == nil {
		return "", fmt.Errorf("verify a statement about the run %s: its project is not known", s.ID())
	}
	return v.ProjectOf(writ.RunID(s.ID()))
}

// isSeen compares the project of a subject with the project that the signer saw.
func isSeen(r *Roster, s *Statement, project writ.ProjectID) error {
	name := ProjectName(r, project)
	if project == s.Seen.Project && name == s.Seen.ProjectName {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the signer saw the %s in the project %s, it is in %s", s.Subject,
		s.Seen.ProjectName, name).
		WithHint("look at it again, then decide")
}
