package identity

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
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
	// MaxSigned limits a signed text with its signatures, in bytes.
	MaxSigned = header.MaxText + 64<<10
	// maxArmor limits one armored signature, in bytes. One with a certificate of many principals has about 1 KiB.
	maxArmor = 16 << 10
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "-----END SSH SIGNATURE-----\n"
	armorWidth = 70 // base64 columns, as in the output of ssh-keygen

	sshsigMagic   = "SSHSIG"
	sshsigVersion = 1
	sshsigHash    = "sha512"

	flagUserVerified = 0x04 // in sk- signatures: the token verified its user by PIN or fingerprint
)

// Join returns the submitted form: the text, directly followed by its armored signature.
func Join(text, armored []byte) []byte {
	return append(append(make([]byte, 0, len(text)+len(armored)), text...), armored...)
}

// Split is the inverse of Join. It cuts before the last line that starts an armored signature. It checks only that
// there is one, and the total length.
func Split(signed []byte) (text, armored []byte, err error) {
	if len(signed) > MaxSigned {
		return nil, nil, header.TooLarge(len(signed), MaxSigned)
	}
	at := bytes.LastIndex(signed, []byte(armorBegin))
	if at < 0 {
		return nil, nil, malformedSignature("there is no SSH signature at the end of the text")
	}
	text, armored = signed[:at:at], signed[at:]
	if len(text) > header.MaxText {
		return nil, nil, header.TooLarge(len(text), header.MaxText)
	}
	return text, armored, nil
}

// splitAll splits a text that may have several signatures before the first of them. No line of the text itself may
// start like a signature.
func splitAll(signed []byte) (text []byte, armored [][]byte, err error) {
	if len(signed) > MaxSigned {
		return nil, nil, header.TooLarge(len(signed), MaxSigned)
	}
	text, rest := signed, []byte(nil)
	if at := bytes.Index(signed, []byte("\n"+armorBegin)); at >= 0 {
		text, rest = signed[:at+1:at+1], signed[at+1:]
	}
	if len(text) > header.MaxText {
		return nil, nil, header.TooLarge(len(text), header.MaxText)
	}
	for len(rest) > 0 {
		end := bytes.Index(rest, []byte(armorEnd))
		if end < 0 {
			return nil, nil, malformedSignature("the last SSH signature has no end")
		}
		end += len(armorEnd)
		armored = append(armored, rest[:end:end])
		rest = rest[end:]
	}
	if len(armored) == 0 {
		return nil, nil, malformedSignature("there is no SSH signature at the end of the text")
	}
	return text, armored, nil
}

// VerifySignature verifies an armored SSHSIG signature over text and returns the key that signed: an ssh-ed25519 key,
// an sk-ssh-ed25519@openssh.com key whose owner touched it, or a *ssh.Certificate of one of those. It identifies
// neither the owner nor the value of a certificate; both need a roster. It is stricter than ssh-keygen and accepts no
// signature that ssh-keygen rejects. The errors are SIGNATURE_MALFORMED, SIGNATURE_ALGORITHM, SIGNATURE_NAMESPACE and
// SIGNATURE_INVALID.
func VerifySignature(namespace Namespace, text, armored []byte) (ssh.PublicKey, error) {
	s, err := parseSignature(namespace, armored)
	if err != nil {
		return nil, err
	}
	if err := s.verify(text); err != nil {
		return nil, err
	}
	return s.key, nil
}

// signature is a well-formed signature that is not verified yet.
type signature struct {
	key       ssh.PublicKey // plain, or a certificate
	namespace Namespace
	value     *ssh.Signature
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

// parseSignature checks the armor, then the algorithms, then the namespace.
func parseSignature(namespace Namespace, armored []byte) (*signature, error) {
	blob, err := unarmor(armored)
	if err != nil {
		return nil, err
	}
	var b sshsigBlob
	if err := ssh.Unmarshal(blob, &b); err != nil { // also rejects trailing bytes
		return nil, malformedSignature("the SSH signature is cut off or too long")
	}
	if string(b.Magic[:]) != sshsigMagic || b.Version != sshsigVersion {
		return nil, malformedSignature("the signature is not an SSHSIG of version %d", sshsigVersion)
	}
	if b.Reserved != "" {
		return nil, malformedSignature("the reserved field of the SSH signature is not empty")
	}
	if b.Hash != sshsigHash {
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "the signature uses the hash %q, only %s is accepted",
			b.Hash, sshsigHash).
			WithHint("sign with `ssh-keygen -Y sign -n %s`, without -O hashalg", namespace)
	}
	key, err := parseKeyBlob([]byte(b.PublicKey))
	if err != nil {
		return nil, err
	}
	value := new(ssh.Signature)
	if err := ssh.Unmarshal([]byte(b.Signature), value); err != nil {
		return nil, malformedSignature("the signature inside the SSH signature cannot be read")
	}
	format := plainKey(key).Type()
	if value.Format != format {
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "the key is an %s, its signature says %q", format,
			value.Format).
			WithHint("sign again and do not edit the signature")
	}
	if format == ssh.KeyAlgoED25519 && len(value.Rest) > 0 {
		return nil, malformedSignature("bytes follow the signature inside the SSH signature")
	}
	if Namespace(b.Namespace) != namespace {
		return nil, writ.Errorf(writ.CodeSignatureNamespace, "the text was signed for %q, not for %q", b.Namespace,
			namespace).
			WithHint("sign it with `ssh-keygen -Y sign -n %s`", namespace)
	}
	return &signature{key: key, namespace: namespace, value: value}, nil
}

