package identity

import (
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
)

// Author is the principal who signed a text, as confirmed by signature, roster and text.
type Author struct {
	Signer  string
	Digest  writ.Digest // SHA-256 of the text
	Subject string      // of a statement; "run/<id>" for a submission
	Expires time.Time
}

// Author returns the author of a text for this verifier's datacenter, even if the text itself must be refused. A text
// has an author if a key or certificate of the principal that the text names signed the text. Otherwise anyone may have
// combined text and signature, so a decision about them must not be attributed to this principal. The errors are those
// of Submission and Statement.
func (v *Verifier) Author(namespace sshsig.Namespace, signed []byte) (Author, error) {
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
	if namespace == sshsig.ScriptNamespace {
		p, err := ParsePayload(text)
		if err != nil {
			return Author{}, err
		}
		a.Signer, a.Subject, a.Expires, certificate = p.Signer, "run/"+
			string(writ.RunIDOf(a.Digest)), p.Expires, p.Certificate
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
		return Author{}, writ.Errorf(writ.CodeWrongCluster, "the text was signed for the cluster %s, this is %s",
			cluster, v.Roster.Cluster)
	case datacenter != v.Datacenter:
		return Author{}, writ.Errorf(writ.CodeWrongDatacenter, "the text was signed for the datacenter %s, this is %s",
			header.OrDash(string(datacenter)), v.Datacenter)
	}
	return a, who.is(a.Signer, certificate, v.Roster, m)
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

// certificate returns a description of the signer's certificate, or nil for a plain key.
func (i identified) certificate() *Certificate {
	if i.cert == nil {
		return nil
	}
	return certificateOf(i.cert, i.authority)
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
			return badCertificate("the certificate %s of the authority %s does not stand for %s", i.cert.KeyId,
				i.authority.Name, signer)
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

func identify(r *Roster, key ssh.PublicKey, m moment) (identified, error) {
	if cert, ok := key.(*ssh.Certificate); ok {
		authority, err := certified(r, cert, m)
		return identified{key: key, cert: cert, authority: authority}, err
	}
	owner := r.owners()[string(key.Marshal())]
	if owner.principal == nil {
		return identified{}, unknownSigner("the roster has no key %s", ssh.FingerprintSHA256(key))
	}
	if err := usable(owner.state, "the key "+ssh.FingerprintSHA256(key), m); err != nil {
		return identified{}, err
	}
	return identified{key: key, principal: owner.principal}, nil
}

// usable returns an error if a key, principal or authority was revoked, or was removed before the first verification.
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

func nameOf(p *Principal) string {
	if p == nil {
		return "another principal"
	}
	return p.Name
}
