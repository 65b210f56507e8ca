package identity

import (
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
	"writ/internal/lazyregexp"
)

// Statement is the signed content of every change except a script submission: one decision about one subject.
type Statement struct {
	Format         Format // FormatFor(Certificate) for new statements
	Cluster        writ.ClusterID
	Datacenter     writ.DatacenterID // "" if the statement applies to the whole cluster
	DatacenterName string            // name in the signer's roster; "" without an id
	Roster         int               // version known to the signer; a verifier must know at least this one
	RosterDigest   writ.Digest       // digest of that version's text
	Subject        string            // "run/<id>", "node/<id>", "token/<id>", "batch/<id>"
	Seen           Seen
	Decision       string         // "cancel"; Rules lists all decisions
	Params         map[string]any // parameters of the decision, with the types of Payload.Params
	Signer         string         // principal in the roster
	Certificate    writ.Digest    // of the signing certificate, in FormatV3; otherwise zero
	Created        time.Time      // truncated to seconds
	Expires        time.Time      // latest time of acceptance
	Nonce          Nonce
	Reason         string // one line for readers of the log, may be empty
}

// Seen is the signer's view of the subject. The supervisor compares it with its own records. If a coordinator showed
// the signer the id of another subject, or an earlier state of the subject, the statement fails with CONFLICT.
type Seen struct {
	Name        string         // of a datacenter, a node, or a run's script; otherwise empty
	Project     writ.ProjectID // of a run, secret, project or deployment; otherwise empty
	ProjectName string
	Fingerprint string // of a node's key, "SHA256:…"; otherwise empty
	Revision    int64  // of a node, a run to resume, a secret (its newest version), or a hold; otherwise 0
}

// SeenNode returns the signer's view of a node.
func SeenNode(n writ.Node) Seen {
	return Seen{Name: n.Name, Fingerprint: n.Key, Revision: int64(n.Revision)}
}

// SeenRun returns the signer's view of a run. Its revision is the end of the run, or 0 before the end.
func SeenRun(script string, project writ.ProjectID, projectName string, ended time.Time) Seen {
	s := Seen{Name: script, Project: project, ProjectName: projectName}
	if !ended.IsZero() {
		s.Revision = ended.UnixMicro()
	}
	return s
}

// SeenSecret returns the signer's view of a secret. newest is its newest version, or 0 for a new secret.
func SeenSecret(project writ.ProjectID, projectName string, newest int) Seen {
	return Seen{Project: project, ProjectName: projectName, Revision: int64(newest)}
}

var fingerprintPattern = lazyregexp.New(`^SHA256:[A-Za-z0-9+/]{43}$`)

// ValidFingerprint reports whether s is a key fingerprint in the format of `ssh-keygen -l`.
func ValidFingerprint(s string) bool { return fingerprintPattern.MatchString(s) }

// Kind returns the first part of the subject, such as "run".
func (s *Statement) Kind() string {
	kind, _, _ := strings.Cut(s.Subject, "/")
	return kind
}

// ID returns the second part of the subject. Kind determines its type, for example a writ.RunID or a writ.NodeID.
func (s *Statement) ID() string {
	_, id, _ := strings.Cut(s.Subject, "/")
	return id
}

// Text returns the exact bytes to sign. The error (PAYLOAD_MALFORMED or TOO_LARGE) names the first invalid line. A
// decision that is not in Rules is invalid.
func (s *Statement) Text() ([]byte, error) {
	w := new(header.Writer)
	writeFormat(w, "writ-statement", s.Format, FormatV2, FormatV3)
	writeCluster(w, s.Cluster)
	w.Check(s.Datacenter == "" ||
		writ.ValidUUID(string(s.Datacenter)), "datacenter", "%q is not the id of a datacenter", s.Datacenter)
	writeDatacenter(w, s)
	writeRosterSeen(w, s.Roster, s.RosterDigest)
	rule, known := RuleOf(sshsig.StatementNamespace, s.Kind(), s.Decision)
	w.Check(known, "decision", "%q is not a decision about a %q", s.Decision, s.Kind())
	w.Check(!known || rule.validID(s.ID()), "subject", "%q does not name a %s", s.Subject, s.Kind())
	w.Line("subject", s.Subject)
	writeSeen(w, s, rule.about)
	w.Line("decision", s.Decision)
	if known && rule.checkParams != nil {
		if err := rule.checkParams(s); err != nil {
			w.Fail("params", "%v", err)
		}
	} else {
		w.Check(len(s.Params) == 0, "params", "the decision %q has no parameters", s.Decision)
	}
	w.Params(s.Params)
	writeSigner(w, s.Signer)
	writeCertificate(w, s.Format, s.Certificate)
	w.Window(s.Created, s.Expires, MaxValidity)
	writeNonce(w, s.Nonce)
	w.Check(s.Reason != "-", "reason", "a single hyphen means no reason")
	w.Line("reason", header.OrDash(s.Reason))
	return w.Text()
}

