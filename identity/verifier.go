package identity

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
)

// Verifier decides whether a signed text may have its requested effect. Coordinators use it as a filter, supervisors to
// decide, and runners to verify again before they act. It has no state: the caller must remember accepted texts, by the
// SHA-256 of the text.
type Verifier struct {
	Roster *Roster
	// Datacenter is the only accepted datacenter; "" accepts all datacenters of the roster, for a coordinator.
	Datacenter writ.DatacenterID
	Engines    []string         // supported engines; empty accepts all, for a process that evaluates no scripts
	Now        func() time.Time // time.Now if nil
	// ProjectOf returns the project of a run. Without it, statements about runs are rejected. Its error is returned
	// unchanged.
	ProjectOf func(run writ.RunID) (writ.ProjectID, error)
	// Forked, if set, is called for each ROSTER_FORK. signer is the owner of the signing key.
	Forked func(signer string, err error)
}

// Verified is a submission that passed every check.
type Verified struct {
	Payload *Payload
	Digest  writ.Digest // SHA-256 of the text; identifies the submission
	Run     writ.RunID
	Signer  string
	Signed  []byte // text and signature

	Certificate *Certificate // signing certificate; nil for a plain key, and from ReadSubmission
}

// VerifiedStatement is a statement that passed every check.
type VerifiedStatement struct {
	Statement *Statement
	Rule      Rule
	Project   writ.ProjectID // project of the subject, "" if none
	Digest    writ.Digest    // SHA-256 of the text; identifies the statement
	Signer    string
	Signed    []byte  // text and signature
	Roster    *Roster // roster that verified it

	Certificate *Certificate // signing certificate, nil for a plain key

	by proof
}

// Allows reports whether the signer, with the same signature, may perform another action in a project at a time. The
// errors are those of Roster.Allows.
func (v *VerifiedStatement) Allows(action Action, project writ.ProjectID, at time.Time) error {
	return v.Roster.allows(v.Signer, action, project, at, v.by)
}

// Submission makes every check of a submission that needs no store, in this order: size, armor, algorithm, namespace,
// the signer's key or authority in the roster, the signature over the received bytes, the text's form, cluster,
// datacenter, roster, project, engine, signer's name, time, rights. The error is a *writ.Error with the matching code.
func (v *Verifier) Submission(signed []byte) (*Verified, error) {
	now := v.now()
	return v.submission(signed, moment{at: now, now: now})
}

// SubmissionAt repeats the checks for a run that its supervisor accepted earlier. It checks everything as of the time
// of acceptance, and that the run's deadline has not passed. Keys that were removed since then still count. Revoked
// keys and withdrawn rights do not.
func (v *Verifier) SubmissionAt(signed []byte, accepted time.Time) (*Verified, error) {
	return v.submission(signed, moment{at: accepted, now: v.now(), later: true})
}

// moment is the time of a check: at is the decisive time, and later means that it is in the past.
type moment struct {
	at, now time.Time
	later   bool
}

