package identity

import (
	"strings"
	"time"

	"writ"
)

// Statement is what is signed for every change besides a script: one decision about one subject.
type Statement struct {
	Cluster    writ.ClusterID
	Datacenter writ.DatacenterID // "" if the statement is for the cluster as a whole
	Roster     int               // the version that the signer knows; a verifier must know at least this one
	Subject    string            // "run/<id>", "node/<id>", "token/<id>"
	Decision   string            // "cancel"; the table Rules lists what is possible
	Params     map[string]any    // what the decision needs to know besides, as in a payload
	Signer     string            // a principal of the roster
	Created    time.Time         // whole seconds; fractions are cut off
	Expires    time.Time         // it may be accepted until then
	Nonce      Nonce
	Reason     string // one line for the people who read the log, "" if there is none
}

// Kind returns the first part of the subject, "run".
func (s *Statement) Kind() string {
	kind, _, _ := strings.Cut(s.Subject, "/")
	return kind
}

// ID returns the second part of the subject: a writ.RunID, a writ.NodeID or the id of a token, as Kind says.
func (s *Statement) ID() string {
	_, id, _ := strings.Cut(s.Subject, "/")
	return id
}

// Text returns the exact bytes that are signed. The error (PAYLOAD_MALFORMED or TOO_LARGE) names the first line that cannot be
// written; a decision that is not in the table Rules cannot.
func (s *Statement) Text() ([]byte, error) {
	w := new(textWriter)
	w.line("writ-statement", "v1")
	w.cluster(s.Cluster)
	w.check(s.Datacenter == "" || writ.ValidUUID(string(s.Datacenter)), "datacenter", "%q is not the id of a datacenter", s.Datacenter)
	w.line("datacenter", orDash(string(s.Datacenter)))
	w.number("roster", s.Roster, 1, maxRosterVersion)
	rule, known := RuleOf(StatementNamespace, s.Kind(), s.Decision)
	w.check(known, "decision", "nobody knows %q about a %q", s.Decision, s.Kind())
	w.check(!known || rule.validID(s.ID()), "subject", "%q does not name a %s", s.Subject, s.Kind())
	w.line("subject", s.Subject)
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
	w.window(s.Created, s.Expires, MaxValidity)
	w.nonce(s.Nonce)
	w.check(s.Reason != "-", "reason", "a lone hyphen stands for none")
	w.line("reason", orDash(s.Reason))
	return w.text()
}

// ParseStatement is the reverse of Text and accepts nothing that Text would not have written. The error has the code
// PAYLOAD_MALFORMED or TOO_LARGE.
func ParseStatement(text []byte) (*Statement, error) {
	r := newTextReader(text)
	s := new(Statement)
	r.one("writ-statement")
	s.Cluster = writ.ClusterID(r.one("cluster"))
	s.Datacenter = writ.DatacenterID(fromDash(r.one("datacenter")))
	s.Roster = r.number("roster")
	s.Subject = r.one("subject")
	s.Decision = r.one("decision")
	s.Params = r.params()
	s.Signer = r.one("signer")
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
