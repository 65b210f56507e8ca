package sshsig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oracle "github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"pgregory.net/rapid"

	"writ"
	"writ/identity/header"
	"writ/internal/test/testenv"
)

func TestSSHKeygenAcceptsOurSignatures(t *testing.T) {
	keygen := testenv.Need(t, "ssh-keygen")
	dir := t.TempDir()
	text := []byte("anything\n\x00at all")
	armored, err := testSigner("alice").Sign(ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	allowed := write(t, dir, "allowed", []byte(`alice namespaces="writ-script-v1" `+string(ssh.MarshalAuthorizedKey(testPublic("alice")))))
	sig := write(t, dir, "text.sig", armored)
	verify := func(namespace string) ([]byte, error) {
		cmd := exec.Command(keygen, "-Y", "verify", "-f", allowed, "-I", "alice", "-n", namespace, "-s", sig)
		cmd.Stdin = bytes.NewReader(text)
		return cmd.CombinedOutput()
	}
	if out, err := verify("writ-script-v1"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := verify("writ-roster-v1"); err == nil {
		t.Errorf("ssh-keygen verified in another namespace: %s", out)
	}
}

func TestWeAcceptSSHKeygensSignatures(t *testing.T) {
	keygen := testenv.Need(t, "ssh-keygen")
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(keygen, args...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %q: %v: %s", args, err, out)
		}
	}
	key, ca := filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	run("-q", "-t", "ed25519", "-N", "", "-f", key)
	run("-q", "-t", "ed25519", "-N", "", "-f", ca)
	run("-q", "-s", ca, "-I", "job", "-n", "ci/shop", "-V", "+15m", "-O", "clear", key+".pub")
	for _, use := range []string{key, key + "-cert.pub"} {
		text := write(t, dir, "text", []byte("a text"))
		_ = os.Remove(text + ".sig")
		run("-q", "-Y", "sign", "-n", "writ-script-v1", "-f", use, text)
		armored, err := os.ReadFile(text + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		signed, err := Verify(ScriptNamespace, []byte("a text"), armored)
		if err != nil {
			t.Fatalf("%s: %v", use, err)
		}
		s, err := LoadKey(use, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(signed.Marshal(), s.PublicKey().Marshal()) {
			t.Errorf("%s: signed by another key than LoadKey finds", use)
		}
		if ours, err := s.Sign(ScriptNamespace, []byte("a text")); err != nil || !bytes.Equal(ours, armored) {
			t.Errorf("%s: our own signature differs from ssh-keygen's, error %v", use, err)
		}
	}
}

func TestLoadKeyOpensALockedFile(t *testing.T) {
	keygen := testenv.Need(t, "ssh-keygen")
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-a", "1", "-N", "open sesame", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := LoadKey(key, func() ([]byte, error) { return []byte("open sesame"), nil }); err != nil {
		t.Error(err)
	}
	for name, ask := range map[string]func() ([]byte, error){
		"nobody to ask": nil,
		"wrong":         func() ([]byte, error) { return []byte("please"), nil },
		"interrupted":   func() ([]byte, error) { return nil, errors.New("interrupted") },
	} {
		_, err := LoadKey(key, ask)
		t.Log(name, err)
		wantCode(t, err, writ.CodeKeyUnusable)
	}
}

// The public half is named by mistake more often than another file. Its permissions are not the problem.
func TestLoadKeyNamesThePrivateKeyOfAPublicOne(t *testing.T) {
	_, err := LoadKey(filepath.Join(t.TempDir(), "key.pub"), nil)
	wantCode(t, err, writ.CodeKeyUnusable)
	if hint := writ.AsError(err).Hint; !testenv.Mentions(hint, "--key agent") {
		t.Errorf("error = %v, hint = %s", err, hint)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	dir := t.TempDir()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, err := LoadOrCreateKey(filepath.Join(dir, "good"))
	if err != nil {
		t.Fatal(err)
	}
	open := write(t, dir, "open", privatePEM(t, good))
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	keyWith := func(name string, cert []byte) string {
		write(t, dir, name, privatePEM(t, good))
		return write(t, dir, name+"-cert.pub", cert)
	}
	mixed := slices.Concat(testKey("alice").Seed(), testKey("bob").Public().(ed25519.PublicKey))
	cert := certify(t, "forge", "somebody else", nil).PublicKey()
	tokenCert := ssh.MarshalAuthorizedKey(&ssh.Certificate{Key: securityKey("carol").key, SignatureKey: testPublic("forge"), Signature: &ssh.Signature{}})
	for name, path := range map[string]string{
		"missing":          filepath.Join(dir, "missing"),
		"not ed25519":      write(t, dir, "ecdsa", privatePEM(t, other)),
		"two keys mixed":   write(t, dir, "mixed", privatePEM(t, ed25519.PrivateKey(mixed))),
		"no key":           write(t, dir, "text", []byte("hello")),
		"open to others":   open,
		"cert of another":  keyWith("a", ssh.MarshalAuthorizedKey(cert)),
		"no cert":          keyWith("b", ssh.MarshalAuthorizedKey(testPublic("alice"))),
		"not a cert":       keyWith("c", []byte("hello")),
		"cert of a token":  keyWith("d", tokenCert),
		"cert without key": write(t, dir, "e-cert.pub", ssh.MarshalAuthorizedKey(cert)),
		"missing cert":     filepath.Join(dir, "good-cert.pub"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadKey(path, nil)
			wantCode(t, err, writ.CodeKeyUnusable)
		})
	}
}

func TestAgentSigns(t *testing.T) {
	keyring := agent.NewKeyring()
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	alice := testKey("alice")
	cert := certify(t, "forge", "alice", nil).PublicKey().(*ssh.Certificate)
	for _, k := range []agent.AddedKey{{PrivateKey: ecdsaKey}, {PrivateKey: &alice, Comment: "work"}, {PrivateKey: &alice, Certificate: cert}} {
		if err := keyring.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	client, server := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = agent.ServeAgent(keyring, server) // until the pipe is closed
	}()
	defer func() { client.Close(); <-served }()

	for _, key := range []ssh.PublicKey{nil, testPublic("alice"), cert} {
		s, err := AgentSigner(client, key)
		if err != nil {
			t.Fatal(err)
		}
		armored, err := s.Sign(StatementNamespace, []byte("text"))
		if err != nil {
			t.Fatal(err)
		}
		by, err := Verify(StatementNamespace, []byte("text"), armored)
		if err != nil || !bytes.Equal(by.Marshal(), s.PublicKey().Marshal()) {
			t.Errorf("signed by %v, error %v", by, err)
		}
	}
	_, err = AgentSigner(client, testPublic("bob"))
	wantCode(t, err, writ.CodeKeyUnusable)

	s, err := AgentSigner(client, testPublic("alice"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Sign(StatementNamespace, []byte("text"))
	wantCode(t, err, writ.CodeKeyUnusable)
	_, err = AgentSigner(client, nil)
	wantCode(t, err, writ.CodeKeyUnusable)
}

func TestClosedAgentIsAnError(t *testing.T) {
	client, server := net.Pipe()
	server.Close()
	_, err := AgentKeys(client)
	wantCode(t, err, writ.CodeKeyUnusable)
	_, err = AgentSigner(client, nil)
	wantCode(t, err, writ.CodeKeyUnusable)
}

// lyingAgent is an agent whose signatures are invalid.
type lyingAgent struct{ agent.Agent }

func (lyingAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	return &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: make([]byte, ed25519.SignatureSize)}, nil
}

func TestSignatureOfAgentIsVerified(t *testing.T) {
	keyring := agent.NewKeyring()
	alice := testKey("alice")
	if err := keyring.Add(agent.AddedKey{PrivateKey: &alice}); err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = agent.ServeAgent(lyingAgent{keyring}, server) // until the pipe is closed
	}()
	defer func() { client.Close(); <-served }()
	s, err := AgentSigner(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Sign(ScriptNamespace, []byte("text"))
	wantCode(t, err, writ.CodeKeyUnusable)
}

// forged signs a modified wire form as alice, so that only the tested check can reject it.
func forged(text []byte, change func(b *sshsigBlob, s *ssh.Signature)) []byte {
	key := testPublic("alice")
	b := sshsigBlob{Magic: [6]byte([]byte(sshsigMagic)), Version: 1, PublicKey: string(key.Marshal()), Namespace: string(ScriptNamespace), Hash: sshsigHash}
	value := &ssh.Signature{Format: ssh.KeyAlgoED25519}
	change(&b, value)
	sum := sha512.Sum512(text)
	digest := sum[:]
	if b.Hash == "sha256" {
		short := sha256.Sum256(text)
		digest = short[:]
	}
	value.Blob = ed25519.Sign(testKey("alice"), ssh.Marshal(sshsigSigned{b.Magic, b.Namespace, b.Reserved, b.Hash, string(digest)}))
	b.Signature = string(ssh.Marshal(value)) + b.Signature
	return armorBlob(ssh.Marshal(b))
}

func TestVerifySignatureRefuses(t *testing.T) {
	text := []byte("text")
	good := string(forged(text, func(*sshsigBlob, *ssh.Signature) {}))
	if _, err := Verify(ScriptNamespace, text, []byte(good)); err != nil {
		t.Fatal(err)
	}
	blob, err := unarmor([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	untouched := securityKey("carol")
	untouched.flags = 0
	noTouch, _ := untouched.Sign(ScriptNamespace, text)
	ecdsaKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecdsaPublic, _ := ssh.NewPublicKey(&ecdsaKey.PublicKey)
	type change = func(b *sshsigBlob, s *ssh.Signature)
	for name, tt := range map[string]struct {
		armored []byte
		want    writ.Code
	}{
		"nothing":          {nil, writ.CodeSignatureMalformed},
		"no end":           {[]byte(strings.TrimSuffix(good, armorEnd)), writ.CodeSignatureMalformed},
		"CRLF":             {[]byte(strings.ReplaceAll(good, "\n", "\r\n")), writ.CodeSignatureMalformed},
		"one long line":    {[]byte(armorBegin + base64.StdEncoding.EncodeToString(blob) + "\n" + armorEnd), writ.CodeSignatureMalformed},
		"empty line":       {[]byte(strings.Replace(good, armorEnd, "\n"+armorEnd, 1)), writ.CodeSignatureMalformed},
		"after the end":    {[]byte(good + "\n"), writ.CodeSignatureMalformed},
		"loose base64 bit": {looseBits(t, good), writ.CodeSignatureMalformed},
		"huge":             {[]byte(armorBegin + strings.Repeat("A", maxArmor) + armorEnd), writ.CodeTooLarge},
		"trailing bytes":   {armorBlob(append(blob, 0)), writ.CodeSignatureMalformed},
		"cut off":          {armorBlob(blob[:len(blob)-1]), writ.CodeSignatureMalformed},
		"magic":            {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Magic[0] = 's' }), writ.CodeSignatureMalformed},
		"version":          {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Version = 2 }), writ.CodeSignatureMalformed},
		"reserved":         {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Reserved = "x" }), writ.CodeSignatureMalformed},
		"sha256":           {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Hash = "sha256" }), writ.CodeSignatureAlgorithm},
		"namespace":        {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Namespace = "writ-roster-v1" }), writ.CodeSignatureNamespace},
		"namespace prefix": {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Namespace = "writ-script-v1x" }), writ.CodeSignatureNamespace},
		"rest":             {forged(text, func(_ *sshsigBlob, s *ssh.Signature) { s.Rest = []byte{0} }), writ.CodeSignatureMalformed},
		"two signatures":   {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.Signature = "x" }), writ.CodeSignatureMalformed},
		"inner cut off":    {innerCutOff(testPublic("alice")), writ.CodeSignatureMalformed},
		"format":           {forged(text, func(_ *sshsigBlob, s *ssh.Signature) { s.Format = "ssh-rsa" }), writ.CodeSignatureAlgorithm},
		"ecdsa key": {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = string(ecdsaPublic.Marshal()) }),
			writ.CodeSignatureAlgorithm},
		"no key":      {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = "" }), writ.CodeSignatureMalformed},
		"long key":    {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey += "x" }), writ.CodeSignatureMalformed},
		"other key":   {forged(text, func(b *sshsigBlob, _ *ssh.Signature) { b.PublicKey = string(testPublic("bob").Marshal()) }), writ.CodeSignatureInvalid},
		"other text":  {forged([]byte("Text"), change(func(*sshsigBlob, *ssh.Signature) {})), writ.CodeSignatureInvalid},
		"not touched": {noTouch, writ.CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(ScriptNamespace, text, tt.armored)
			wantCode(t, err, tt.want)
		})
	}
}