func (v *Verifier) submission(signed []byte, m moment) (*Verified, error) {
	text, who, err := v.authenticate(ScriptNamespace, signed, m)
	if err != nil {
		return nil, v.orTooOld(signed, err)
	}
	p, err := ParsePayload(text)
	if err != nil {
		return nil, err
	}
	if err := v.addressed(p.Cluster, p.Datacenter, p.Roster, p.RosterDigest, who, m); err != nil {
		return nil, err
	}
	if project := v.Roster.Project(p.Project); project == nil || project.Name != p.ProjectName {
		return nil, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %s with the id %s", p.ProjectName, p.Project).
			WithHint("`writ project list` shows them; sign it again with one of them")
	}
	if len(v.Engines) > 0 && !slices.Contains(v.Engines, p.Engine) {
		return nil, writ.Errorf(writ.CodeEngineUnsupported, "the script was signed for the engine %q, here are %q", p.Engine, v.Engines).
			WithHint("sign again with a client of the same version")
	}
	if err := who.is(p.Signer, p.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	if err := inTime(p.Created, p.Expires, m); err != nil {
		return nil, err
	}
	if end := m.at.Add(p.Deadline); m.later && m.now.After(end.Add(Skew)) {
		return nil, writ.Errorf(writ.CodeRunExpired, "the run's deadline was %s", header.FormatTime(end)).WithHint("sign it again, with a later --deadline")
	}
	rule, _ := RuleOf(ScriptNamespace, "", "")
	if err := v.Roster.allows(p.Signer, rule.Action, p.Project, m.at, who.proof()); err != nil {
		return nil, err
	}
	if p.Destroys() {
		if err := v.Roster.allows(p.Signer, ActionDestroy, p.Project, m.at, who.proof()); err != nil {
			return nil, err
		}
	}
	if slices.Contains(p.Targets, AnyTarget) && v.Roster.allows(p.Signer, ActionDestroy, "", m.at, who.proof()) != nil {
		return nil, writ.Errorf(writ.CodeDestructiveDenied, "%s may destroy named targets in the project %s, but not all resources", p.Signer, p.ProjectName).
			WithHint("name the targets that the script may destroy, like volume/web-0 or volume/web-*; `*` needs the destructive flag in a binding to all projects")
	}
	digest := writ.DigestOf(text)
	return &Verified{
		Payload: p, Digest: digest, Run: writ.RunIDOf(digest), Signer: p.Signer, Signed: signed, Certificate: who.certificate(),
	}, nil
}

// ReadSubmission parses a submission without verifying it, for submissions that were verified before.
func ReadSubmission(signed []byte) (*Verified, error) {
	text, _, err := Split(signed)
	if err != nil {
		return nil, err
	}
	p, err := ParsePayload(text)
	if err != nil {
		return nil, err
	}
	digest := writ.DigestOf(text)
	return &Verified{Payload: p, Digest: digest, Run: writ.RunIDOf(digest), Signer: p.Signer, Signed: signed}, nil
}

// Statement makes every check of a statement that needs no store, in the same order as Submission.
func (v *Verifier) Statement(signed []byte) (*VerifiedStatement, error) {
	now := v.now()
	return v.statement(signed, moment{at: now, now: now})
}

// PastStatement repeats the checks for a statement that a supervisor has applied. It checks everything as of the
// creation of the statement, because only the supervisor knows when it was applied. Keys that were removed since then
// still count. Revoked keys and withdrawn rights do not.
func (v *Verifier) PastStatement(signed []byte) (*VerifiedStatement, error) {
	text, _, err := Split(signed)
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
	text, who, err := v.authenticate(StatementNamespace, signed, m)
	if err != nil {
		return nil, err
	}
	s, err := ParseStatement(text)
	if err != nil {
		return nil, err
	}
	if s.Format == FormatV1 {
		return nil, writ.Errorf(writ.CodeFormatTooOld, "the statement has the format v1, which lacks the signer's view of the subject").
			WithHint("upgrade writ on the machine that signs, and decide again")
	}
	if err := v.addressed(s.Cluster, s.Datacenter, s.Roster, s.RosterDigest, who, m); err != nil {
		return nil, err
	}
	if d := v.Roster.Datacenter(s.Datacenter); d.Name != s.DatacenterName {
		return nil, writ.Errorf(writ.CodeConflict, "the statement was signed for the datacenter %s, but its id belongs to %s", s.DatacenterName, d.Name).
			WithHint("get the newest roster, and decide again")
	}
	if err := who.is(s.Signer, s.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	if err := inTime(s.Created, s.Expires, m); err != nil {
		return nil, err
	}
	rule, _ := RuleOf(StatementNamespace, s.Kind(), s.Decision) // ParseStatement rejects statements without a rule
	var project writ.ProjectID
	if rule.Project {
		if project, err = v.projectSeen(rule, s, m, who.proof()); err != nil {
			return nil, err
		}
	}
	if err := v.Roster.allows(s.Signer, rule.Action, project, m.at, who.proof()); err != nil {
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
		if err := v.Roster.allows(s.Signer, rule.Action, s.Seen.Project, m.at, by); err != nil {
			return "", err
		}
	}
	project, err := v.projectOf(rule, s)
	hidden := err == nil && rule.projectOf == nil && project != s.Seen.Project && !v.Roster.reads(s.Signer, project, m.at)
	switch {
	case hidden, writ.CodeOf(err) == writ.CodeNotFound: // the same message in both cases
		return "", writ.Errorf(writ.CodeNotFound, "there is no run %s", s.ID()).WithHint("a datacenter forgets runs some time after their end")
	case err != nil:
		return "", err
	}
	return project, v.isSeen(s, project)
}

// projectOf returns the project of a statement's subject.
func (v *Verifier) projectOf(rule Rule, s *Statement) (writ.ProjectID, error) {
	if rule.projectOf != nil {
		project := rule.projectOf(s)
		if v.Roster.Project(project) == nil {
			return "", writ.Errorf(writ.CodeProjectUnknown, "the roster has no project with the id %s", project).
				WithHint("`writ project list` shows them; sign it again with one of them")
		}
		return project, nil
	}
	if v.ProjectOf == nil {
		return "", fmt.Errorf("verify a statement about the run %s: its project is not known", s.ID())
	}
	return v.ProjectOf(writ.RunID(s.ID()))
}

// isSeen compares the project of a subject with the project that the signer saw.
func (v *Verifier) isSeen(s *Statement, project writ.ProjectID) error {
	name := string(project)
	if p := v.Roster.Project(project); p != nil {
		name = p.Name
	}
	if project == s.Seen.Project && name == s.Seen.ProjectName {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the signer saw the %s in the project %s, it is in %s", s.Subject, s.Seen.ProjectName, name).
		WithHint("look at it again, then decide")
}

func (v *Verifier) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

// identified is the signer of a signature, as far as the signature proves it.
type identified struct {
	principal    *Principal       // for a plain key
	cert         *ssh.Certificate // for a certificate
	authority    *Authority       // that issued cert
	key          ssh.PublicKey    // of the signature: plain, or the certificate
	userVerified bool
}

// proof returns the properties of the signature that rights depend on.
func (i identified) proof() proof {
	return proof{userVerified: i.userVerified, certificate: i.cert != nil}
}

// certificate describes the certificate, nil for a plain key.
func (i identified) certificate() *Certificate {
	if i.cert == nil {
		return nil
	}
	return certificateOf(i.cert, i.authority)
}

// authenticate makes the checks before the text is parsed, and returns the text.
func (v *Verifier) authenticate(namespace Namespace, signed []byte, m moment) ([]byte, identified, error) {
	text, armored, err := Split(signed)
	if err != nil {
		return nil, identified{}, err
	}
	s, err := parseSignature(namespace, armored)
	if err != nil {
		return nil, identified{}, err
	}
	who, err := v.identify(s.key, m)
	if err != nil {
		return nil, identified{}, err
	}
	if err := s.verify(text); err != nil {
		return nil, identified{}, err
	}
	who.userVerified = s.userVerified()
	return text, who, nil
}

func (v *Verifier) identify(key ssh.PublicKey, m moment) (identified, error) {
	if cert, ok := key.(*ssh.Certificate); ok {
		authority, err := v.Roster.certified(cert, m)
		return identified{key: key, cert: cert, authority: authority}, err
	}
	owner := v.Roster.owners()[string(key.Marshal())]
	if owner.principal == nil {
		return identified{}, unknownSigner("the roster has no key %s", ssh.FingerprintSHA256(key))
	}
	if err := usable(owner.state, "the key "+ssh.FingerprintSHA256(key), m); err != nil {
		return identified{}, err
	}
	return identified{key: key, principal: owner.principal}, nil
}

// usable checks the state of a key, principal or authority.
func usable(state State, what string, m moment) error {
	switch {
	case state == Active, state == Removed && m.later:
		return nil
	case state == Removed:
		return unknownSigner("%s was removed from the roster", what)
	default:
		return revokedSigner("%s was revoked", what)
	}
}

// name returns the owner of the signing key.
func (i identified) name() string {
	if i.authority != nil {
		return "authority " + i.authority.Name
	}
	return nameOf(i.principal)
}

// is checks that the signer named in the text made the signature, with the certificate named in the text.
func (i identified) is(signer string, certificate writ.Digest, r *Roster, m moment) error {
	p := i.principal
	if i.cert != nil {
		if !i.authority.standsFor(i.cert, signer) {
			return badCertificate("the certificate %s of the authority %s does not stand for %s", i.cert.KeyId, i.authority.Name, signer)
		}
		p = r.Principal(signer)
	}
	if p == nil || p.Name != signer {
		return unknownSigner("the text names the signer %s, but the key belongs to %s", signer, nameOf(p))
	}
	if err := checkNamed(i.key, certificate); err != nil {
		return err
	}
	return usable(p.State, p.Name, m)
}

func nameOf(p *Principal) string {
	if p == nil {
		return "another principal"
	}
	return p.Name
}

// orTooOld returns the error for a submission by an unknown signer. The signer may be in the newer roster that the
// submission names. This is unverified but harmless: the verifier gets the roster from elsewhere and verifies again.
func (v *Verifier) orTooOld(signed []byte, unknown error) error {
	if writ.CodeOf(unknown) != writ.CodeSignerUnknown {
		return unknown
	}
	read, err := ReadSubmission(signed)
	if err != nil || read.Payload == nil || read.Payload.Roster <= v.Roster.Version {
		return unknown
	}
	return v.tooOld(read.Payload.Roster)
}

func (v *Verifier) tooOld(roster int) error {
	return writ.Errorf(writ.CodeRosterTooOld, "the signer knows version %d of the roster, this verifier version %d", roster, v.Roster.Version).
		WithHint("submit the newer roster here too, or wait until it arrives")
}

// addressed checks that a text is for this verifier, and that the verifier's roster is suitable.
func (v *Verifier) addressed(cluster writ.ClusterID, datacenter writ.DatacenterID, roster int, digest writ.Digest, who identified, m moment) error {
	if cluster != v.Roster.Cluster {
		return writ.Errorf(writ.CodeWrongCluster, "the text was signed for the cluster %s, this is %s", cluster, v.Roster.Cluster).
			WithHint("submit it to its own cluster, or sign it again for this one")
	}
	if v.Datacenter != "" && datacenter != v.Datacenter {
		return writ.Errorf(writ.CodeWrongDatacenter, "the text was signed for the datacenter %s, this is %s", header.OrDash(string(datacenter)), v.Datacenter).
			WithHint("sign it again for this one")
	}
	d := v.Roster.Datacenter(datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", header.OrDash(string(datacenter))).
			WithHint("`writ dc list` shows them; sign it again for one of them")
	}
	if !d.Enabled && !m.later {
		return writ.Errorf(writ.CodeDatacenterAway, "the datacenter %s is disabled in the roster", d.Name).
			WithHint("sign it again for another one, or wait until a root operator enables it")
	}
	if v.Roster.Version < roster {
		return v.tooOld(roster)
	}
	if err := v.Roster.checkSeen(roster, digest); err != nil {
		if v.Forked != nil {
			v.Forked(who.name(), err)
		}
		return err
	}
	if m.at.After(v.Roster.Expires) {
		return writ.Errorf(writ.CodeRosterTooOld, "version %d of the roster expired on %s", v.Roster.Version, header.FormatTime(v.Roster.Expires)).
			WithHint("a root operator signs a new version")
	}
	return nil
}

// inTime checks the validity period of a text. Clocks may differ, so a run may have been accepted later than now; the
// validity period also bounds that.
func inTime(created, expires time.Time, m moment) error {
	if err := isCreated(created, m.at); err != nil {
		return err
	}
	if m.at.After(expires.Add(Skew)) {
		return writ.Errorf(writ.CodeExpired, "the text expired at %s", header.FormatTime(expires)).WithHint("sign it again")
	}
	return nil
}

// isCreated rejects a text from the future.
func isCreated(created, now time.Time) error {
	if now.Before(created.Add(-Skew)) {
		return writ.Errorf(writ.CodeNotYetValid, "the text was created in the future, at %s", header.FormatTime(created)).
			WithHint("set the clock of the machine that signs")
	}
	return nil
}
