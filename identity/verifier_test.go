package identity

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"pgregory.net/rapid"

	"writ"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
)

func testVerifier(t testing.TB) *Verifier {
	t.Helper()
	roster, err := VerifyRoster(nil, signRoster(t, testRoster(), "root"), noon)
	if err != nil {
		t.Fatal(err)
	}
	return &Verifier{
		Roster: roster, Datacenter: viennaID, Engines: []string{"tengo/2.17.0 api/1"},
		Now: func() time.Time { return noon.Add(30 * time.Second) },
		ProjectOf: func(run writ.RunID) (writ.ProjectID, error) {
			if run != testRun {
				return "", writ.Errorf(writ.CodeNotFound, "no run %s", run)
			}
			return shopID, nil
		},
	}
}

func at(d time.Duration) func() time.Time { return func() time.Time { return noon.Add(d) } }

func TestVerifierAcceptsAGoodSubmission(t *testing.T) {
	v := testVerifier(t)
	p := testPayload()
	signed := signText(t, testSigner("alice at home"), sshsig.ScriptNamespace, p)
	have, err := v.Submission(signed)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := p.Text()
	digest := writ.DigestOf(text)
	want := &Verified{Payload: p, Digest: digest, Run: writ.RunIDOf(digest), Signer: "alice"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// A coordinator verifies texts for every datacenter and knows no engine.
func TestVerifierOfACoordinator(t *testing.T) {
	v := &Verifier{Roster: testVerifier(t).Roster, Now: at(0)}
	p := testPayload()
	p.Engine = "tengo/3.0 api/2"
	if _, err := v.Submission(signText(t, testSigner("alice"), sshsig.ScriptNamespace, p)); err != nil {
		t.Error(err)
	}
	v.Now = nil // the real clock
	_, err := v.Submission(signText(t, testSigner("alice"), sshsig.ScriptNamespace, p))
	if code := writ.CodeOf(err); code != writ.CodeExpired && code != writ.CodeNotYetValid && code != writ.CodeRosterTooOld {
		t.Errorf("error %v, want one about time", err)
	}
}

// Each case fails exactly one check of the verifier.
//
// Promise: Signatures and rosters: Every other flaw of a submission is refused with its own code.
// How: Coordinator, supervisor and node use one verifier.
func TestVerifierRefusesSubmission(t *testing.T) {
	type scene struct {
		v       *Verifier
		p       *Payload
		signer  sshsig.Signer
		spoil   func(signed []byte) []byte
		samekey sshsig.Namespace
	}
	ci := func(s *scene, authority string, change func(*ssh.Certificate)) {
		s.p.Signer = "ci/shop"
		s.signer = certify(t, authority, "a job", change)
	}
	for name, tt := range map[string]struct {
		change func(s *scene)
		want   writ.Code
	}{
		"too big": {func(s *scene) {
			s.spoil = func(b []byte) []byte { return append(bytes.Repeat([]byte("x"), sshsig.MaxSigned), b...) }
		}, writ.CodeTooLarge},
		"unsigned":          {func(s *scene) { s.spoil = func(b []byte) []byte { text, _, _ := sshsig.Split(b); return text } }, writ.CodeSignatureMalformed},
		"bytes after":       {func(s *scene) { s.spoil = func(b []byte) []byte { return append(b, '\n') } }, writ.CodeSignatureMalformed},
		"namespace":         {func(s *scene) { s.samekey = sshsig.StatementNamespace }, writ.CodeSignatureNamespace},
		"unknown key":       {func(s *scene) { s.signer = testSigner("mallory") }, writ.CodeSignerUnknown},
		"of a newer roster": {func(s *scene) { s.signer, s.p.Roster = testSigner("mallory"), 2 }, writ.CodeRosterTooOld},
		"revoked since":     {func(s *scene) { s.signer, s.p.Roster = testSigner("alice stolen"), 2 }, writ.CodeSignerRevoked},
		"removed key":       {func(s *scene) { s.signer = testSigner("alice old") }, writ.CodeSignerUnknown},
		"revoked key":       {func(s *scene) { s.signer = testSigner("alice stolen") }, writ.CodeSignerRevoked},
		"revoked person":    {func(s *scene) { s.signer, s.p.Signer = testSigner("dave"), "dave" }, writ.CodeSignerRevoked},
		"removed person":    {func(s *scene) { s.signer, s.p.Signer = testSigner("eve"), "eve" }, writ.CodeSignerUnknown},
		"supervisor's key":  {func(s *scene) { s.signer = testSigner("vienna") }, writ.CodeSignerUnknown},
		"authority's key":   {func(s *scene) { s.signer, s.p.Signer = testSigner("forge"), "ci/shop" }, writ.CodeSignerUnknown},
		"another's name":    {func(s *scene) { s.signer = testSigner("bob") }, writ.CodeSignerUnknown},
		"changed script": {func(s *scene) {
			s.spoil = func(b []byte) []byte { return bytes.Replace(b, []byte("cpus: 2"), []byte("cpus: 9"), 1) }
		}, writ.CodeSignatureInvalid},
		"signed nonsense":    {func(s *scene) { s.p = nil }, writ.CodePayloadMalformed},
		"cluster":            {func(s *scene) { s.p.Cluster = ClusterOf(testPublic("another root")) }, writ.CodeWrongCluster},
		"datacenter":         {func(s *scene) { s.p.Datacenter = grazID }, writ.CodeWrongDatacenter},
		"unknown datacenter": {func(s *scene) { s.v.Datacenter, s.p.Datacenter = "", nodeID }, writ.CodeDatacenterUnknown},
		"datacenter off":     {func(s *scene) { s.v.Datacenter, s.p.Datacenter = "", grazID }, writ.CodeDatacenterAway},
		"newer roster":       {func(s *scene) { s.p.Roster = 2 }, writ.CodeRosterTooOld},
		"expired roster": {func(s *scene) {
			s.v.Now = func() time.Time { return s.v.Roster.Expires.Add(time.Second) }
			s.p.Created, s.p.Expires = s.v.Now(), s.v.Now().Add(time.Minute)
		}, writ.CodeRosterTooOld},
		"project id":   {func(s *scene) { s.p.Project = nodeID }, writ.CodeProjectUnknown},
		"project name": {func(s *scene) { s.p.ProjectName = "mail" }, writ.CodeProjectUnknown},
		"engine":       {func(s *scene) { s.p.Engine = "tengo/2.17.0 api/2" }, writ.CodeEngineUnsupported},
		"future":       {func(s *scene) { s.v.Now = at(-Skew - time.Second) }, writ.CodeNotYetValid},
		"expired":      {func(s *scene) { s.v.Now = at(DefaultValidity + Skew + time.Second) }, writ.CodeExpired},
		"no role there": {func(s *scene) {
			s.signer, s.p.Signer, s.p.Project, s.p.ProjectName = testSigner("bob"), "bob", mailID, "mail"
		}, writ.CodeRoleMissing},
		"role expired": {func(s *scene) { s.signer, s.p.Signer = testSigner("frank"), "frank"; s.v.Now = at(time.Minute) }, writ.CodeRoleMissing},
		"destructive":  {func(s *scene) { s.signer, s.p.Signer, s.p.Targets = testSigner("bob"), "bob", []string{"volume/web-0"} }, writ.CodeDestructiveDenied},
		"everything of one project": {func(s *scene) {
			s.signer, s.p.Signer, s.p.Targets = testSigner("bob"), "bob", []string{"*"}
			s.v.Roster.Bindings = append(slices.Clone(s.v.Roster.Bindings), Binding{Principal: "bob", Role: Deployer, Project: shopID, Destructive: true})
		}, writ.CodeDestructiveDenied},
		"cert of stranger":  {func(s *scene) { ci(s, "mallory", nil) }, writ.CodeSignerUnknown},
		"cert of a person":  {func(s *scene) { ci(s, "alice", nil) }, writ.CodeSignerUnknown},
		"removed authority": {func(s *scene) { ci(s, "old forge", nil) }, writ.CodeSignerUnknown},
		"revoked authority": {func(s *scene) { ci(s, "stolen forge", nil) }, writ.CodeSignerRevoked},
		"host cert":         {func(s *scene) { ci(s, "forge", func(c *ssh.Certificate) { c.CertType = ssh.HostCert }) }, writ.CodeSignerUnknown},
		"cert of everybody": {func(s *scene) { ci(s, "forge", func(c *ssh.Certificate) { c.ValidPrincipals = nil }) }, writ.CodeSignerUnknown},
		"cert of another":   {func(s *scene) { ci(s, "forge", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ci/mail"} }) }, writ.CodeSignerUnknown},
		"cert beyond its authority": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ci/mail"} })
			s.p.Signer = "ci/mail"
		}, writ.CodeSignerUnknown},
		"cert for a person": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"alice"} })
			s.p.Signer = "alice"
		}, writ.CodeSignerUnknown},
		"long cert": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidBefore = c.ValidAfter + 24*3600 + 120 + 1 })
		}, writ.CodeSignerUnknown},
		"eternal cert": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = 0, ssh.CertTimeInfinity })
		}, writ.CodeSignerUnknown},
		"backward cert": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidBefore = c.ValidAfter - 1 })
		}, writ.CodeSignerUnknown},
		"early cert": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidAfter = uint64(noon.Add(31 * time.Second).Unix()) })
		}, writ.CodeNotYetValid},
		"late cert": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidBefore = uint64(noon.Add(30 * time.Second).Unix()) })
		}, writ.CodeExpired},
		"cert with critical option": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "true"} })
		}, writ.CodeSignerUnknown},
		"cert changed after signing": {func(s *scene) {
			ci(s, "forge", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ci/mail"} })
			s.signer.PublicKey().(*ssh.Certificate).ValidPrincipals = []string{"ci/shop"}
		}, writ.CodeSignerUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{v: testVerifier(t), p: testPayload(), signer: testSigner("alice"), samekey: sshsig.ScriptNamespace}
			s.v.Now = at(30 * time.Second)
			tt.change(s)
			var signed []byte
			if s.p == nil {
				signed = signBytes(t, s.signer, s.samekey, []byte("writ-script: v1\n\n"))
			} else {
				signed = signText(t, s.signer, s.samekey, s.p)
			}
			if s.spoil != nil {
				signed = s.spoil(signed)
			}
			_, err := s.v.Submission(signed)
			wantCode(t, err, tt.want)
			if writ.AsError(err).Hint == "" {
				t.Errorf("error %v without a hint", err)
			}
		})
	}
}

