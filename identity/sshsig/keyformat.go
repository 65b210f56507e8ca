package sshsig

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"

	"writ"
)

// keyFormat is a format of files that people mistake for a signing key. message has one %s for the path. hint may
// contain the path as %[1]s.
type keyFormat struct {
	is            func(text []byte, block *pem.Block) bool
	message, hint string
}

const makeKey = "make one with `ssh-keygen -t ed25519`"

// keyFormats lists formats that package ssh cannot parse. The first match counts.
var keyFormats = []keyFormat{
	{func(text []byte, _ *pem.Block) bool { return len(bytes.TrimSpace(text)) == 0 },
		"the signing key %s is an empty file", makeKey},
	{blockOf("ENCRYPTED PRIVATE KEY"),
		"%s is a PKCS#8 key with a passphrase, a format that can only be used without one",
		"remove the passphrase: (umask 077; openssl pkey -in %[1]s -out %[1]s.plain), then --key %[1]s.plain"},
	{blockOf("PUBLIC KEY"), "%s is a public key, which cannot sign", "name the file with the private key"},
	{func(text []byte, _ *pem.Block) bool { return isSSHPublicKey(text) },
		"%s is a public key, which cannot sign", "name the file with the private key"},
	{blockOf("CERTIFICATE"), "%s is a certificate of TLS, which cannot sign", makeKey},
	{blockOf("CERTIFICATE REQUEST"), "%s is a request for a certificate, which cannot sign", makeKey},
	{blockOf("EC PARAMETERS"), "the signing key %s is not an ed25519 key: it is an ECDSA key", makeKey},
	{
		blockOf("PRIVATE KEY"),
		"the signing key %s is not an ed25519 key: it is a PKCS#8 key of another type, or is damaged", makeKey,
	},
	{func(_ []byte, block *pem.Block) bool {
		return block != nil && strings.HasSuffix(block.Type, "PRIVATE KEY")
	},
		"the signing key %s is damaged, or of a type that cannot sign here", "copy it again, or " + makeKey},
	{
		startsWith("PuTTY-User-Key-File"), "%s is a key of PuTTY",
		"convert it: puttygen %[1]s -O private-openssh-new -o %[1]s.openssh",
	},
	{func(text []byte, _ *pem.Block) bool {
		return bytes.HasPrefix(text, []byte("age-encryption.org/")) ||
			bytes.HasPrefix(text, []byte("-----BEGIN AGE ENCRYPTED"))
	}, "%s is encrypted with age", "decrypt it: (umask 077; age -d %[1]s > %[1]s.plain), then --key %[1]s.plain"},
	{func(text []byte, _ *pem.Block) bool {
		return bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff})
	},
		"the signing key %s is text in UTF-16",
		"convert it: (umask 077; iconv -f UTF-16 -t UTF-8 %[1]s > %[1]s.utf8), then --key %[1]s.utf8"},
	{func(text []byte, _ *pem.Block) bool {
		return len(bytes.Split(bytes.TrimSpace(text), []byte("\n"))) == 1 && hasBegin(text)
	},
		"the signing key %s has lost its line ends",
		"store it with them: variables of CI systems keep them as a variable of the type file"},
	{func(text []byte, _ *pem.Block) bool {
		return hasBegin(text) && !bytes.HasPrefix(text, []byte("-----BEGIN"))
	},
		"the lines of the signing key %s begin with spaces or other text",
		"store the key as ssh-keygen wrote it, from -----BEGIN to the last -----"},
	{func(text []byte, _ *pem.Block) bool { return hasBegin(text) },
		"the signing key %s is cut off or damaged",
		"copy it again, with its last line -----END … KEY----- and the end of that line"},
	{func(text []byte, _ *pem.Block) bool { _, err := x509.ParsePKCS8PrivateKey(text); return err == nil },
		"%s is a PKCS#8 key in DER, a binary format",
		"convert it: (umask 077; openssl pkey -inform DER -in %[1]s -out %[1]s.pem), then --key %[1]s.pem"},
	{
		isBase64, "the signing key %s is encoded in base64",
		"decode it: (umask 077; base64 -d %[1]s > %[1]s.plain), then --key %[1]s.plain",
	},
}

func blockOf(name string) func([]byte, *pem.Block) bool {
	return func(_ []byte, block *pem.Block) bool {
		return block != nil && (block.Type == name || name == "PUBLIC KEY" && strings.HasSuffix(block.Type, name))
	}
}

func startsWith(prefix string) func([]byte, *pem.Block) bool {
	return func(text []byte, _ *pem.Block) bool { return bytes.HasPrefix(text, []byte(prefix)) }
}

func hasBegin(text []byte) bool { return bytes.Contains(text, []byte("-----BEGIN")) }

func isBase64(text []byte, _ *pem.Block) bool {
	plain := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(plain, text)
	return err == nil && hasBegin(plain[:n])
}

// unreadableKey returns the error for a file that package ssh cannot parse. The hint depends on the format of the file.
func unreadableKey(path string, text []byte) *writ.Error {
	block, _ := pem.Decode(text)
	for _, f := range keyFormats {
		if !f.is(text, block) {
			continue
		}
		e := unusable(f.message, path)
		if strings.Contains(f.hint, "%") {
			return e.WithHint(f.hint, path)
		}
		return e.WithHint("%s", f.hint)
	}
	return unusable("%s is not a private key that can be used from a file", path).
		WithHint("it must be an ed25519 key as ssh-keygen makes it, or in PKCS#8; keys on tokens are used through ssh-agent")
}
