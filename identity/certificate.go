package identity

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
	"writ/internal/hidden"
)

// maxKeyID limits the key id of a certificate, in bytes. maxArmor limits the certificate itself.
const maxKeyID = 256

// Certificate describes the certificate that signed a text, for people.
type Certificate struct {
	KeyID     string    `json:"key_id"`
	Serial    uint64    `json:"serial"`
	Authority string    `json:"authority"` // name in the roster
	Until     time.Time `json:"until"`
}

// String returns "certificate ci-1234 of authority github".
func (c Certificate) String() string {
	return fmt.Sprintf("certificate %s of authority %s", c.KeyID, c.Authority)
}

// CertificateDigest returns the digest under which a signed text names the signer's certificate: the SHA-256 of its
// wire form. It is zero for a plain key.
func CertificateDigest(key ssh.PublicKey) writ.Digest {
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return writ.Digest{}
	}
	return writ.DigestOf(cert.Marshal())
}

// FormatFor returns the format of a text signed by the certificate with this digest, or by a plain key if the digest is
// zero.
func FormatFor(certificate writ.Digest) Format {
	if certificate.IsZero() {
		return FormatV2
	}
	return FormatV3
}

// CertificateOf returns the certificate that signed a submission, or nil for a plain key. It is for submissions that
// were already accepted, so it does not check whether the certificate is still valid. The text must name the
// certificate, the signature must match, and an authority of the roster, in any state, must have issued it.
func CertificateOf(r *Roster, signed []byte) (*Certificate, error) {
	text, armored, err := sshsig.Split(signed)
	if err != nil {
		return nil, err
	}
	key, err := sshsig.Verify(sshsig.ScriptNamespace, text, armored)
	if err != nil {
		return nil, err
	}
	p, err := ParsePayload(text)
	if err != nil {
		return nil, err
	}
	if err := checkNamed(key, p.Certificate); err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, nil
	}
	a := authorityOf(r, cert)
	if a == nil {
		return nil, badCertificate("no authority of the roster issued the certificate")
	}
	return certificateOf(cert, a), checkIssued(cert, time.Unix(int64(cert.ValidAfter), 0))
}

// CertificateOwner returns the principal that a certificate stands for and the certificate's description. The principal
// is the first name in the certificate that its authority also lists, or "" if no name is in both. CertificateOwner
// does not check whether the certificate is valid now.
func CertificateOwner(r *Roster, cert *ssh.Certificate) (string, *Certificate) {
	a := authorityOf(r, cert)
	if a == nil {
		return "", nil
	}
	for _, name := range cert.ValidPrincipals {
		if a.standsFor(cert, name) {
			return name, certificateOf(cert, a)
		}
	}
	return "", nil
}

// CheckCertificateOwner returns nil if CertificateOwner finds a principal, or else an error that names the certificate
// and the first rule that excludes it. The error quotes unverified text of the certificate.
func CheckCertificateOwner(r *Roster, cert *ssh.Certificate) error {
	if name, _ := CertificateOwner(r, cert); name != "" {
		return nil
	}
	shown := fmt.Sprintf("the certificate %q for %s, issued by %s", cert.KeyId, quoted(cert.ValidPrincipals),
		ssh.FingerprintSHA256(cert.SignatureKey))
	a := authorityOf(r, cert)
	if a == nil {
		return writ.Errorf(writ.CodeSignerUnknown, "%s: the roster has no authority with this key", shown).
			WithHint("`writ ca list` shows the authorities; let one of them issue the certificate, or a root operator adds this one: writ ca add")
	}
	var named []string
	for _, name := range cert.ValidPrincipals {
		if slices.Contains(a.Principals, name) {
			named = append(named, name)
		}
	}
	if len(named) == 0 {
		return writ.Errorf(writ.CodeSignerUnknown, "%s: the authority %s may issue certificates only for the principal %s",
			shown, a.Name, strings.Join(a.Principals, " or ")).
			WithHint("issue the certificate for that principal: ssh-keygen -n; or a root operator adds the machine: writ ca add %s --user",
				a.Name)
	}
	return writ.Errorf(writ.CodeSignerUnknown, "%s: the authority %s accepts for %s only the key id %s", shown, a.Name,
		named[0], strings.Join(a.KeyIDs[named[0]], " or ")).
		WithHint("issue the certificate with an accepted key id: ssh-keygen -I; or a root operator changes the rule: writ ca add %s --key-id",
			a.Name)
}

