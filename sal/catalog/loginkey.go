package catalog

import (
	"crypto/rsa"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// loginKeyTypes lists the types of keys that current versions of sshd accept in authorized_keys. sshd ignores other
// keys, so a machine with only such a key would permit no login.
var loginKeyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// isLoginKey reports whether a line is one complete public key that sshd accepts for logins.
func isLoginKey(line string) bool {
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 {
		return false
	}
	named, _, _ := strings.Cut(line, " ")
	return key.Type() == named && slices.Contains(loginKeyTypes, named) && !tooShort(key)
}

// minRSA is the minimum length of RSA keys that any sshd accepts, in bits.
const minRSA = 1024

// tooShort reports whether sshd rejects an RSA key for its length.
func tooShort(key ssh.PublicKey) bool {
	public, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return false
	}
	rsaKey, ok := public.CryptoPublicKey().(*rsa.PublicKey)
	return ok && rsaKey.N.BitLen() < minRSA
}
