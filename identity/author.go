package identity

import (
	"time"

	"writ"
)

// Author is who signed a text, where signature, roster and the text itself agree on that.
type Author struct {
	Signer  string
	Digest  writ.Digest // SHA-256 of the text
	Subject string      // of a statement; "run/<id>" of a submission
	Expires time.Time
}

// Author returns who signed a text that is meant for this verifier's datacenter. Whether it may be accepted is another question: a text that
// is refused has an author if it was signed by the key of the principal whom it names. Without one anybody may have put text and signature
// together, and nothing that is said of the two binds the author. The error is that of Submission or Statement.
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
			orDash(string(datacenter)), v.Datacenter)
	}
	return a, who.is(a.Signer, certificate, v.Roster, m)
}
