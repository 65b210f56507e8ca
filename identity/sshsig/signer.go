package sshsig

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"writ"
)

// Signer signs texts with one SSH key from a file, an agent or a security token.
type Signer interface {
	// PublicKey returns the key or certificate that the signatures name.
	PublicKey() ssh.PublicKey
	// Sign returns an armored SSHSIG signature over text. It may wait until a person touches a token. The error is
	// KEY_UNUSABLE.
	Sign(namespace Namespace, text []byte) (armored []byte, err error)
}

// NewSigner returns a signer for a key in memory.
func NewSigner(key ed25519.PrivateKey) Signer {
	s, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		panic(err) // an ed25519 key is always valid
	}
	return &signer{
		key: s.PublicKey(), sign: func(data []byte) (*ssh.Signature, error) { return s.Sign(rand.Reader, data) },
	}
}

// NewCertifiedSigner returns a signer for a key in memory whose signatures contain a certificate of the key. The error
// is KEY_UNUSABLE.
func NewCertifiedSigner(key ed25519.PrivateKey, cert *ssh.Certificate) (Signer, error) {
	s := NewSigner(key).(*signer)
	if !bytes.Equal(cert.Key.Marshal(), s.key.Marshal()) {
		return nil, unusable("the certificate is for another key")
	}
	s.key = cert
	return s, nil
}

// LoadKey returns a signer for a private key file: OpenSSH's format, or PKCS#8 without a passphrase. A path that ends
// in "-cert.pub" names a certificate; its private key is in the file without that suffix. LoadKey calls passphrase only
// for an encrypted file; passphrase may be nil. Every error has the code KEY_UNUSABLE: a missing file, a file that
// others may read, a wrong passphrase, or a key of another type than ed25519. Keys on security tokens are used through
// the agent.
func LoadKey(path string, passphrase func() ([]byte, error)) (Signer, error) {
	var cert *ssh.Certificate
	keyPath, isCert := strings.CutSuffix(path, "-cert.pub")
	if isCert {
		var err error
		if cert, err = loadCertificate(path); err != nil {
			return nil, err
		}
	}
	key, err := loadPrivateKey(keyPath, passphrase)
	if err != nil {
		return nil, err
	}
	if !isCert {
		return NewSigner(key), nil
	}
	s, err := NewCertifiedSigner(key, cert)
	if err != nil {
		return nil, unusable("the certificate %s is not for the key %s", path, keyPath)
	}
	return s, nil
}

func loadCertificate(path string) (*ssh.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unusable("cannot read the certificate: %v", err)
	}
	key, err := ParsePublicKey(text)
	if err != nil {
		return nil, unusable("%s is not an SSH certificate: %v", path, err)
	}
	cert, ok := key.(*ssh.Certificate)
	if t := key.Type(); !ok || t != ssh.CertAlgoED25519v01 {
		return nil, unusable("%s holds an %s; a certificate of an ed25519 key is needed", path, t)
	}
	return cert, nil
}

// AgentKeys lists the keys and certificates of an ssh-agent that have an accepted type, in the agent's order.
func AgentKeys(conn net.Conn) ([]ssh.PublicKey, error) {
	listed, err := newAgent(conn).List()
	if err != nil {
		return nil, unusable("the ssh-agent does not answer: %v", err)
	}
	var keys []ssh.PublicKey
	for _, k := range listed {
		if key, err := ParseKeyBlob(k.Blob); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// AgentSigner returns a signer for a key in an ssh-agent, which may be on a security token. A nil key selects the first
// key of an accepted type. The caller owns the connection, and must not use it concurrently. The error is KEY_UNUSABLE.
func AgentSigner(conn net.Conn, key ssh.PublicKey) (Signer, error) {
	keys, err := AgentKeys(conn)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if key == nil || bytes.Equal(k.Marshal(), key.Marshal()) {
			client := newAgent(conn)
			return &signer{
				key: k, sign: func(data []byte) (*ssh.Signature, error) { return client.Sign(k, data) }, remote: true,
			}, nil
		}
	}
	if key == nil {
		return nil, unusable("the ssh-agent holds no ed25519 key").WithHint("add one: ssh-add ~/.ssh/id_ed25519")
	}
	return nil, unusable("the ssh-agent does not hold the key %s", ssh.FingerprintSHA256(key)).
		WithHint("`ssh-add -l` lists its keys")
}

// newAgent hides the Close method of the connection. Otherwise package agent would start a reader for each client, and
// responses would reach the wrong client.
func newAgent(conn net.Conn) agent.Agent { return agent.NewClient(struct{ io.ReadWriter }{conn}) }

type signer struct {
	key  ssh.PublicKey
	sign func(data []byte) (*ssh.Signature, error)
	// remote reports that another program signs, so that its signatures are verified.
	remote bool
}

func (s *signer) PublicKey() ssh.PublicKey { return s.key }

// Sign verifies the signature of an agent before it returns it, so that an invalid response is detected here.
func (s *signer) Sign(namespace Namespace, text []byte) ([]byte, error) {
	value, err := s.sign(SignedBytes(namespace, text))
	if err != nil {
		return nil, unusable("the key %s did not sign: %v", ssh.FingerprintSHA256(s.key), err)
	}
	armored := Armor(s.key, namespace, value)
	signature, err := Parse(namespace, armored) // also checks the size of a certificate
	if err == nil && s.remote {
		err = signature.Verify(text)
	}
	if err != nil {
		return nil, unusable("the key %s made an invalid signature: %v", ssh.FingerprintSHA256(s.key), err)
	}
	return armored, nil
}

func unusable(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeKeyUnusable, format, args...)
}