func innerCutOff(key ssh.PublicKey) []byte {
	inner := ssh.Marshal(&ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: make([]byte, ed25519.SignatureSize)})
	return armorBlob(ssh.Marshal(sshsigBlob{
		[6]byte([]byte(sshsigMagic)), 1, string(key.Marshal()), string(ScriptNamespace), "", sshsigHash, string(inner[:len(inner)-1]),
	}))
}

// Package ssh reads an empty string in the value of an extension as no value. Only one of the two encodings may name
// the certificate.
func TestCertificateHasOneEncoding(t *testing.T) {
	cert := certify(t, "forge", "a job", func(c *ssh.Certificate) { c.Extensions = map[string]string{"aa": "x"} }).PublicKey().Marshal()
	if _, err := ParseKeyBlob(cert); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(cert, []byte("\x00\x00\x00\x0f\x00\x00\x00\x02aa\x00\x00\x00\x05\x00\x00\x00\x01x"),
		[]byte("\x00\x00\x00\x0e\x00\x00\x00\x02aa\x00\x00\x00\x04\x00\x00\x00\x00"), 1)
	if _, err := ssh.ParsePublicKey(bad); err != nil || bytes.Equal(bad, cert) {
		t.Fatalf("the case is not a changed certificate: %v", err)
	}
	_, err := ParseKeyBlob(bad)
	wantCode(t, err, writ.CodeSignatureMalformed)
}

