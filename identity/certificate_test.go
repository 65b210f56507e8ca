package identity

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/chain"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

// limitedVerifier uses limitedRoster.
func limitedVerifier(t testing.TB) *Verifier {
	t.Helper()
	v := testVerifier(t)
	roster, err := VerifyRoster(nil, signRoster(t, limitedRoster(), "root"), noon)
	if err != nil {
		t.Fatal(err)
	}
	v.Roster = roster
	return v
}

// ciPayload is a payload of the pipeline, signed with knowledge of the verifier's roster.
func ciPayload(t testing.TB, v *Verifier) *Payload {
	t.Helper()
	p := testPayload()
	p.Signer = "ci/shop"
	var err error
	if p.RosterDigest, err = v.Roster.Digest(); err != nil {
		t.Fatal(err)
	}
	return p
}

// job returns a signer with a certificate of forge. limitedRoster accepts it unless change makes it invalid.
func job(t testing.TB, change func(c *ssh.Certificate)) sshsig.Signer {
	return certify(t, "forge", "a job", func(c *ssh.Certificate) {
		c.KeyId, c.Serial = "repo:acme/shop:1", 7
		if change != nil {
			change(c)
		}
	})
}

func TestCertificateDescribesTheSigner(t *testing.T) {
	v := limitedVerifier(t)
	signed := signText(t, job(t, nil), sshsig.ScriptNamespace, ciPayload(t, v))
	have, err := v.Submission(signed)
	if err != nil {
		t.Fatal(err)
	}
	want := &Certificate{KeyID: "repo:acme/shop:1", Serial: 7, Authority: "forge", Until: noon.Add(15 * time.Minute)}
	if diff := cmp.Diff(want, have.Certificate); diff != "" {
		t.Error(diff)
	}
	if want.String() != "certificate repo:acme/shop:1 of authority forge" {
		t.Error(want)
	}
	later, err := CertificateOf(v.Roster, signed)
	if diff := cmp.Diff(want, later); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if plain, err := CertificateOf(v.Roster, signText(t, testSigner("alice"), sshsig.ScriptNamespace, testPayload())); plain != nil || err != nil {
		t.Errorf("of a plain key: %v, %v", plain, err)
	}
	if name, c := CertificateOwner(v.Roster, job(t, nil).PublicKey().(*ssh.Certificate)); name != "ci/shop" || c == nil || *c != *want {
		t.Errorf("the owner is %q, by %v", name, c)
	}
	golden(t, "payload-v3.writ", signed)
}

