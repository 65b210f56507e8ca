package sshsig

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
)

// testKey derives a key from a name, so that golden files are stable and no private key is stored.
func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func testSigner(name string) Signer { return NewSigner(testKey(name)) }

func testPublic(name string) ssh.PublicKey { return testSigner(name).PublicKey() }

func wantCode(t testing.TB, err error, want writ.Code) {
	t.Helper()
	if got := writ.CodeOf(err); got != want {
		t.Errorf("error %v with code %q, want code %q", err, got, want)
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

func (s *securitySigner) Sign(namespace Namespace, text []byte) ([]byte, error) {
	signed, counter := s.signed(SignedBytes(namespace, text))
	return Armor(s.key, namespace, &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(s.private, signed), Rest: counter}), nil
}

// signed returns the bytes that a token signs for a text, and the flags and the counter in them.
func (s *securitySigner) signed(text []byte) (signed, counter []byte) {
	application, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(text)
	counter = binary.BigEndian.AppendUint32([]byte{s.flags}, 7)
	return slices.Concat(application[:], counter, message[:]), counter
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

// certify returns a signer with a certificate. change may modify the certificate before the authority signs it.
func certify(t testing.TB, authority, name string, change func(*ssh.Certificate)) Signer {
	t.Helper()
	now := time.Now()
	cert := &ssh.Certificate{
		Key: testPublic(name), CertType: ssh.UserCert, KeyId: "job 7", ValidPrincipals: []string{"ci/shop"},
		ValidAfter: uint64(now.Add(-time.Minute).Unix()), ValidBefore: uint64(now.Add(15 * time.Minute).Unix()),
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
	s, err := NewCertifiedSigner(testKey(name), cert)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