func TestVerifierAllowsForSkew(t *testing.T) {
	v := testVerifier(t)
	signed := signText(t, testSigner("alice"), sshsig.ScriptNamespace, testPayload())
	for _, d := range []time.Duration{-Skew, DefaultValidity + Skew} {
		v.Now = at(d)
		if _, err := v.Submission(signed); err != nil {
			t.Errorf("%s after its creation: %v", d, err)
		}
	}
}

func TestVerifierAcceptsACertificateOfAnAuthority(t *testing.T) {
	v := testVerifier(t)
	p := testPayload()
	p.Signer = "ci/shop"
	have, err := v.Submission(signText(t, certify(t, "forge", "a job", nil), sshsig.ScriptNamespace, p))
	if err != nil {
		t.Fatal(err)
	}
	if have.Signer != "ci/shop" {
		t.Errorf("signer %q", have.Signer)
	}
}

// A roster that was built but never parsed may name a missing principal.
func TestCertificateForAnUnknownOwnerIsRejected(t *testing.T) {
	v := testVerifier(t)
	v.Roster = testRoster()
	v.Roster.Authorities[0].Principals = []string{"ci/ghost"}
	p := testPayload()
	v.Roster.digest = p.RosterDigest
	p.Signer = "ci/ghost"
	s := certify(t, "forge", "a job", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ci/ghost"} })
	_, err := v.Submission(signText(t, s, sshsig.ScriptNamespace, p))
	wantCode(t, err, writ.CodeSignerUnknown)
}

// Changes between acceptance and a later verification by a node.
func TestVerifierLater(t *testing.T) {
	accepted := noon.Add(10 * time.Minute)
	for name, tt := range map[string]struct {
		signer, name string
		accepted     time.Time
		now          time.Duration
		change       func(p *Payload)
		want         writ.Code
	}{
		"in time":               {now: time.Hour, want: ""},
		"key removed since":     {signer: "alice old", now: time.Hour, want: ""},
		"person removed since":  {signer: "eve", name: "eve", now: time.Hour, want: ""},
		"right expired since":   {signer: "frank", name: "frank", accepted: noon, now: time.Hour, want: ""},
		"key revoked since":     {signer: "alice stolen", now: time.Hour, want: writ.CodeSignerRevoked},
		"person revoked since":  {signer: "dave", name: "dave", now: time.Hour, want: writ.CodeSignerRevoked},
		"right had expired":     {signer: "frank", name: "frank", now: time.Hour, want: writ.CodeRoleMissing},
		"datacenter off since":  {now: time.Hour, change: func(p *Payload) { p.Datacenter = grazID }, want: ""},
		"past its deadline":     {now: 70*time.Minute + Skew + time.Second, want: writ.CodeRunExpired},
		"stored a moment late":  {accepted: noon.Add(DefaultValidity + Skew + time.Second), now: time.Hour, want: ""},
		"accepted too late":     {accepted: noon.Add(DefaultValidity + 2*Skew + time.Second), now: time.Hour, want: writ.CodeExpired},
		"accepted too early":    {accepted: noon.Add(-Skew - time.Second), now: time.Minute, want: writ.CodeNotYetValid},
		"accepted after now":    {now: 10*time.Minute - Skew - time.Second, want: ""},
		"still not destructive": {signer: "bob", name: "bob", now: time.Hour, change: func(p *Payload) { p.Targets = []string{"volume/web-0"} }, want: writ.CodeDestructiveDenied},
	} {
		t.Run(name, func(t *testing.T) {
			v, p := testVerifier(t), testPayload()
			v.Datacenter, v.Now = "", at(tt.now)
			if tt.signer == "" {
				tt.signer = "alice"
			}
			if tt.name != "" {
				p.Signer = tt.name
			}
			if tt.accepted.IsZero() {
				tt.accepted = accepted
			}
			if tt.change != nil {
				tt.change(p)
			}
			_, err := v.SubmissionAt(signText(t, testSigner(tt.signer), sshsig.ScriptNamespace, p), tt.accepted)
			wantCode(t, err, tt.want)
		})
	}
	// The roster may also expire after acceptance.
	v := testVerifier(t)
	p := testPayload()
	p.Created, p.Expires, p.Deadline = v.Roster.Expires.Add(-time.Minute), v.Roster.Expires, MaxDeadline
	v.Now = func() time.Time { return v.Roster.Expires.Add(24 * time.Hour) }
	if _, err := v.SubmissionAt(signText(t, testSigner("alice"), sshsig.ScriptNamespace, p), p.Created); err != nil {
		t.Error(err)
	}
}

// A node verifies an earlier statement as of its creation.
func TestVerifierOfAPastStatement(t *testing.T) {
	for name, tt := range map[string]struct {
		signer, name string
		now          time.Duration
		want         writ.Code
	}{
		"long expired":         {signer: "alice", name: "alice", now: 24 * time.Hour, want: ""},
		"key removed since":    {signer: "alice old", name: "alice", now: time.Hour, want: ""},
		"person removed since": {signer: "eve", name: "eve", now: time.Hour, want: ""},
		"key revoked since":    {signer: "alice stolen", name: "alice", now: time.Hour, want: writ.CodeSignerRevoked},
		"person revoked since": {signer: "dave", name: "dave", now: time.Hour, want: writ.CodeSignerRevoked},
		"without the right":    {signer: "bob", name: "bob", now: time.Hour, want: writ.CodeRoleMissing},
		"by somebody else":     {signer: "mallory", name: "alice", now: time.Hour, want: writ.CodeSignerUnknown},
		"of the future":        {signer: "alice", name: "alice", now: -Skew - time.Second, want: writ.CodeNotYetValid},
	} {
		t.Run(name, func(t *testing.T) {
			v, s := testVerifier(t), testStatement()
			v.Now, v.Roster.Bindings = at(tt.now), append(v.Roster.Bindings, Binding{Principal: "eve", Role: Admin, Project: "*"})
			s.Subject, s.Decision, s.Signer = "node/"+nodeID, DecisionLost, tt.name
			_, err := v.PastStatement(signText(t, testSigner(tt.signer), sshsig.StatementNamespace, seen(s)))
			wantCode(t, err, tt.want)
		})
	}
}

// An old text is read again long after its rights ended, but never under the name of a person who did not sign it.
func TestPastSubmissionHasAuthor(t *testing.T) {
	year := 365 * 24 * time.Hour
	for name, tt := range map[string]struct {
		signer, named string
		change        func(v *Verifier, p *Payload)
		spoil         func([]byte) []byte
		want          writ.Code
	}{
		"a year ago":       {signer: "alice", named: "alice"},
		"removed key":      {signer: "alice old", named: "alice"},
		"removed person":   {signer: "eve", named: "eve"},
		"without a right":  {signer: "frank", named: "frank"},
		"renamed project":  {signer: "alice", named: "alice", change: func(_ *Verifier, p *Payload) { p.ProjectName = "shop" }},
		"revoked key":      {signer: "alice stolen", named: "alice", want: writ.CodeSignerRevoked},
		"revoked person":   {signer: "dave", named: "dave", want: writ.CodeSignerRevoked},
		"another's name":   {signer: "bob", named: "alice", want: writ.CodeSignerUnknown},
		"unknown key":      {signer: "mallory", named: "alice", want: writ.CodeSignerUnknown},
		"changed script":   {signer: "alice", named: "alice", spoil: func(b []byte) []byte { return bytes.Replace(b, []byte("cpus: 2"), []byte("cpus: 3"), 1) }, want: writ.CodePayloadMalformed},
		"changed base":     {signer: "alice", named: "alice", spoil: func(b []byte) []byte { return bytes.Replace(b, []byte("base 12"), []byte("base 13"), 1) }, want: writ.CodeSignatureInvalid},
		"another cluster":  {signer: "alice", named: "alice", change: func(_ *Verifier, p *Payload) { p.Cluster = ClusterOf(testPublic("another root")) }, want: writ.CodeWrongCluster},
		"other datacenter": {signer: "alice", named: "alice", change: func(_ *Verifier, p *Payload) { p.Datacenter = grazID }, want: writ.CodeWrongDatacenter},
		"another roster":   {signer: "alice", named: "alice", change: func(_ *Verifier, p *Payload) { p.RosterDigest = writ.DigestOf([]byte("x")) }, want: writ.CodeRosterFork},
		"later roster":     {signer: "alice", named: "alice", change: func(_ *Verifier, p *Payload) { p.Roster = 2 }, want: writ.CodeRosterTooOld},
		"in the future":    {signer: "alice", named: "alice", change: func(v *Verifier, _ *Payload) { v.Now = at(-time.Hour) }, want: writ.CodeNotYetValid},
	} {
		t.Run(name, func(t *testing.T) {
			v, p := testVerifier(t), testPayload()
			v.Now, p.Signer = at(year), tt.named
			if tt.change != nil {
				tt.change(v, p)
			}
			signed := signText(t, testSigner(tt.signer), sshsig.ScriptNamespace, p)
			if tt.spoil != nil {
				signed = tt.spoil(signed)
			}
			have, err := PastSubmission(v, signed)
			wantCode(t, err, tt.want)
			if err == nil && (have.Signer != tt.named || have.Payload.Script.Name != p.Script.Name) {
				t.Errorf("got %+v", have)
			}
		})
	}
}

// The certificate of a job ended long ago; it counts at the time of the text.
func TestPastSubmissionHasCertificate(t *testing.T) {
	v, p := testVerifier(t), testPayload()
	p.Signer = "ci/shop"
	signer := job(t, nil)
	signed := signText(t, signer, sshsig.ScriptNamespace, p)
	v.Now = at(365 * 24 * time.Hour)
	have, err := PastSubmission(v, signed)
	if err != nil || have.Certificate == nil || have.Certificate.Authority != "forge" {
		t.Errorf("got %+v, %v", have, err)
	}
	p.Created = p.Created.Add(48 * time.Hour)
	p.Expires = p.Created.Add(DefaultValidity)
	_, err = PastSubmission(v, signText(t, signer, sshsig.ScriptNamespace, p))
	wantCode(t, err, writ.CodeExpired)
}

func TestVerifierAcceptsAGoodStatement(t *testing.T) {
	v := testVerifier(t)
	signed := signText(t, testSigner("bob"), sshsig.StatementNamespace, func() *Statement { s := testStatement(); s.Signer = "bob"; return s }())
	have, err := v.Statement(signed)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := sshsig.Split(signed)
	if have.Signer != "bob" || have.Project != shopID || have.Statement.Decision != "cancel" || have.Digest != writ.DigestOf(text) ||
		have.Rule.Action != ActionControlRuns || !bytes.Equal(have.Signed, signed) {
		t.Errorf("got %+v", have)
	}
}

func TestAdminOfAProjectSetsItsSecrets(t *testing.T) {
	v := testVerifier(t)
	v.Roster.Bindings = append(v.Roster.Bindings, Binding{Principal: "bob", Role: Admin, Project: shopID})
	s := testStatement()
	s.Signer = "bob"
	want := SecretChange{shopID, "db-password", 3, []byte("sealed")}
	want.Statement(s)
	have, err := v.Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, s))
	if err != nil {
		t.Fatal(err)
	}
	change, err := ParseSecretChange(have.Statement)
	if diff := cmp.Diff(want, change); diff != "" || err != nil || have.Project != shopID {
		t.Errorf("project %s, error %v, %s", have.Project, err, diff)
	}
}