// Promise: CI certificates and batches: A certificate signs only for the machines, key ids and time that the roster
// allows for its authority.
// How: Coordinator, supervisor and node each verify it as of the acceptance; critical options, host certificates and
// keys of the roster are refused.
// Also: TestCertificatesOfSSHKeygenAreAccepted, TestANodeVerifiesCertificatesByItself.
func TestCertificatesAreHeldToTheirAuthority(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *ssh.Certificate)
		roster func(r *Roster)
		want   writ.Code
		says   string
	}{
		"valid for too long":    {change: func(c *ssh.Certificate) { c.ValidBefore = c.ValidAfter + 22*60 + 1 }, want: writ.CodeSignerUnknown, says: "20m"},
		"another repository":    {change: func(c *ssh.Certificate) { c.KeyId = "repo:acme/shop-evil:1" }, want: writ.CodeSignerUnknown, says: "repo:acme/shop-evil:1"},
		"a principal with star": {change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"*"} }, want: writ.CodeSignerUnknown},
		"no key id":             {change: func(c *ssh.Certificate) { c.KeyId = "" }, roster: func(r *Roster) { r.Authorities[0].KeyIDs = nil }, want: writ.CodeSignerUnknown},
		"a key id that deceives": {
			change: func(c *ssh.Certificate) { c.KeyId = "repo:acme/shop:\u202e1" }, want: writ.CodeSignerUnknown, says: "key id",
		},
		"a key id without end": {change: func(c *ssh.Certificate) { c.KeyId += strings.Repeat("1", maxKeyID) }, want: writ.CodeSignerUnknown, says: "key id"},
		"source addresses":     {change: func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"source-address": "::/0"} }, want: writ.CodeSignerUnknown, says: "source-address"},
		"a forced command":     {change: func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "id"} }, want: writ.CodeSignerUnknown, says: "force-command"},
		"an unknown option":    {change: func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"x@example.org": ""} }, want: writ.CodeSignerUnknown, says: "x@example.org"},
		"a person's key":       {change: func(c *ssh.Certificate) { c.Key = testPublic("alice") }, want: writ.CodeSignerUnknown, says: "roster"},
		"a revoked key":        {change: func(c *ssh.Certificate) { c.Key = testPublic("alice stolen") }, want: writ.CodeSignerUnknown, says: "roster"},
		"its authority's key":  {change: func(c *ssh.Certificate) { c.Key = testPublic("forge") }, want: writ.CodeSignerUnknown, says: "roster"},
		"the root's key":       {change: func(c *ssh.Certificate) { c.Key = testPublic("root") }, want: writ.CodeSignerUnknown, says: "roster"},
		"the authority's end":  {roster: func(r *Roster) { r.Authorities[0].Expires = noon.Add(30 * time.Second) }, want: writ.CodeExpired, says: "writ ca add forge"},
		"no role": {roster: func(r *Roster) {
			r.Bindings = slices.DeleteFunc(r.Bindings, func(b Binding) bool { return b.Principal == "ci/shop" })
		}, want: writ.CodeRoleMissing},
	} {
		t.Run(name, func(t *testing.T) {
			v := limitedVerifier(t)
			p := ciPayload(t, v)
			by := signedByItsKey(job(t, tt.change))
			if tt.roster != nil {
				tt.roster(v.Roster)
			}
			_, err := v.Submission(signText(t, by, sshsig.ScriptNamespace, p))
			wantCode(t, err, tt.want)
			if e := writ.AsError(err); !strings.Contains(e.Message+e.Hint, tt.says) {
				t.Errorf("error = %q (%s), want %q", e.Message, e.Hint, tt.says)
			}
		})
	}
}

// signedByItsKey signs with the key in the certificate, which a change may have replaced.
func signedByItsKey(by sshsig.Signer) sshsig.Signer {
	key := by.PublicKey().(*ssh.Certificate).Key
	for _, who := range []string{"alice", "alice stolen", "forge", "root"} {
		if bytes.Equal(key.Marshal(), testPublic(who).Marshal()) {
			return rawSigner{by.PublicKey(), testKey(who)}
		}
	}
	return by
}

// An authority is identified by its key. Another key may use the same authority name, key ids and serial numbers.
func TestAuthorityIsIdentifiedByItsKey(t *testing.T) {
	v := limitedVerifier(t)
	same := func(c *ssh.Certificate) { c.KeyId, c.Serial = "repo:acme/shop:1", 7 }
	_, err := v.Submission(signText(t, certify(t, "forge of a stranger", "a job", same), sshsig.ScriptNamespace, ciPayload(t, v)))
	wantCode(t, err, writ.CodeSignerUnknown)

	cert := job(t, nil).PublicKey().(*ssh.Certificate)
	cert.SignatureKey = certify(t, "forge", "forge", nil).PublicKey() // a certificate instead of the authority's key
	if _, err := sshsig.ParseKeyBlob(cert.Marshal()); err == nil {
		if _, err := certified(v.Roster, cert, moment{at: v.now(), now: v.now()}); err == nil {
			t.Error("an authority with a certificate is accepted")
		}
	}
}

