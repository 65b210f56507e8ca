package identity

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/sshsig"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is the current time of these tests.
var noon = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

const (
	shopID   writ.ProjectID    = "0192f6c2-0000-7000-8000-000000000001"
	mailID   writ.ProjectID    = "0192f6c2-0000-7000-8000-000000000002"
	tenantID writ.TenantID     = "0192f6c2-0000-7000-8000-000000000003"
	viennaID writ.DatacenterID = "0192f6c2-0000-7000-8000-00000000000a"
	grazID   writ.DatacenterID = "0192f6c2-0000-7000-8000-00000000000b"
	nodeID                     = "0192f6c2-0000-7000-8000-0000000000aa"
)

// testKey derives a key from a name, so that golden files are stable and no private key is stored.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func testSigner(name string) sshsig.Signer { return sshsig.NewSigner(testKey(name)) }

func testPublic(name string) ssh.PublicKey { return testSigner(name).PublicKey() }

func supervisorKey(name string) ed25519.PublicKey { return testKey(name).Public().(ed25519.PublicKey) }

func testCluster() writ.ClusterID { return ClusterOf(testPublic("root")) }

// testRoster contains alice (all rights), bob (deployer of web-shop without the destructive flag), carol (an operator
// with a security key), dave (revoked), eve (removed), frank (whose role expires in a minute), a pipeline with an
// authority, and two datacenters.
func testRoster() *Roster {
	keys := func(names ...string) []PrincipalKey {
		var k []PrincipalKey
		for _, n := range names {
			k = append(k, PrincipalKey{Key: testPublic(n), State: Active})
		}
		return k
	}
	return &Roster{
		Cluster:          testCluster(),
		Version:          1,
		Created:          noon.Add(-time.Hour),
		Expires:          noon.Add(RosterValidity),
		Root:             testPublic("root"),
		Threshold:        2,
		Operators:        []string{"alice", "bob", "carol"},
		UserVerification: []Role{Operator},
		Principals: []Principal{
			{Name: "alice", Kind: Person, State: Active, Keys: append(keys("alice", "alice at home"),
				PrincipalKey{Key: testPublic("alice old"), State: Removed}, PrincipalKey{Key: testPublic("alice stolen"), State: Revoked})},
			{Name: "bob", Kind: Person, State: Active, Keys: keys("bob")},
			{Name: "carol", Kind: Person, State: Active, Keys: []PrincipalKey{{Key: securityKey("carol").key, State: Active}}},
			{Name: "ci/shop", Kind: CI, State: Active},
			{Name: "ci/mail", Kind: CI, State: Active},
			{Name: "dave", Kind: Person, State: Revoked, Keys: keys("dave")},
			{Name: "eve", Kind: Person, State: Removed, Keys: keys("eve")},
			{Name: "frank", Kind: Person, State: Active, Keys: keys("frank")},
		},
		Authorities: []Authority{
			{Name: "forge", State: Active, Key: testPublic("forge"), Principals: []string{"ci/shop"}},
			{Name: "old-forge", State: Removed, Key: testPublic("old forge"), Principals: []string{"ci/shop"}},
			{Name: "stolen-forge", State: Revoked, Key: testPublic("stolen forge"), Principals: []string{"ci/shop"}},
		},
		Tenants:  []Tenant{{ID: tenantID, Name: "acme"}},
		Projects: []Project{{ID: mailID, Name: "mail", Tenant: tenantID}, {ID: shopID, Name: "web-shop", Tenant: tenantID}},
		Bindings: []Binding{
			{Principal: "alice", Role: Deployer, Project: "*", Destructive: true},
			{Principal: "alice", Role: Admin, Project: "*"},
			{Principal: "bob", Role: Deployer, Project: shopID},
			{Principal: "carol", Role: Operator, Project: "*"},
			{Principal: "ci/shop", Role: Deployer, Project: shopID},
			{Principal: "ci/mail", Role: Deployer, Project: shopID},
			{Principal: "dave", Role: Deployer, Project: "*", Destructive: true},
			{Principal: "eve", Role: Deployer, Project: "*", Destructive: true},
			{Principal: "frank", Role: Deployer, Project: shopID, Expires: noon.Add(time.Minute)},
		},
		Datacenters: []Datacenter{
			{Datacenter: writ.Datacenter{ID: viennaID, Name: "vienna", Region: "eu", Labels: map[string]string{"tier": "1", "country": "at"}},
				SupervisorKey: supervisorKey("vienna"), Enabled: true},
			{Datacenter: writ.Datacenter{ID: grazID, Name: "graz", Region: "eu"}, SupervisorKey: supervisorKey("graz")},
		},
	}
}