// writeDatacenter writes the id and the name of the datacenter.
func writeDatacenter(w *header.Writer, s *Statement) {
	if s.Datacenter == "" {
		w.Check(s.DatacenterName == "", "datacenter", "a name is not allowed here")
		w.Line("datacenter", header.OrDash(string(s.Datacenter)))
		return
	}
	w.Check(writ.ValidName(s.DatacenterName), "datacenter", "%q is not the name of a datacenter", s.DatacenterName)
	w.Line("datacenter", string(s.Datacenter)+" "+s.DatacenterName)
}

// about describes which fields of Seen a statement about one kind of subject contains.
type about struct {
	name        func(string) bool // nil if the subject has no name
	project     bool
	fingerprint bool
	revision    bool
}

// writeSeen writes the signer's view of the subject.
func writeSeen(w *header.Writer, s *Statement, a about) {
	named := s.Seen.Name == ""
	if a.name != nil {
		named = a.name(s.Seen.Name)
	}
	w.Check(named, "name", "%q is not the name of a %s", s.Seen.Name, s.Kind())
	w.Line("name", header.OrDash(s.Seen.Name))
	project := "-"
	if a.project {
		w.Check(writ.ValidUUID(string(s.Seen.Project)), "project", "%q is not the id of a project", s.Seen.Project)
		w.Check(writ.ValidName(s.Seen.ProjectName), "project", "%q is not the name of a project", s.Seen.ProjectName)
		project = string(s.Seen.Project) + " " + s.Seen.ProjectName
	} else {
		w.Check(s.Seen.Project == "" && s.Seen.ProjectName == "", "project", "must be empty in a %s", s.Kind())
	}
	w.Line("project", project)
	if a.fingerprint {
		w.Check(ValidFingerprint(s.Seen.Fingerprint), "fingerprint", "%q is not a fingerprint like SHA256:…",
			s.Seen.Fingerprint)
	} else {
		w.Check(s.Seen.Fingerprint == "", "fingerprint", "must be empty in a %s", s.Kind())
	}
	w.Line("fingerprint", header.OrDash(s.Seen.Fingerprint))
	w.Check(s.Seen.Revision >= 0 &&
		(a.revision || s.Seen.Revision == 0), "revision", "%d is not allowed here", s.Seen.Revision)
	w.Line("revision", strconv.FormatInt(s.Seen.Revision, 10))
}

// readSeen reads the signer's view of the subject.
func readSeen(r *header.Reader) Seen {
	s := Seen{Name: header.FromDash(r.One("name"))}
	if project := r.One("project"); r.Err() == nil && project != "-" {
		words := r.Fields(project, 2)
		s.Project, s.ProjectName = writ.ProjectID(words[0]), words[1]
	}
	s.Fingerprint = header.FromDash(r.One("fingerprint"))
	revision := r.One("revision")
	if r.Err() == nil {
		var err error
		if s.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
			r.Fail("%q is not a revision", header.Clip(revision))
		}
	}
	return s
}

// ParseStatement is the inverse of Text. It rejects every text that Text would not write. The error is
// PAYLOAD_MALFORMED or TOO_LARGE.
func ParseStatement(text []byte) (*Statement, error) {
	r := header.NewReader(text)
	s := new(Statement)
	s.Format = readFormat(r, "writ-statement", FormatV2, FormatV3)
	s.Cluster = writ.ClusterID(r.One("cluster"))
	id, name, _ := strings.Cut(header.FromDash(r.One("datacenter")), " ")
	s.Datacenter, s.DatacenterName = writ.DatacenterID(id), name
	s.Roster, s.RosterDigest = readRosterSeen(r)
	s.Subject = r.One("subject")
	s.Seen = readSeen(r)
	s.Decision = r.One("decision")
	s.Params = r.Params()
	s.Signer = r.One("signer")
	s.Certificate = readCertificate(r, s.Format)
	s.Created = r.Time("created")
	s.Expires = r.Time("expires")
	s.Nonce = readNonce(r)
	s.Reason = header.FromDash(r.One("reason"))
	r.End()
	if err := r.Canonical(text, s.Text); err != nil {
		return nil, err
	}
	return s, nil
}
