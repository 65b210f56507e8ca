package identity

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"writ"
)

// Statement is what is signed for every change besides a script: one decision about one subject.
type Statement struct {
	Format         Format // FormatFor(Certificate) for what is new
	Cluster        writ.ClusterID
	Datacenter     writ.DatacenterID // "" if the statement is for the cluster as a whole
	DatacenterName string            // as the signer's roster has it; "" in FormatV1
	Roster         int               // the version that the signer knows; a verifier must know at least this one
	RosterDigest   writ.Digest       // of that version's text; zero in FormatV1
	Subject        string            // "run/<id>", "node/<id>", "token/<id>", "batch/<id>"
	Seen           Seen              // zero in FormatV1
	Decision       string            // "cancel"; the table Rules lists what is possible
	Params         map[string]any    // what the decision needs to know besides, as in a payload
	Signer         string            // a principal of the roster
	Certificate    writ.Digest       // in FormatV3: of the certificate that signs; zero in the others
	Created        time.Time         // whole seconds; fractions are cut off
	Expires        time.Time         // it may be accepted until then
	Nonce          Nonce
	Reason         string // one line for the people who read the log, "" if there is none
}

// Seen is what the signer of a statement saw of its subject. The supervisor compares it with its own records, so that a coordinator which gives
// the signer the id of another subject, or shows an earlier state of it, gets CONFLICT and nothing else.
type Seen struct {
	Name        string         // of a node, or of the script of a run; "" for others
	Project     writ.ProjectID // of a run or secret; "" for others
	ProjectName string
	Fingerprint string // of the key of a node, "SHA256:…"; "" for others
	Revision    int64  // of a node; of a run that is resumed; of a secret its newest version; 0 for others
}

// SeenNode is what a signer sees of a node.
func SeenNode(n writ.Node) Seen {
	return Seen{Name: n.Name, Fingerprint: n.Key, Revision: int64(n.Revision)}
}

// SeenRun is what a signer sees of a run. Its revision is when it ended, 0 if it has not.
func SeenRun(script string, project writ.ProjectID, projectName string, ended time.Time) Seen {
	s := Seen{Name: script, Project: project, ProjectName: projectName}
	if !ended.IsZero() {
		s.Revision = ended.UnixMicro()
	}
	return s
}

// SeenSecret is what a signer sees of a secret whose newest version is this, 0 if there is none.
func SeenSecret(project writ.ProjectID, projectName string, newest int) Seen {
	return Seen{Project: project, ProjectName: projectName, Revision: int64(newest)}
}

var fingerprintPattern = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

// ValidFingerprint reports whether s is the fingerprint of a key as `ssh-keygen -l` writes it.
func ValidFingerprint(s string) bool { return fingerprintPattern.MatchString(s) }

// Kind returns the first part of the subject, "run".
func (s *Statement) Kind() string {
	kind, _, _ := strings.Cut(s.Subject, "/")
	return kind
}

// ID returns the second part of the subject: a writ.RunID, a writ.NodeID or the id of a token or batch, as Kind says.
func (s *Statement) ID() string {
	_, id, _ := strings.Cut(s.Subject, "/")
	return id
}

// Text returns the exact bytes that are signed. The error (PAYLOAD_MALFORMED or TOO_LARGE) names the first line that cannot be
// written; a decision that is not in the table Rules cannot.
func (s *Statement) Text() ([]byte, error) {
	w := new(textWriter)
	w.format("writ-statement", s.Format)
	w.cluster(s.Cluster)
	w.check(s.Datacenter == "" || writ.ValidUUID(string(s.Datacenter)), "datacenter", "%q is not the id of a datacenter", s.Datacenter)
	w.datacenter(s)
	w.roster(s.Format, s.Roster, s.RosterDigest)
	rule, known := RuleOf(StatementNamespace, s.Kind(), s.Decision)
	w.check(known, "decision", "%q is no decision about a %q", s.Decision, s.Kind())
	w.check(!known || rule.validID(s.ID()), "subject", "%q does not name a %s", s.Subject, s.Kind())
	w.line("subject", s.Subject)
	w.seen(s, rule.about)
	w.line("decision", s.Decision)
	if known && rule.checkParams != nil {
		if err := rule.checkParams(s); err != nil {
			w.fail("params", "%v", err)
		}
	} else {
		w.check(len(s.Params) == 0, "params", "the decision %q takes none", s.Decision)
	}
	w.params(s.Params)
	w.principal("signer", s.Signer)
	w.certificate(s.Format, s.Certificate)
	w.window(s.Created, s.Expires, MaxValidity)
	w.nonce(s.Nonce)
	w.check(s.Reason != "-", "reason", "a lone hyphen stands for none")
	w.line("reason", orDash(s.Reason))
	return w.text()
}

