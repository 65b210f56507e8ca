// Package sshsig signs texts with SSH keys from files, agents and security tokens, and verifies the signatures. It reads
// and writes the formats of OpenSSH: keys, certificates and SSHSIG signatures. It accepts ed25519 keys only, and no
// signature that ssh-keygen rejects. Package identity finds the owner of a key and checks certificates.
package sshsig

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"

	"golang.org/x/crypto/ssh"

	"writ"
)

// Namespace is the purpose of a signature. A signature for one namespace never verifies in another.
type Namespace string

// The namespaces, one for each kind of text.
const (
	ScriptNamespace    Namespace = "writ-script-v1"
	StatementNamespace Namespace = "writ-statement-v1"
	RosterNamespace    Namespace = "writ-roster-v1"
	LoginNamespace     Namespace = "writ-login-v1"
)

const (
	sshsigMagic   = "SSHSIG"
	sshsigVersion = 1
	sshsigHash    = "sha512"

	flagUserVerified = 0x04 // in sk- signatures: the token verified its user by PIN or fingerprint
)

// Verify verifies an armored SSHSIG signature over text and returns the key that signed: an ssh-ed25519 key, an
// sk-ssh-ed25519@openssh.com key whose owner touched it, or a *ssh.Certificate of one of those. It neither identifies
// the owner of the key nor checks a certificate; both need a roster. It is stricter than ssh-keygen and accepts no
// signature that ssh-keygen rejects. The errors are SIGNATURE_MALFORMED, SIGNATURE_ALGORITHM, SIGNATURE_NAMESPACE and
// SIGNATURE_INVALID.
func Verify(namespace Namespace, text, armored []byte) (ssh.PublicKey, error) {
	s, err := Parse(namespace, armored)
	if err != nil {
		return nil, err
	}
	if err := s.Verify(text); err != nil {
		return nil, err
	}
	return s.Key, nil
}

// Signature is a well-formed signature that is not verified yet.
type Signature struct {
	Key       ssh.PublicKey // plain, or a certificate
	namespace Namespace
	Value     *ssh.Signature // signs SignedBytes
}

// sshsigBlob is the wire form, PROTOCOL.sshsig of OpenSSH.
type sshsigBlob struct {
	Magic     [len(sshsigMagic)]byte
	Version   uint32
	PublicKey string
	Namespace string
	Reserved  string
	Hash      string
	Signature string
}

// sshsigSigned is the structure that the key signs.
type sshsigSigned struct {
	Magic     [len(sshsigMagic)]byte
	Namespace string
	Reserved  string
	Hash      string
	Digest    string
}

// Parse decodes a signature. It checks the armor, then the algorithms, then the namespace, but does not verify the
// signature.
func Parse(namespace Namespace, armored []byte) (*Signature, error) {
	blob, err := unarmor(armored)
	if err != nil {
		return nil, err
	}
	var b sshsigBlob
	if err := ssh.Unmarshal(blob, &b); err != nil { // also rejects trailing bytes
		return nil, Malformed("the SSH signature is cut off or too long")
	}
	if string(b.Magic[:]) != sshsigMagic || b.Version != sshsigVersion {
		return nil, Malformed("the signature is not an SSHSIG of version %d", sshsigVersion)
	}
	if b.Reserved != "" {
		return nil, Malformed("the reserved field of the SSH signature is not empty")
	}
	if b.Hash != sshsigHash {
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "the signature uses the hash %q, only %s is accepted",
			b.Hash, sshsigHash).
			WithHint("sign with `ssh-keygen -Y sign -n %s`, without -O hashalg", namespace)
	}
	key, err := ParseKeyBlob([]byte(b.PublicKey))
	if err != nil {
		return nil, err
	}
	value := new(ssh.Signature)
	if err := ssh.Unmarshal([]byte(b.Signature), value); err != nil {
		return nil, Malformed("the signature inside the SSH signature cannot be read")
	}
	format := plainKey(key).Type()
	if value.Format != format {
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "the key is an %s, and its signature names %q", format,
			value.Format).
			WithHint("sign again and do not edit the signature")
	}
	if format == ssh.KeyAlgoED25519 && len(value.Rest) > 0 {
		return nil, Malformed("bytes follow the signature inside the SSH signature")
	}
	if Namespace(b.Namespace) != namespace {
		return nil, writ.Errorf(writ.CodeSignatureNamespace, "the text was signed for %q, not for %q", b.Namespace,
			namespace).
			WithHint("sign it with `ssh-keygen -Y sign -n %s`", namespace)
	}
	return &Signature{Key: key, namespace: namespace, Value: value}, nil
}

// SigningKey returns the key that an armored signature names, in its wire form, or nil. It reads only the start of the
// signature and does not verify it.
func SigningKey(armored []byte) []byte {
	const lines = 8 // keys of the accepted types need at most three
	body, ok := bytes.CutPrefix(armored, []byte(armorBegin))
	if !ok {
		return nil
	}
	body = bytes.ReplaceAll(body[:min(len(body), lines*(armorWidth+1))], []byte("\n"), nil)
	// AppendDecode decodes up to the first character that is not base64.
	blob, _ := base64.StdEncoding.AppendDecode(nil, body[:len(body)/4*4])
	const before = len(sshsigMagic) + 4 // includes the version
	if len(blob) < before+4 || string(blob[:len(sshsigMagic)]) != sshsigMagic {
		return nil
	}
	length, rest := binary.BigEndian.Uint32(blob[before:]), blob[before+4:]
	if uint64(length) > uint64(len(rest)) {
		return nil
	}
	return rest[:length]
}

// Verify checks the signature over text. Package ssh also checks the touch of a security key here.
func (s *Signature) Verify(text []byte) error {
	if err := s.Key.Verify(SignedBytes(s.namespace, text), s.Value); err != nil {
		return &writ.Error{
			Code:    writ.CodeSignatureInvalid,
			Message: "the signature does not match the text",
			Hint:    "one of the two was changed after signing: sign again and do not edit the text",
			Err:     err,
		}
	}
	return nil
}

// UserVerified reports whether a security key verified its user by PIN or fingerprint, and not only by a touch.
func (s *Signature) UserVerified() bool {
	return plainKey(s.Key).Type() == ssh.KeyAlgoSKED25519 && len(s.Value.Rest) > 0 &&
		s.Value.Rest[0]&flagUserVerified != 0
}

// SignedBytes returns the bytes that a key signs for a text.
func SignedBytes(namespace Namespace, text []byte) []byte {
	digest := sha512.Sum512(text)
	return ssh.Marshal(sshsigSigned{
		Magic: [len(sshsigMagic)]byte([]byte(sshsigMagic)), Namespace: string(namespace), Hash: sshsigHash,
		Digest: string(digest[:]),
	})
}

// ParseKeyBlob parses a public key or certificate of an accepted type, in canonical form.
func ParseKeyBlob(blob []byte) (ssh.PublicKey, error) {
	var head struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &head); err != nil {
		return nil, Malformed("the signing key cannot be read")
	}
	switch head.Type {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.CertAlgoED25519v01, ssh.CertAlgoSKED25519v01:
	default:
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "keys of the type %q are not accepted", head.Type).
			WithHint("use an ed25519 key; `ssh-keygen -t ed25519` makes one")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || !bytes.Equal(key.Marshal(), blob) {
		return nil, Malformed("the signing key cannot be read")
	}
	return key, nil
}

// plainKey returns the key of a certificate, or any other key unchanged.
func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}
