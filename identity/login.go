package identity

import (
	"crypto/ed25519"
	"encoding/hex"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
)

// Validity of logins and sessions.
const (
	// LoginValidity is the validity of a signed login text.
	LoginValidity = time.Minute
	// SessionValidity limits the time for which a session's key can request tokens after one signature of the person.
	SessionValidity = 12 * time.Hour
)

// Login is the text that a person signs to read at one coordinator. It permits a session key, which the client
// generated for this purpose, to request tokens. It permits no changes, and other coordinators reject it.
type Login struct {
	Cluster      writ.ClusterID
	Coordinator  string // id in the roster
	URL          string // the coordinator's address as used by the client
	Roster       int    // version that the signer has seen
	RosterDigest writ.Digest
	Signer       string
	Certificate  writ.Digest // of the signing certificate, in format v2; zero for a plain key, in format v1
	Session      ed25519.PublicKey
	Nonce        []byte // from the coordinator, NonceSize bytes
	Created      time.Time
	Expires      time.Time // expiry of this text
	Until        time.Time // expiry of the session
}

// LoginChallenge is signed by a coordinator at the start of a login.
type LoginChallenge struct {
	Coordinator string `json:"coordinator"`
	URL         string `json:"url"`    // address as used by the client
	Client      []byte `json:"client"` // nonce of the client
	Nonce       []byte `json:"nonce"`  // nonce of the coordinator, for the login
	Time        int64  `json:"time"`   // unix milliseconds, by the coordinator's clock
}

// LoginRefresh is signed by the key of a session to request another token. The nonce is from a new challenge.
type LoginRefresh struct {
	Coordinator string `json:"coordinator"`
	URL         string `json:"url"`
	Nonce       []byte `json:"nonce"`
}

// Text returns the exact bytes to sign.
func (l *Login) Text() ([]byte, error) {
	w := new(header.Writer)
	format := "v1"
	if !l.Certificate.IsZero() {
		format = "v2"
	}
	w.Line("writ-login", format)
	writeCluster(w, l.Cluster)
	w.Check(writ.ValidUUID(l.Coordinator), "coordinator", "%q is not the id of a coordinator",
		header.Clip(l.Coordinator))
	w.Line("coordinator", l.Coordinator)
	w.Check(validCoordinatorURL(l.URL), "url", "%q is not like https://writ.example.org:7440", header.Clip(l.URL))
	w.Line("url", l.URL)
	writeRosterSeen(w, l.Roster, l.RosterDigest)
	writeSigner(w, l.Signer)
	if !l.Certificate.IsZero() {
		w.Line("certificate", l.Certificate.String())
	}
	w.Line("session", keyText(w, "session", sshsig.SSHKey(l.Session)))
	w.Check(len(l.Nonce) == NonceSize, "nonce", "it has %d bytes, not %d", len(l.Nonce), NonceSize)
	w.Line("nonce", hex.EncodeToString(l.Nonce))
	w.Window(l.Created, l.Expires, LoginValidity)
	w.Time("until", l.Until)
	w.Check(!l.Until.After(l.Created.Add(SessionValidity)) &&
		l.Until.After(l.Created), "until", "not within %s after created", SessionValidity)
	return w.Text()
}

// ParseLogin is the inverse of Text. It rejects every text that Text would not write. The error is PAYLOAD_MALFORMED or
// TOO_LARGE.
func ParseLogin(text []byte) (*Login, error) {
	r := header.NewReader(text)
	l := new(Login)
	format := FormatV2 // for texts signed with plain keys
	if r.One("writ-login") == "v2" {
		format = FormatV3
	}
	l.Cluster = writ.ClusterID(r.One("cluster"))
	l.Coordinator = r.One("coordinator")
	l.URL = r.One("url")
	l.Roster, l.RosterDigest = readRosterSeen(r)
	l.Signer = r.One("signer")
	l.Certificate = readCertificate(r, format)
	l.Session = readMachineKey(r, r.Fields(r.One("session"), 2))
	nonce, err := hex.DecodeString(r.One("nonce"))
	if err != nil {
		r.Fail("a nonce is written in hex digits")
	}
	l.Nonce = nonce
	l.Created, l.Expires, l.Until = r.Time("created"), r.Time("expires"), r.Time("until")
	r.End()
	if err := r.Canonical(text, l.Text); err != nil {
		return nil, err
	}
	return l, nil
}

// VerifiedLogin is a login that passed every check, with the key or certificate that signed it.
type VerifiedLogin struct {
	*Login
	Key ssh.PublicKey
}

// Login makes every check of a login that does not depend on the coordinator: size, signature, the signer's key in the
// roster, form, cluster, roster, name, time, and that the signer may read something. The caller checks that the login
// is for this coordinator and was not used before.
func (v *Verifier) Login(signed []byte) (*VerifiedLogin, error) {
	m := moment{at: v.now(), now: v.now()}
	text, who, err := v.authenticate(sshsig.LoginNamespace, signed, m)
	if err != nil {
		return nil, err
	}
	l, err := ParseLogin(text)
	if err != nil {
		return nil, err
	}
	if l.Cluster != v.Roster.Cluster {
		return nil, writ.Errorf(writ.CodeWrongCluster, "the login was signed for the cluster %s, this is %s", l.Cluster,
			v.Roster.Cluster)
	}
	if err := v.checkSeen(l.Roster, l.RosterDigest, who); err != nil {
		return nil, err
	}
	if err := who.is(l.Signer, l.Certificate, v.Roster, m); err != nil {
		return nil, err
	}
	if err := inTime(l.Created, l.Expires, m); err != nil {
		return nil, err
	}
	verified := &VerifiedLogin{l, who.key}
	_, err = verified.Reads(v.Roster, m.at)
	return verified, err
}

// Reads returns the projects that the login may read at the time `at` according to r. If it may read all projects, the
// result is only AllProjects. Reads fails if the session has ended, the signing key was removed or its certificate has
// expired.
func (l *VerifiedLogin) Reads(r *Roster, at time.Time) ([]writ.ProjectID, error) {
	m := moment{at: at, now: at}
	who, err := identify(r, l.Key, m)
	if err != nil {
		return nil, err
	}
	if err := who.is(l.Signer, l.Certificate, r, m); err != nil {
		return nil, err
	}
	if !at.Before(l.Until) {
		return nil, writ.Errorf(writ.CodeLoginRequired, "the session of %s ended at %s",
			l.Signer, header.FormatTime(l.Until)).WithHint("log in again: writ login")
	}
	return r.rightsOf(l.Signer, at, who.proof()).readable()
}

// Allows is Roster.Allows for the login. If a certificate signed the login, the role admin grants no rights.
func (l *VerifiedLogin) Allows(r *Roster, action Action, project writ.ProjectID, at time.Time) error {
	_, certified := l.Key.(*ssh.Certificate)
	return r.rightsOf(l.Signer, at, proof{userVerified: true, certificate: certified}).allowNamed(action, project)
}
