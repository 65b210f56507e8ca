package identity

import (
	"time"

	"writ"
	"writ/identity/header"
)

// Author is the principal who signed a text, as confirmed by signature, roster and text.
type Author struct {
	Signer  string
	Digest  writ.Digest // SHA-256 of the text
	Subject string      // of a statement; "run/<id>" for a submission
	Expires time.Time
}

// Author returns the author of a text for this verifier's datacenter, even if the text itself must be refused. A text
// has an author if the key of the principal that it names signed it. Without an author, anyone may have combined text
// and signature, so a decision about them does not bind the named principal. The errors are those of Submission and
// Statement.
func (v *Verifier) Author(namespace Namespace, signed []byte) (Author, error) {
	now := v.now()
	m := moment{at: now, now: now}
	text, who, err := v.authenticate(namespace, signed, m)
	if err != nil {
		return Author{}, err
	}
	a := Author{Digest: writ.DigestOf(text)}
	var cluster writ.ClusterID
	var datacenter writ.DatacenterID
	var certificate writ.Digest
	if namespace == ScriptNamespace {
		p, err := ParsePayload(text)
		if err != nil {
			return Author{}, err
		}
		a.Signer, a.Subject, a.Expires, certificate = p.Signer, "run/"+string(writ.RunIDOf(a.Digest)), p.Expires, p.Certificate
		cluster, datacenter = p.Cluster, p.Datacenter
	} else {
		s, err := ParseStatement(text)
		if err != nil {
			return Author{}, err
		}
		a.Signer, a.Subject, a.Expires, certificate = s.Signer, s.Subject, s.Expires, s.Certificate
		cluster, datacenter = s.Cluster, s.Datacenter
	}
	switch {
	case cluster != v.Roster.Cluster:
		return Author{}, writ.Errorf(writ.CodeWrongCluster, "the text was signed for the cluster %s, this is %s", cluster, v.Roster.Cluster)
	case datacenter != v.Datacenter:
		return Author{}, writ.Errorf(writ.CodeWrongDatacenter, "the text was signed for the datacenter %s, this is %s",
			header.OrDash(string(datacenter)), v.Datacenter)
	}
	return a, who.is(a.Signer, certificate, v.Roster, m)
}
