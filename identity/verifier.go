package identity

import (
	"slices"
	"time"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
	"writ/identity/target"
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

	Certificate *Certificate // signing certificate; nil for a plain key, and from ReadSubmission
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
// keys and withdrawn rights do not count.
func (v *Verifier) SubmissionAt(signed []byte, accepted time.Time) (*Verified, error) {
	return v.submission(signed, moment{at: accepted, now: v.now(), later: true})
}

// moment is the time of a check.
type moment struct {
	at    time.Time // the text is checked as of this time
	now   time.Time
	later bool // the text was accepted earlier, and `at` is the time of its acceptance
}

func (v *Verifier) submission(signed []byte, m moment) (*Verified, error) {
	text, who, err := v.authenticate(sshsig.ScriptNamespace, signed, m)
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
		return nil, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %s with the id %s", p.ProjectName,
			p.Project).
			WithHint("`writ project list` lists the projects; sign it again with one of them")
	}
	if len(v.Engines) > 0 && !slices.Contains(v.Engines, p.Engine) {
		return nil, writ.Errorf(writ.CodeEngineUnsupported, "the script was signed for the engine %q, not for one of %q",
			p.Engine, v.Engines).
			WithHint("sign again with a client of the same version as the supervisor")
	}
	if err := who.is(p.Signer, p.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	if err := inTime(p.Created, p.Expires, m); err != nil {
		return nil, err
	}
	if end := m.at.Add(p.Deadline); m.later && m.now.After(end.Add(Skew)) {
		return nil, writ.Errorf(writ.CodeRunExpired, "the run's deadline was %s", header.FormatTime(end)).
			WithHint("sign it again, with a later --deadline")
	}
	rule, _ := RuleOf(sshsig.ScriptNamespace, "", "")
	signer := v.Roster.rightsOf(p.Signer, m.at, who.proof())
	if err := signer.allow(rule.Action, p.Project); err != nil {
		return nil, err
	}
	if len(p.Targets) > 0 {
		if err := signer.allow(ActionDestroy, p.Project); err != nil {
			return nil, err
		}
	}
	if slices.Contains(p.Targets, target.Any) && signer.allow(ActionDestroy, "") != nil {
		return nil, writ.Errorf(writ.CodeDestructiveDenied,
			"%s may destroy named targets in the project %s, but not all resources", p.Signer, p.ProjectName).
			WithHint("name the targets that the script may destroy, like volume/web-0 or volume/web-*; `*` needs the destructive flag in a binding to all projects")
	}
	digest := writ.DigestOf(text)
	return &Verified{
		Payload: p, Digest: digest, Run: writ.RunIDOf(digest), Signer: p.Signer, Certificate: who.certificate(),
	}, nil
}

// PastSubmission verifies the author of a submission that its datacenter accepted earlier. It checks the signature, the
// address and the signer as of the creation of the text. Keys that were removed since then still count. Revoked keys do
// not count. It checks neither rights nor the name of the project, because the datacenter checked them at acceptance.
func PastSubmission(v *Verifier, signed []byte) (*Verified, error) {
	read, err := ReadSubmission(signed)
	if err != nil {
		return nil, err
	}
	p, now := read.Payload, v.now()
	if err := isCreated(p.Created, now); err != nil {
		return nil, err
	}
	m := moment{at: p.Created, now: now, later: true}
	_, who, err := v.authenticate(sshsig.ScriptNamespace, signed, m)
	if err != nil {
		return nil, v.orTooOld(signed, err)
	}
	if err := v.addressed(p.Cluster, p.Datacenter, p.Roster, p.RosterDigest, who, m); err != nil {
		return nil, err
	}
	if err := who.is(p.Signer, p.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	read.Certificate = who.certificate()
	return read, nil
}

// ReadSubmission parses a submission without verifying it, for submissions that were verified before.
func ReadSubmission(signed []byte) (*Verified, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, err
	}
	p, err := ParsePayload(text)
	if err != nil {
		return nil, err
	}
	digest := writ.DigestOf(text)
	return &Verified{Payload: p, Digest: digest, Run: writ.RunIDOf(digest), Signer: p.Signer}, nil
}

func (v *Verifier) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