func TestSchedulersOfNodesCanLabelThem(t *testing.T) {
	v := testVerifier(t)
	v.Roster.Bindings = append(v.Roster.Bindings, Binding{Principal: "bob", Role: Admin, Project: "*"})
	s := testStatement()
	s.Signer = "bob"
	want := LabelChange{map[string]string{"disk": "ssd", "power": ""}, []string{"rack"}}
	want.Statement(s, nodeID)
	have, err := v.Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, s))
	if err != nil {
		t.Fatal(err)
	}
	change, err := ParseLabelChange(have.Statement)
	if diff := cmp.Diff(want, change); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
	before := map[string]string{"disk": "hdd", "rack": "a1", "tier": "gold"}
	if diff := cmp.Diff(map[string]string{"disk": "ssd", "power": "", "tier": "gold"}, change.Apply(before)); diff != "" || before["disk"] != "hdd" {
		t.Errorf("after the change of %v: %s", before, diff)
	}
}

func TestVerifierRefusesStatement(t *testing.T) {
	type scene struct {
		v      *Verifier
		s      *Statement
		signer sshsig.Signer
		space  sshsig.Namespace
		spoil  func([]byte) []byte
	}
	by := func(s *scene, name string) { s.signer, s.s.Signer = testSigner(name), name }
	label := func(s *scene) { LabelChange{map[string]string{"disk": "ssd"}, nil}.Statement(s.s, nodeID) }
	drain := func(s *scene) { s.s.Subject, s.s.Decision = "node/"+nodeID, "drain" }
	for name, tt := range map[string]struct {
		change func(s *scene)
		want   writ.Code
	}{
		"namespace":      {func(s *scene) { s.space = sshsig.ScriptNamespace }, writ.CodeSignatureNamespace},
		"unknown key":    {func(s *scene) { s.signer = testSigner("mallory") }, writ.CodeSignerUnknown},
		"another's name": {func(s *scene) { s.signer = testSigner("bob") }, writ.CodeSignerUnknown},
		"changed": {func(s *scene) {
			s.spoil = func(b []byte) []byte { return bytes.Replace(b, []byte("cancel"), []byte("resume"), 1) }
		}, writ.CodeSignatureInvalid},
		"nonsense":              {func(s *scene) { s.s = nil }, writ.CodePayloadMalformed},
		"cluster":               {func(s *scene) { s.s.Cluster = ClusterOf(testPublic("another root")) }, writ.CodeWrongCluster},
		"datacenter":            {func(s *scene) { s.s.Datacenter = grazID }, writ.CodeWrongDatacenter},
		"no datacenter":         {func(s *scene) { s.v.Datacenter, s.s.Datacenter, s.s.DatacenterName = "", "", "" }, writ.CodeDatacenterUnknown},
		"another roster":        {func(s *scene) { s.s.RosterDigest = writ.DigestOf([]byte("x")) }, writ.CodeRosterFork},
		"name of a datacenter":  {func(s *scene) { s.s.DatacenterName = "graz" }, writ.CodeConflict},
		"another project":       {func(s *scene) { s.s.Seen.Project, s.s.Seen.ProjectName = mailID, "mail" }, writ.CodeConflict},
		"another project name":  {func(s *scene) { s.s.Seen.ProjectName = "mail" }, writ.CodeConflict},
		"the id of another one": {func(s *scene) { s.s.Seen.Project = mailID }, writ.CodeConflict},
		"newer roster":          {func(s *scene) { s.s.Roster = 2 }, writ.CodeRosterTooOld},
		"future":                {func(s *scene) { s.v.Now = at(-Skew - time.Second) }, writ.CodeNotYetValid},
		"expired":               {func(s *scene) { s.v.Now = at(DefaultValidity + Skew + time.Second) }, writ.CodeExpired},
		"unknown run":           {func(s *scene) { s.s.Subject = "run/" + string(writ.RunIDOf(writ.Digest{2})) }, writ.CodeNotFound},
		"nobody to ask":         {func(s *scene) { s.v.ProjectOf = nil }, writ.CodeInternal},
		"no role": {func(s *scene) {
			by(s, "dave")
			s.signer, s.s.Signer = testSigner("frank"), "frank"
			s.v.Now = at(time.Minute)
		}, writ.CodeRoleMissing},
		"nodes":  {func(s *scene) { by(s, "bob"); drain(s) }, writ.CodeRoleMissing},
		"labels": {func(s *scene) { by(s, "bob"); label(s) }, writ.CodeRoleMissing},
		"labels of all as the admin of one project": {func(s *scene) {
			by(s, "bob")
			label(s)
			s.v.Roster.Bindings = append(s.v.Roster.Bindings, Binding{Principal: "bob", Role: Admin, Project: shopID})
		}, writ.CodeRoleMissing},
		"not verified": {func(s *scene) { drain(s); s.signer, s.s.Signer = securityKey("carol"), "carol" }, writ.CodeRoleMissing},
		"secret by a dev": {func(s *scene) {
			by(s, "bob")
			SecretChange{shopID, "db-password", 1, []byte("sealed")}.Statement(s.s)
		}, writ.CodeRoleMissing},
		"secret of another's project": {func(s *scene) {
			by(s, "bob")
			s.v.Roster.Bindings = append(s.v.Roster.Bindings, Binding{Principal: "bob", Role: Admin, Project: shopID})
			SecretChange{mailID, "db-password", 1, nil}.Statement(s.s)
		}, writ.CodeRoleMissing},
		"secret of no project": {func(s *scene) {
			SecretChange{writ.ProjectID(nodeID), "db-password", 1, []byte("sealed")}.Statement(s.s)
		}, writ.CodeProjectUnknown},
		"token by a dev": {func(s *scene) {
			by(s, "bob")
			TokenGrant{ID: "aaaaaaaaaaaaa", Role: TokenRoleNode, Expires: noon.Add(time.Hour)}.Statement(s.s)
		}, writ.CodeRoleMissing},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{v: testVerifier(t), s: testStatement(), signer: testSigner("alice"), space: sshsig.StatementNamespace}
			tt.change(s)
			var signed []byte
			if s.s == nil {
				signed = signBytes(t, s.signer, s.space, []byte("writ-statement: v1\n"))
			} else {
				signed = signText(t, s.signer, s.space, s.s)
			}
			if s.spoil != nil {
				signed = s.spoil(signed)
			}
			_, err := s.v.Statement(signed)
			wantCode(t, err, tt.want)
		})
	}
}