// datacenter writes the id of the datacenter and, from FormatV2 on, its name.
func (w *textWriter) datacenter(s *Statement) {
	if s.Format == FormatV1 || s.Datacenter == "" {
		w.check(s.DatacenterName == "", "datacenter", "there is no place for a name")
		w.line("datacenter", orDash(string(s.Datacenter)))
		return
	}
	w.check(writ.ValidName(s.DatacenterName), "datacenter", "%q is not the name of a datacenter", s.DatacenterName)
	w.line("datacenter", string(s.Datacenter)+" "+s.DatacenterName)
}

// about says what a statement about a kind of subject says of it.
type about struct {
	name        func(string) bool // nil if it has none
	project     bool
	fingerprint bool
	revision    bool
}

// seen writes what the signer saw of the subject, from FormatV2 on.
func (w *textWriter) seen(s *Statement, a about) {
	if s.Format == FormatV1 {
		w.check(s.Seen == Seen{}, "subject", "the format v1 says nothing else of it")
		return
	}
	named := s.Seen.Name == ""
	if a.name != nil {
		named = a.name(s.Seen.Name)
	}
	w.check(named, "name", "%q is not the name of a %s", s.Seen.Name, s.Kind())
	w.line("name", orDash(s.Seen.Name))
	project := "-"
	if a.project {
		w.check(writ.ValidUUID(string(s.Seen.Project)), "project", "%q is not the id of a project", s.Seen.Project)
		w.check(writ.ValidName(s.Seen.ProjectName), "project", "%q is not the name of a project", s.Seen.ProjectName)
		project = string(s.Seen.Project) + " " + s.Seen.ProjectName
	} else {
		w.check(s.Seen.Project == "" && s.Seen.ProjectName == "", "project", "a %s has none", s.Kind())
	}
	w.line("project", project)
	if a.fingerprint {
		w.check(ValidFingerprint(s.Seen.Fingerprint), "fingerprint", "%q is not a fingerprint like SHA256:…", s.Seen.Fingerprint)
	} else {
		w.check(s.Seen.Fingerprint == "", "fingerprint", "a %s has none", s.Kind())
	}
	w.line("fingerprint", orDash(s.Seen.Fingerprint))
	w.check(s.Seen.Revision >= 0 && (a.revision || s.Seen.Revision == 0), "revision", "%d is not possible here", s.Seen.Revision)
	w.line("revision", strconv.FormatInt(s.Seen.Revision, 10))
}

// seen reads what the signer saw of the subject.
func (r *textReader) seen() Seen {
	s := Seen{Name: fromDash(r.one("name"))}
	if project := r.one("project"); r.err == nil && project != "-" {
		words := r.fields(project, 2)
		s.Project, s.ProjectName = writ.ProjectID(words[0]), words[1]
	}
	s.Fingerprint = fromDash(r.one("fingerprint"))
	revision := r.one("revision")
	if r.err == nil {
		var err error
		if s.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
			r.fail("%q is not a revision", clip(revision))
		}
	}
	return s
}

// ParseStatement is the reverse of Text and accepts nothing that Text would not have written. The error has the code
// PAYLOAD_MALFORMED or TOO_LARGE.
func ParseStatement(text []byte) (*Statement, error) {
	r := newTextReader(text)
	s := new(Statement)
	s.Format = r.format("writ-statement")
	s.Cluster = writ.ClusterID(r.one("cluster"))
	id, name, _ := strings.Cut(fromDash(r.one("datacenter")), " ")
	s.Datacenter, s.DatacenterName = writ.DatacenterID(id), name
	s.Roster, s.RosterDigest = r.roster(s.Format)
	s.Subject = r.one("subject")
	if s.Format != FormatV1 {
		s.Seen = r.seen()
	}
	s.Decision = r.one("decision")
	s.Params = r.params()
	s.Signer = r.one("signer")
	s.Certificate = r.certificate(s.Format)
	s.Created = r.time("created")
	s.Expires = r.time("expires")
	s.Nonce = r.nonce()
	s.Reason = fromDash(r.one("reason"))
	r.end()
	if r.err != nil {
		return nil, r.err
	}
	want, err := s.Text()
	if err != nil {
		return nil, err
	}
	if err := same(text, want); err != nil {
		return nil, err
	}
	return s, nil
}