// testDigest is the digest of testRoster.
var testDigest = sync.OnceValue(func() writ.Digest {
	digest, err := testRoster().Digest()
	if err != nil {
		panic(err)
	}
	return digest
})

func testPayload() *Payload {
	return &Payload{
		Format:       FormatV2,
		Cluster:      testCluster(),
		Datacenter:   viennaID,
		Roster:       1,
		RosterDigest: testDigest(),
		Project:      shopID,
		ProjectName:  "web-shop",
		Deployment:   Deployment{Name: "web", Base: 12},
		Signer:       "alice",
		Created:      noon,
		Expires:      noon.Add(DefaultValidity),
		Deadline:     time.Hour,
		Nonce:        Nonce{1, 2, 3},
		Engine:       "tengo/2.17.0 api/1",
		Allow:        []string{"machine.create", "machine.get", "volume.create"},
		MaxCalls:     200,
		Params:       map[string]any{"count": int64(2), "image": "debian-12", "sizes": []any{int64(-1), "b", true}, "quote": "\"\\\n\u007f é"},
		Modules:      []File{{Name: "lib/fleet@1", Text: []byte("export 1\n")}, {Name: "lib/net@2", Text: []byte("export 2\n")}},
		Secrets:      []string{"db-password@3"},
		Script:       File{Name: "web.tengo", Text: []byte("machine := import(\"machine\")\n\nmachine.create(\"web-1\", {cpus: 2})")},
	}
}

func testStatement() *Statement {
	return &Statement{
		Format: FormatV2, DatacenterName: "vienna", RosterDigest: testDigest(), Seen: SeenRun("web.tengo", shopID, "web-shop", time.Time{}),
		Cluster: testCluster(), Datacenter: viennaID, Roster: 1, Subject: "run/" + string(testRun), Decision: "cancel",
		Signer: "alice", Created: noon, Expires: noon.Add(DefaultValidity), Nonce: Nonce{4, 5, 6}, Reason: "wrong image",
	}
}

// seen fills in the signer's view of the subject.
func seen(s *Statement) *Statement {
	project, _ := s.Params["project"].(string)
	p := testRoster().Project(writ.ProjectID(project))
	switch s.Kind() {
	case "node":
		s.Seen = Seen{Name: "n1", Fingerprint: sshsig.Fingerprint(supervisorKey("node")), Revision: 7}
	case "token", "batch":
		s.Seen = Seen{}
	case "datacenter":
		s.Seen = Seen{Name: "vienna"}
		if s.Decision != DecisionRotate {
			s.Seen.Revision = 7
		}
	case "project", "deployment":
		if s.Decision == DecisionCancelRuns || s.Decision == DecisionResumeRuns {
			break // the statement contains it already
		}
		s.Seen = Seen{Project: shopID, ProjectName: "web-shop", Revision: 7}
	case "operation":
		s.Seen = Seen{Revision: 7}
	case "secret":
		name := "unknown"
		if p != nil {
			name = p.Name
		}
		s.Seen = SeenSecret(writ.ProjectID(project), name, 2)
	}
	return s
}

// testRuns is a list of three runs of shop.
func testRuns(resume bool) RunList {
	l := RunList{Project: shopID, ProjectName: "web-shop", Resume: resume}
	for i := range byte(3) {
		l.Runs = append(l.Runs, SawRun(writ.RunIDOf(writ.Digest{i}), "web.tengo", resume, noon.Add(-time.Hour)))
	}
	return l
}

var testRun = writ.RunIDOf(writ.Digest{1})

// signText signs text and joins both.
func signText(t testing.TB, s sshsig.Signer, namespace sshsig.Namespace, text interface{ Text() ([]byte, error) }) []byte {
	t.Helper()
	if s, ok := text.(*Statement); ok && s.Format == FormatV2 {
		seen(s)
	}
	nameCertificate(text, s.PublicKey())
	b, err := text.Text()
	if err != nil {
		t.Fatal(err)
	}
	return signBytes(t, s, namespace, b)
}