// quoted returns a list of quoted principals for messages.
func quoted(names []string) string {
	if len(names) == 0 {
		return "no principal"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(shown, ", ")
}

func certificateOf(cert *ssh.Certificate, a *Authority) *Certificate {
	// A certificate without an end has the ValidBefore CertTimeInfinity, which exceeds int64.
	until := time.Unix(int64(min(cert.ValidBefore, lastSecond)), 0).UTC()
	return &Certificate{KeyID: cert.KeyId, Serial: cert.Serial, Authority: a.Name, Until: until}
}

// lastSecond is the end of the year 9999 in Unix time, the last year that RFC 3339 can express.
const lastSecond = 253402300799

// CheckCertificate returns nil if a text signed by the certificate now would be accepted, or else the reason.
func CheckCertificate(r *Roster, cert *ssh.Certificate, now time.Time) error {
	_, err := certified(r, cert, moment{at: now, now: now})
	return err
}

// certified checks a certificate, except for the principal, and returns the authority that issued it.
func certified(r *Roster, cert *ssh.Certificate, m moment) (*Authority, error) {
	a := authorityOf(r, cert)
	if a == nil {
		return nil, badCertificate("no authority of the roster issued the certificate")
	}
	if err := usable(a.State, "the authority "+a.Name, m); err != nil {
		return nil, err
	}
	if owner := r.owners()[string(cert.Key.Marshal())]; owner != (keyOwner{}) ||
		bytes.Equal(cert.Key.Marshal(), r.Root.Marshal()) {
		return nil, badCertificate("the certificate is for a key that the roster already has").
			WithHint("create a key and a certificate for each job")
	}
	life := a.MaxLife()
	if m.later { // the limit of the authority applies only to new texts; accepted runs continue
		life = MaxCertificateLife
	}
	switch {
	case cert.CertType != ssh.UserCert:
		return nil, badCertificate("the certificate is not a user certificate")
	case len(cert.ValidPrincipals) == 0: // package ssh would accept such a certificate for every principal
		return nil, badCertificate("the certificate names no principal")
	case !validKeyID(cert.KeyId):
		return nil, badCertificate("the certificate has no printable key id of 1 to %d bytes", maxKeyID)
	// If the times are swapped, the unsigned difference is huge, so this case rejects the certificate.
	case cert.ValidBefore-cert.ValidAfter > uint64((life+backdated)/time.Second):
		return nil, badCertificate("the certificate is valid for more than %s, the limit of the authority %s",
			header.FormatDuration(life), a.Name)
	case m.at.Unix() < int64(cert.ValidAfter):
		return nil, writ.Errorf(writ.CodeNotYetValid, "the certificate is not valid yet").
			WithHint("set the clock of the issuing machine")
	case !m.counts(time.Unix(int64(cert.ValidBefore), 0)):
		return nil, writ.Errorf(writ.CodeExpired, "the certificate has expired").
			WithHint("get a new one and sign again")
	case !a.Expires.IsZero() && !m.counts(a.Expires):
		return nil, writ.Errorf(writ.CodeExpired, "the authority %s was valid until %s", a.Name,
			header.FormatTime(a.Expires)).
			WithHint("a root operator extends its validity: writ ca add %s --valid 2160h", a.Name)
	}
	if len(cert.CriticalOptions) > 0 { // writ supports no critical options, and an unknown option must not be ignored
		return nil, badCertificate("the certificate has the unsupported critical option %s",
			strings.Join(slices.Sorted(maps.Keys(cert.CriticalOptions)), ", ")).
			WithHint("create it without critical options: ssh-keygen -O clear")
	}
	return a, checkIssued(cert, m.at)
}

// counts reports whether a certificate or authority that expires at `until` is valid at m.at. A supervisor decides
// slightly later than it verifies, so Skew is added for an accepted text (m.later).
func (m moment) counts(until time.Time) bool {
	if m.later {
		until = until.Add(Skew)
	}
	return m.at.Before(until)
}

// checkIssued checks that the authority named in a certificate signed it.
func checkIssued(cert *ssh.Certificate, at time.Time) error {
	// The caller checks the validity period, so the checker gets a time within it.
	inside := min(max(at.Unix(), int64(cert.ValidAfter)), int64(cert.ValidBefore)-1)
	checker := ssh.CertChecker{
		Clock:                    func() time.Time { return time.Unix(inside, 0) },
		SupportedCriticalOptions: slices.Collect(maps.Keys(cert.CriticalOptions)),
	}
	principal := ""
	if len(cert.ValidPrincipals) > 0 {
		principal = cert.ValidPrincipals[0]
	}
	if err := checker.CheckCert(principal, cert); err != nil {
		e := badCertificate("the authority did not sign this certificate")
		e.Err = err
		return e
	}
	return nil
}

// checkNamed checks that a text names the certificate that signed it. The bytes that a key signs do not include its
// certificate, so without this check another certificate of the same key could replace it.
func checkNamed(key ssh.PublicKey, certificate writ.Digest) error {
	digest := CertificateDigest(key)
	switch {
	case digest == certificate:
		return nil
	case certificate.IsZero():
		return writ.Errorf(writ.CodeFormatTooOld,
			"the text does not name the certificate that signed it, as the format v3 requires").
			WithHint("upgrade writ on the machine that signs, and sign again")
	}
	return writ.Errorf(writ.CodeSignatureInvalid, "the signature has another certificate than the text names").
		WithHint("submit text and signature unchanged, or sign again")
}

func validKeyID(s string) bool {
	odd := func(r rune) bool { return unicode.IsControl(r) || hidden.Is(r) }
	return s != "" && len(s) <= maxKeyID && utf8.ValidString(s) && !strings.ContainsFunc(s, odd) &&
		strings.TrimSpace(s) == s
}

func badCertificate(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignerUnknown, format, args...).
		WithHint("get another certificate; `writ ca list` shows the limits of each authority")
}