// The bytes that a key signs do not include its certificate, so a coordinator could replace or remove it.
//
// Promise: CI certificates and batches: A coordinator can neither replace nor remove the certificate of a signed
// text.
// How: The signed text contains the SHA-256 of the certificate.
func TestCertificateCannotBeSwappedOrStripped(t *testing.T) {
	v := limitedVerifier(t)
	good := job(t, nil)
	signed := signText(t, good, sshsig.ScriptNamespace, ciPayload(t, v))
	text, armored, err := sshsig.Split(signed)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sshsig.Parse(sshsig.ScriptNamespace, armored)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key ssh.PublicKey) []byte {
		return sshsig.Join(text, sshsig.Armor(key, sshsig.ScriptNamespace, s.Value))
	}
	if _, err := v.Submission(with(s.Key)); err != nil {
		t.Fatal(err)
	}
	longer := job(t, func(c *ssh.Certificate) { c.ValidBefore += 60 }).PublicKey()
	otherJob := job(t, func(c *ssh.Certificate) { c.KeyId = "repo:acme/shop:2" }).PublicKey()
	for name, key := range map[string]ssh.PublicKey{"a longer one": longer, "one of another job": otherJob} {
		_, err = v.Submission(with(key))
		wantCode(t, err, writ.CodeSignatureInvalid)
		if _, err := v.Author(sshsig.ScriptNamespace, with(key)); writ.CodeOf(err) != writ.CodeSignatureInvalid {
			t.Errorf("%s: a refusal would bind the author: %v", name, err)
		}
		if c, err := CertificateOf(v.Roster, with(key)); writ.CodeOf(err) != writ.CodeSignatureInvalid {
			t.Errorf("%s: shown as %v, %v", name, c, err)
		}
	}
	_, err = v.Submission(with(testPublic("a job")))
	wantCode(t, err, writ.CodeSignerUnknown)
	_, err = CertificateOf(v.Roster, with(testPublic("a job")))
	wantCode(t, err, writ.CodeSignatureInvalid)

	// The roster also has the job's key as a plain key of the robot. The text names a certificate.
	v.Roster = limitedRoster()
	v.Roster.Principals[3].Keys = []PrincipalKey{{Key: testPublic("a job"), State: Active}}
	p := ciPayload(t, v)
	text, err = func() ([]byte, error) { nameCertificate(p, good.PublicKey()); return p.Text() }()
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Submission(signBytes(t, testSigner("a job"), sshsig.ScriptNamespace, text))
	wantCode(t, err, writ.CodeSignatureInvalid)
}

// Clients of earlier versions do not name the certificate.
func TestTextWithoutItsCertificateIsRejected(t *testing.T) {
	v := limitedVerifier(t)
	text, err := ciPayload(t, v).Text()
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Submission(signBytes(t, job(t, nil), sshsig.ScriptNamespace, text))
	wantCode(t, err, writ.CodeFormatTooOld)
}