// nameCertificate adds the signer's certificate to a text of a current format.
func nameCertificate(text any, key ssh.PublicKey) {
	certificate := CertificateDigest(key)
	switch s := text.(type) {
	case *Statement:
		if s.Format == FormatV2 {
			s.Format, s.Certificate = FormatFor(certificate), certificate
		}
	case *Payload:
		if s.Format == FormatV2 {
			s.Format, s.Certificate = FormatFor(certificate), certificate
		}
	case *Login:
		s.Certificate = certificate
	}
}

func signBytes(t testing.TB, s sshsig.Signer, namespace sshsig.Namespace, text []byte) []byte {
	t.Helper()
	armored, err := s.Sign(namespace, text)
	if err != nil {
		t.Fatal(err)
	}
	return sshsig.Join(text, armored)
}

func signRoster(t testing.TB, r *Roster, signers ...string) []byte {
	t.Helper()
	var s []sshsig.Signer
	for _, name := range signers {
		s = append(s, testSigner(name))
	}
	signed, err := SignRoster(r, s...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func wantCode(t testing.TB, err error, want writ.Code) {
	t.Helper()
	if got := writ.CodeOf(err); got != want {
		t.Errorf("error %v with code %q, want code %q", err, got, want)
	}
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s (-golden +have):\n%s", name, diff)
	}
}

// securitySigner is a FIDO token in software. It signs as PROTOCOL.u2f of OpenSSH specifies, with configurable flags.
type securitySigner struct {
	key     ssh.PublicKey
	private ed25519.PrivateKey
	flags   byte
}

func securityKey(name string) *securitySigner {
	private := testKey("token of " + name)
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, private.Public().(ed25519.PublicKey), "ssh:"}))
	if err != nil {
		panic(err)
	}
	return &securitySigner{key: key, private: private, flags: 0x01}
}

func (s *securitySigner) PublicKey() ssh.PublicKey { return s.key }

func (s *securitySigner) Sign(namespace sshsig.Namespace, text []byte) ([]byte, error) {
	application, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(sshsig.SignedBytes(namespace, text))
	counter := binary.BigEndian.AppendUint32([]byte{s.flags}, 7)
	signed := append(append(append([]byte{}, application[:]...), counter...), message[:]...)
	return sshsig.Armor(s.key, namespace, &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(s.private, signed), Rest: counter}), nil
}

// certify returns a signer with a certificate. change may modify the certificate before the authority signs it.
func certify(t testing.TB, authority, name string, change func(*ssh.Certificate)) sshsig.Signer {
	t.Helper()
	cert := &ssh.Certificate{
		Key: testPublic(name), CertType: ssh.UserCert, KeyId: "job 7", ValidPrincipals: []string{"ci/shop"},
		ValidAfter: uint64(noon.Add(-time.Minute).Unix()), ValidBefore: uint64(noon.Add(15 * time.Minute).Unix()),
	}
	if change != nil {
		change(cert)
	}
	ca, err := ssh.NewSignerFromSigner(testKey(authority))
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.SignCert(bytes.NewReader(make([]byte, 64)), ca); err != nil {
		t.Fatal(err)
	}
	if s, err := sshsig.NewCertifiedSigner(testKey(name), cert); err == nil {
		return s
	}
	return rawSigner{cert, testKey(name)}
}

// rawSigner signs with a key, and names any key or certificate in the signature.
type rawSigner struct {
	names   ssh.PublicKey
	private ed25519.PrivateKey
}

func (s rawSigner) PublicKey() ssh.PublicKey { return s.names }

func (s rawSigner) Sign(namespace sshsig.Namespace, text []byte) ([]byte, error) {
	by, err := ssh.NewSignerFromSigner(s.private)
	if err != nil {
		return nil, err
	}
	value, err := by.Sign(nil, sshsig.SignedBytes(namespace, text))
	if err != nil {
		return nil, err
	}
	return sshsig.Armor(s.names, namespace, value), nil
}

func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func privatePEM(t testing.TB, key crypto.PrivateKey) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}
