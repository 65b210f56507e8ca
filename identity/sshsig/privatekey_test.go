package sshsig

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"writ"
)

func pkcs8PEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestLoadKeyReadsPKCS8(t *testing.T) {
	path := write(t, t.TempDir(), "key", append([]byte("\ufeff"), pkcs8PEM(t, testKey("alice"))...))
	signer, err := LoadKey(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ssh.FingerprintSHA256(signer.PublicKey()), ssh.FingerprintSHA256(testPublic("alice")); got != want {
		t.Errorf("loaded the key %s, want %s", got, want)
	}
	if machine, err := LoadOrCreateKey(path); err != nil || !machine.Equal(testKey("alice")) {
		t.Errorf("as the key of a machine: %v", err)
	}
}

func TestLoadKeyNamesTheWrongFormat(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pkcs8PEM(t, testKey("alice")))
	block, _ := pem.Decode([]byte(text))
	der := block.Bytes
	for name, c := range map[string]struct {
		file       []byte
		want, hint string
	}{
		"RSA":                   {pkcs8PEM(t, rsaKey), "it is an RSA key", "ssh-keygen -t ed25519"},
		"X25519":                {pkcs8PEM(t, x25519), "it is an X25519 key", "ssh-keygen -t ed25519"},
		"encrypted PKCS8":       {pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{1}}), "a PKCS#8 key with a passphrase", "openssl pkey"},
		"public PEM":            {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}}), "is a public key", "private key"},
		"public OpenSSH":        {ssh.MarshalAuthorizedKey(testPublic("alice")), "is a public key", "private key"},
		"PuTTY":                 {[]byte("PuTTY-User-Key-File-3: ssh-ed25519\n"), "a key of PuTTY", "puttygen"},
		"empty":                 {[]byte("\n"), "an empty file", "ssh-keygen -t ed25519"},
		"UTF-16":                {[]byte("\xff\xfe-\x00-\x00"), "UTF-16", "iconv"},
		"certificate":           {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), "a certificate of TLS", "ssh-keygen"},
		"ECDSA with parameters": {pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{1}}), "an ECDSA key", "ssh-keygen"},
		"PKCS8 of another type": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "of another type", "ssh-keygen"},
		"DER":                   {der, "in DER", "openssl pkey -inform DER"},
		"one line":              {[]byte(strings.ReplaceAll(text, "\n", " ")), "lost its line ends", "type file"},
		"escaped line ends":     {[]byte(strings.ReplaceAll(text, "\n", `\n`)), "lost its line ends", "type file"},
		"indented":              {[]byte("  " + strings.ReplaceAll(text, "\n", "\n  ")), "begin with spaces", "as ssh-keygen wrote it"},
		"cut off":               {[]byte(text[:len(text)-20]), "cut off or damaged", "copy it again"},
		"base64":                {[]byte(base64.StdEncoding.EncodeToString([]byte(text))), "encoded in base64", "base64 -d"},
		"age":                   {[]byte("-----BEGIN AGE ENCRYPTED FILE-----\n"), "encrypted with age", "age -d"},
		"security key":          {securityKeyFile("none"), "a key on a security key", "ssh-add"},
		"locked one":            {securityKeyFile("aes256-ctr"), "a key on a security key", "ssh-add"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadKey(write(t, t.TempDir(), "key", c.file), nil)
			wantCode(t, err, writ.CodeKeyUnusable)
			e := writ.AsError(err)
			if !strings.Contains(e.Message, c.want) || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%s (hint: %s), want %q and %q", e.Message, e.Hint, c.want, c.hint)
			}
		})
	}
}

// securityKeyFile returns the start of a file of `ssh-keygen -t ed25519-sk`, up to the part that a passphrase encrypts.
func securityKeyFile(cipher string) []byte {
	public := ssh.Marshal(struct{ Type, Key, Application string }{ssh.KeyAlgoSKED25519, strings.Repeat("k", 32), "ssh:"})
	text := ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{cipher, "none", "", 1, public, make([]byte, 64)})
	return pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), text...)})
}