func TestOnlyTheThirdFormatNamesACertificate(t *testing.T) {
	p, s := testPayload(), seen(testStatement())
	nameCertificate(p, job(t, nil).PublicKey())
	nameCertificate(s, job(t, nil).PublicKey())
	line := "certificate: " + p.Certificate.String() + "\n"
	for _, good := range []interface{ Text() ([]byte, error) }{p, s} {
		text, err := good.Text()
		if err != nil {
			t.Fatal(err)
		}
		parse := func(text string) (err error) {
			if good == s {
				_, err = ParseStatement([]byte(text))
			} else {
				_, err = ParsePayload([]byte(text))
			}
			return err
		}
		if err := parse(string(text)); err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string][2]string{
			"no line": {line, ""}, "two lines": {line, line + line}, "second format": {": v3\n", ": v2\n"}, "none": {line, "certificate: -\n"},
			"zero": {line, "certificate: " + strings.Repeat("0", 64) + "\n"}, "fourth format": {": v3\n", ": v4\n"},
		} {
			bad := strings.Replace(string(text), change[0], change[1], 1)
			if err := parse(bad); writ.CodeOf(err) != writ.CodePayloadMalformed || bad == string(text) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCertificateSizeIsLimited(t *testing.T) {
	many := job(t, func(c *ssh.Certificate) {
		for len(c.ValidPrincipals) < 700 {
			c.ValidPrincipals = append(c.ValidPrincipals, "ci/shop-elsewhere")
		}
	})
	v := limitedVerifier(t)
	p := ciPayload(t, v)
	nameCertificate(p, many.PublicKey())
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := rawSigner{many.PublicKey(), testKey("a job")}.Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Submission(sshsig.Join(text, armored))
	wantCode(t, err, writ.CodeTooLarge)
	_, err = many.Sign(sshsig.ScriptNamespace, text) // the client does not submit it either
	wantCode(t, err, writ.CodeKeyUnusable)
}

// Accepted runs continue after the end of the certificate or authority that admitted them, like runs of a removed
// person. The clock of a node does not matter.
func TestRunsOutliveTheirCertificate(t *testing.T) {
	accepted := noon.Add(10 * time.Minute)
	for name, tt := range map[string]struct {
		change   func(r *Roster)
		accepted time.Time
		want     writ.Code
	}{
		"long after its certificate": {},
		"the authority was removed":  {change: func(r *Roster) { r.Authorities[0].State = Removed }},
		"the authority has expired":  {change: func(r *Roster) { r.Authorities[0].Expires = accepted.Add(time.Second) }},
		"the robot was removed":      {change: func(r *Roster) { r.Principal("ci/shop").State = Removed }},
		"the authority was revoked":  {change: func(r *Roster) { r.Authorities[0].State = Revoked }, want: writ.CodeSignerRevoked},
		"the robot was revoked":      {change: func(r *Roster) { r.Principal("ci/shop").State = Revoked }, want: writ.CodeSignerRevoked},
		"the robot was taken out":    {change: func(r *Roster) { r.Authorities[0].Principals = []string{"ci/mail"} }, want: writ.CodeSignerUnknown},
		"decided a moment late":      {accepted: noon.Add(15*time.Minute + time.Second)},
		"accepted after its end":     {accepted: noon.Add(15*time.Minute + Skew), want: writ.CodeExpired},
		"accepted before it began":   {accepted: noon.Add(-time.Minute - time.Second), want: writ.CodeNotYetValid},
	} {
		t.Run(name, func(t *testing.T) {
			v := limitedVerifier(t)
			signed := signText(t, job(t, nil), sshsig.ScriptNamespace, ciPayload(t, v))
			if tt.accepted.IsZero() {
				tt.accepted = accepted
			}
			if tt.change != nil {
				tt.change(v.Roster)
				v.Roster.byKey = nil
			}
			v.Now = at(time.Hour)
			_, err := v.SubmissionAt(signed, tt.accepted)
			wantCode(t, err, tt.want)
		})
	}
}

// Promise: CI certificates and batches: A certificate cannot sign a roster or use the role admin, and the key of an
// authority belongs to no principal or daemon.
// How: The verifier ignores that role; a roster that breaks the rule is invalid.
// Also: TestCertificateCannotSignRosters, TestAuthorityHasItsOwnKeyAndValidLimits.
func TestCertificateGetsNoAdminRole(t *testing.T) {
	v := limitedVerifier(t)
	robot := func(role Role) {
		v.Roster.Bindings = []Binding{{Principal: "ci/shop", Role: role, Project: AllProjects}, {Principal: "ci/shop", Role: Deployer, Project: shopID}}
	}
	sign := func(signer sshsig.Signer, subject, decision string) error {
		s := testStatement()
		s.Signer, s.Subject, s.Decision = "ci/shop", subject, decision
		s.RosterDigest, _ = v.Roster.Digest()
		verified, err := v.Statement(signText(t, signer, sshsig.StatementNamespace, s))
		if err == nil {
			wantCode(t, verified.Allows(ActionAdmitNodes, v.now()), writ.CodeRoleMissing)
		}
		return err
	}
	if err := sign(job(t, nil), "run/"+string(testRun), "cancel"); err != nil {
		t.Errorf("a deployer cancels a run: %v", err)
	}
	robot(Admin)
	v.Roster.digest, v.Roster.chain = writ.Digest{}, chain.Chain{} // computed from the changed roster
	wantCode(t, sign(job(t, nil), "node/"+nodeID, "approve"), writ.CodeRoleMissing)
	wantCode(t, sign(job(t, nil), "node/"+nodeID, "cordon"), writ.CodeRoleMissing)
	robot(Operator)
	v.Roster.UserVerification = nil
	if err := sign(job(t, nil), "node/"+nodeID, "cordon"); err != nil {
		t.Errorf("an operator cordons a node: %v", err)
	}
}

// Only keys of people sign rosters. A certificate for one of these keys is another key.
func TestCertificateCannotSignRosters(t *testing.T) {
	first := limitedRoster()
	first.Threshold = 1
	roster, err := VerifyRoster(nil, signRoster(t, first, "root"), noon)
	if err != nil {
		t.Fatal(err)
	}
	next, err := roster.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"alice", "root", "a job"} {
		signed, err := SignRoster(next, certify(t, "forge", who, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"alice"} }))
		if err != nil {
			t.Fatal(err)
		}
		_, err = VerifyRoster(roster, signed, noon)
		wantCode(t, err, writ.CodeRosterInvalid)
	}
}