// signingKey returns the key that an armored signature names, in its wire form, or nil. It reads only the start, and
// checks nothing: parseSignature does.
func signingKey(armored []byte) []byte {
	const lines = 8 // keys of the accepted types need at most three
	body, ok := bytes.CutPrefix(armored, []byte(armorBegin))
	if !ok {
		return nil
	}
	body = bytes.ReplaceAll(body[:min(len(body), lines*(armorWidth+1))], []byte("\n"), nil)
	// Decodes up to the first character that is not base64.
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

// verify checks the signature over text. Package ssh also checks the touch of a security key here.
func (s *signature) verify(text []byte) error {
	if err := s.key.Verify(signedBytes(s.namespace, text), s.value); err != nil {
		return &writ.Error{
			Code:    writ.CodeSignatureInvalid,
			Message: "the signature does not fit the text",
			Hint:    "one of the two was changed after signing: sign again and do not edit the text",
			Err:     err,
		}
	}
	return nil
}

// userVerified reports whether a security key verified its user by PIN or fingerprint, and not only by a touch.
func (s *signature) userVerified() bool {
	return plainKey(s.key).Type() == ssh.KeyAlgoSKED25519 && len(s.value.Rest) > 0 &&
		s.value.Rest[0]&flagUserVerified != 0
}

func signedBytes(namespace Namespace, text []byte) []byte {
	digest := sha512.Sum512(text)
	return ssh.Marshal(sshsigSigned{
		Magic: [len(sshsigMagic)]byte([]byte(sshsigMagic)), Namespace: string(namespace), Hash: sshsigHash,
		Digest: string(digest[:]),
	})
}

// parseKeyBlob parses a public key or certificate of an accepted type, in canonical form.
func parseKeyBlob(blob []byte) (ssh.PublicKey, error) {
	var head struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &head); err != nil {
		return nil, malformedSignature("the signing key cannot be read")
	}
	switch head.Type {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.CertAlgoED25519v01, ssh.CertAlgoSKED25519v01:
	default:
		return nil, writ.Errorf(writ.CodeSignatureAlgorithm, "keys of the type %q are not accepted", head.Type).
			WithHint("use an ed25519 key; `ssh-keygen -t ed25519` makes one")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || !bytes.Equal(key.Marshal(), blob) {
		return nil, malformedSignature("the signing key cannot be read")
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

func armor(key ssh.PublicKey, namespace Namespace, value *ssh.Signature) []byte {
	blob := ssh.Marshal(sshsigBlob{
		Magic:     [len(sshsigMagic)]byte([]byte(sshsigMagic)),
		Version:   sshsigVersion,
		PublicKey: string(key.Marshal()),
		Namespace: string(namespace),
		Hash:      sshsigHash,
		Signature: string(ssh.Marshal(value)),
	})
	return armorBlob(blob)
}

func armorBlob(blob []byte) []byte {
	text := base64.StdEncoding.EncodeToString(blob)
	var b bytes.Buffer
	b.WriteString(armorBegin)
	for len(text) > 0 {
		n := min(armorWidth, len(text))
		b.WriteString(text[:n])
		b.WriteByte('\n')
		text = text[n:]
	}
	b.WriteString(armorEnd)
	return b.Bytes()
}

func unarmor(armored []byte) ([]byte, error) {
	if len(armored) > maxArmor {
		return nil, header.TooLarge(len(armored), maxArmor)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(string(armored), armorBegin), armorEnd)
	blob, err := base64.StdEncoding.Strict().DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil || !bytes.Equal(armorBlob(blob), armored) {
		return nil, malformedSignature("the SSH signature is not armored as ssh-keygen does it")
	}
	return blob, nil
}

func malformedSignature(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignatureMalformed, format, args...).
		WithHint("join text and signature with `cat text text.sig`")
}