func TestRoleThatDemandsUserVerification(t *testing.T) {
	v := testVerifier(t)
	s := testStatement()
	s.Subject, s.Decision, s.Signer = "node/"+nodeID, "drain", "carol"
	carol := securityKey("carol")
	carol.flags = 0x05 // touched, with PIN
	if _, err := v.Statement(signText(t, carol, sshsig.StatementNamespace, s)); err != nil {
		t.Error(err)
	}
}

// No byte of a signed text can be replaced, added or removed.
//
// Promise: Signatures and rosters: Verification fails if any byte of a submission is changed.
// How: The signature covers the received bytes; a strict parser writes the text again and compares.
func TestNoByteOfASubmissionCanBeChanged(t *testing.T) {
	v := testVerifier(t)
	signed := signText(t, testSigner("alice"), sshsig.ScriptNamespace, testPayload())
	for i := range signed {
		bad := bytes.Clone(signed)
		bad[i] ^= 1
		if _, err := v.Submission(bad); err == nil {
			t.Fatalf("byte %d changed from %q to %q, and accepted", i, signed[i], bad[i])
		}
	}
	testenv.CheckProperty(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(signed)-1).Draw(t, "at")
		n := rapid.IntRange(0, min(3, len(signed)-i)).Draw(t, "instead of")
		with := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "put")
		bad := append(append(bytes.Clone(signed[:i]), with...), signed[i+n:]...)
		if bytes.Equal(bad, signed) {
			t.Skip("nothing changed")
		}
		if _, err := v.Submission(bad); err == nil {
			t.Fatalf("accepted %q", bad)
		}
	})
}

func BenchmarkSubmission(b *testing.B) {
	v := testVerifier(b)
	signed := signText(b, testSigner("alice"), sshsig.ScriptNamespace, testPayload())
	for b.Loop() {
		if _, err := v.Submission(signed); err != nil {
			b.Fatal(err)
		}
	}
}