func TestCertificateLoginEndsWithItsCertificate(t *testing.T) {
	v := limitedVerifier(t)
	digest, err := v.Roster.Digest()
	if err != nil {
		t.Fatal(err)
	}
	l := &Login{
		Cluster: testCluster(), Coordinator: nodeID, URL: "https://front.example.org:7440", Roster: 1, RosterDigest: digest, Signer: "ci/shop",
		Session: supervisorKey("session"), Nonce: make([]byte, NonceSize), Created: noon, Expires: noon.Add(LoginValidity), Until: noon.Add(SessionValidity),
	}
	signed := signText(t, job(t, nil), sshsig.LoginNamespace, l)
	login, err := v.Login(signed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := login.Reads(v.Roster, noon.Add(15*time.Minute-time.Second)); err != nil {
		t.Error(err)
	}
	_, err = login.Reads(v.Roster, noon.Add(15*time.Minute))
	wantCode(t, err, writ.CodeExpired)
	powerful := *v.Roster
	powerful.Bindings = append(slices.Clone(powerful.Bindings), Binding{Principal: "ci/shop", Role: Admin, Project: AllProjects})
	if projects, err := login.Reads(&powerful, noon); err != nil || slices.Contains(projects, AllProjects) {
		t.Errorf("by the role admin it reads %v, %v", projects, err)
	}
	wantCode(t, login.Allows(&powerful, ActionScheduleNodes, "", noon), writ.CodeRoleMissing)
	if err := powerful.Allows("ci/shop", ActionScheduleNodes, "", noon); err != nil {
		t.Error(err)
	}
	text, armored, _ := sshsig.Split(signed)
	for name, bad := range map[string]string{
		"in the first form": strings.Replace(string(text), "writ-login: v2", "writ-login: v1", 1),
		"without its line":  strings.Replace(string(text), "certificate: "+l.Certificate.String()+"\n", "", 1),
	} {
		if _, err := ParseLogin([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed || bad == string(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := sshsig.Parse(sshsig.LoginNamespace, armored)
	if err != nil {
		t.Fatal(err)
	}
	longer := job(t, func(c *ssh.Certificate) { c.ValidBefore += 60 }).PublicKey()
	_, err = v.Login(sshsig.Join(text, sshsig.Armor(longer, sshsig.LoginNamespace, s.Value)))
	wantCode(t, err, writ.CodeSignatureInvalid)
}

// Certificates by ssh-keygen are accepted, with a key file as the authority and a security key as the job's key.
func TestCertificatesOfSSHKeygenAreAccepted(t *testing.T) {
	keygen := testenv.Need(t, "ssh-keygen")
	dir := t.TempDir()
	ca := write(t, dir, "ca", privatePEM(t, testKey("forge")))
	key := write(t, dir, "job", privatePEM(t, testKey("a job")))
	write(t, dir, "job.pub", ssh.MarshalAuthorizedKey(testPublic("a job")))
	now := time.Now()
	out, err := exec.Command(keygen, "-q", "-s", ca, "-I", "repo:acme/shop:1", "-z", "9", "-n", "ci/shop", "-V", "-1m:+10m", "-O", "clear", key+".pub").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	signer, err := sshsig.LoadKey(key+"-cert.pub", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := limitedRoster()
	r.Created, r.Expires, r.Authorities[0].Expires = now.Add(-time.Hour), now.Add(RosterValidity), now.Add(time.Hour)
	roster, err := VerifyRoster(nil, signRoster(t, r, "root"), now)
	if err != nil {
		t.Fatal(err)
	}
	v := &Verifier{Roster: roster, Datacenter: viennaID}
	p := ciPayload(t, v)
	p.Created, p.Expires = now, now.Add(DefaultValidity)
	have, err := v.Submission(signText(t, signer, sshsig.ScriptNamespace, p))
	if err != nil {
		t.Fatal(err)
	}
	if have.Certificate.Serial != 9 || have.Certificate.KeyID != "repo:acme/shop:1" {
		t.Errorf("%+v", have.Certificate)
	}
	if out, err := exec.Command(keygen, "-q", "-s", ca, "-I", "host", "-h", "-n", "ci/shop", "-V", "-1m:+10m", key+".pub").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "job-cert.pub"))
	if err != nil {
		t.Fatal(err)
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	_, err = certified(roster, host.(*ssh.Certificate), moment{at: now, now: now})
	wantCode(t, err, writ.CodeSignerUnknown)
}