// authenticate makes the checks that precede the parsing of the text. It returns the text and its signer.
func (v *Verifier) authenticate(namespace sshsig.Namespace, signed []byte, m moment) ([]byte, identified, error) {
	text, armored, err := sshsig.Split(signed)
	if err != nil {
		return nil, identified{}, err
	}
	s, err := sshsig.Parse(namespace, armored)
	if err != nil {
		return nil, identified{}, err
	}
	who, err := identify(v.Roster, s.Key, m)
	if err != nil {
		return nil, identified{}, err
	}
	if err := s.Verify(text); err != nil {
		return nil, identified{}, err
	}
	who.userVerified = s.UserVerified()
	return text, who, nil
}

// orTooOld returns the error for a submission by an unknown signer. The signer may be in the newer roster that the
// submission names. That version is unverified, which is harmless: the verifier gets the roster from elsewhere, and
// then verifies the submission again.
func (v *Verifier) orTooOld(signed []byte, unknown error) error {
	if writ.CodeOf(unknown) != writ.CodeSignerUnknown {
		return unknown
	}
	read, err := ReadSubmission(signed)
	if err != nil || read.Payload == nil || read.Payload.Roster <= v.Roster.Version {
		return unknown
	}
	return tooOld(v.Roster, read.Payload.Roster)
}

func tooOld(r *Roster, roster int) error {
	return writ.Errorf(writ.CodeRosterTooOld, "the signer knows version %d of the roster, this verifier version %d",
		roster, r.Version).
		WithHint("submit the newer roster here too, or wait until it arrives")
}

// addressed checks that a text is for this verifier, and that the verifier's roster is new enough and has not expired.
func (v *Verifier) addressed(
	cluster writ.ClusterID, datacenter writ.DatacenterID, roster int, digest writ.Digest, who identified, m moment,
) error {
	if cluster != v.Roster.Cluster {
		return writ.Errorf(writ.CodeWrongCluster, "the text was signed for the cluster %s, this is %s", cluster,
			v.Roster.Cluster).
			WithHint("submit it to its own cluster, or sign it again for this cluster")
	}
	if v.Datacenter != "" && datacenter != v.Datacenter {
		return writ.Errorf(writ.CodeWrongDatacenter, "the text was signed for the datacenter %s, this is %s",
			header.OrDash(string(datacenter)), v.Datacenter).
			WithHint("sign it again for this datacenter")
	}
	d := v.Roster.Datacenter(datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s",
			header.OrDash(string(datacenter))).
			WithHint("`writ dc list` lists the datacenters; sign it again for one of them")
	}
	if !d.Enabled && !m.later {
		return writ.Errorf(writ.CodeDatacenterAway, "the datacenter %s is disabled in the roster", d.Name).
			WithHint("sign it again for another datacenter, or wait until a root operator enables this datacenter")
	}
	if err := v.checkSeen(roster, digest, who); err != nil {
		return err
	}
	if m.at.After(v.Roster.Expires) {
		return writ.Errorf(writ.CodeRosterTooOld, "version %d of the roster expired on %s", v.Roster.Version,
			header.FormatTime(v.Roster.Expires)).
			WithHint("a root operator signs a new version")
	}
	return nil
}

// checkSeen checks the version of the roster that a signer has seen.
func (v *Verifier) checkSeen(version int, digest writ.Digest, who identified) error {
	if v.Roster.Version < version {
		return tooOld(v.Roster, version)
	}
	err := v.Roster.Chain().CheckSeen(version, digest)
	if err != nil && v.Forked != nil {
		v.Forked(who.name(), err)
	}
	return err
}

// inTime checks the validity period of a text. The clock of the supervisor that accepted a run may be ahead, so m.at
// may be later than now. The validity period limits how far.
func inTime(created, expires time.Time, m moment) error {
	if err := isCreated(created, m.at); err != nil {
		return err
	}
	last := expires.Add(Skew)
	if m.later { // a supervisor records the acceptance slightly later than it verifies the text
		last = last.Add(Skew)
	}
	if m.at.After(last) {
		return writ.Errorf(writ.CodeExpired, "the text expired at %s", header.FormatTime(expires)).
			WithHint("sign it again")
	}
	return nil
}

// isCreated rejects a text from the future.
func isCreated(created, now time.Time) error {
	if now.Before(created.Add(-Skew)) {
		return writ.Errorf(writ.CodeNotYetValid, "the text was created in the future, at %s",
			header.FormatTime(created)).
			WithHint("set the clock of the machine that signs")
	}
	return nil
}