// Our wire code and another implementation accept each other's signatures.
//
// Promise: Signatures and rosters: `ssh-keygen` accepts every signature that writ accepts.
// How: writ is stricter: it accepts one algorithm, one hash and one encoding.
func TestSignaturesAgreeWithTheOracle(t *testing.T) {
	key, err := ssh.NewSignerFromSigner(testKey("alice"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.CheckProperty(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		theirs, err := oracle.Sign(bytes.NewReader(text), key, oracle.HashSHA512, string(ScriptNamespace))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(ScriptNamespace, text, armorBlob(theirs.Marshal())); err != nil { // lines of 64 columns
			t.Fatal(err)
		}
		ours, err := testSigner("alice").Sign(ScriptNamespace, text)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := oracle.Unarmor(ours)
		if err != nil {
			t.Fatal(err)
		}
		if err := oracle.Verify(bytes.NewReader(text), parsed, key.PublicKey(), oracle.HashSHA512, string(ScriptNamespace)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSplitReversesJoin(t *testing.T) {
	armored, _ := testSigner("alice").Sign(ScriptNamespace, []byte("x"))
	for _, text := range [][]byte{[]byte("no line feed"), []byte("line\n"), Join([]byte("quoting a signature\n"), armored), {}} {
		haveText, haveArmored, err := Split(Join(text, armored))
		if err != nil || !bytes.Equal(haveText, text) || !bytes.Equal(haveArmored, armored) {
			t.Errorf("Split(Join(%q)) = %q, %q, %v", text, haveText, haveArmored, err)
		}
	}
	_, _, err := Split([]byte("unsigned"))
	wantCode(t, err, writ.CodeSignatureMalformed)
	_, _, err = Split(make([]byte, MaxSigned+1))
	wantCode(t, err, writ.CodeTooLarge)
	_, _, err = Split(Join(make([]byte, header.MaxText+1), armored))
	wantCode(t, err, writ.CodeTooLarge)
}

// looseBits sets unused bits of the last base64 digit, which most decoders ignore.
func looseBits(t *testing.T, armored string) []byte {
	t.Helper()
	at := strings.Index(armored, "=")
	if at < 0 {
		t.Fatal("the signature has no padding")
	}
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := strings.IndexByte(digits, armored[at-1])
	return []byte(armored[:at-1] + string(digits[last+1]) + armored[at:])
}
