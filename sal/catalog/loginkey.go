package catalog

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// loginKeyTypes lists the types of keys that current versions of sshd accept in authorized_keys. sshd ignores other keys,
// so nobody could log in to a machine with only such a key.
var loginKeyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// isLoginKey reports whether a line is one complete public key that sshd accepts for logins.
func isLoginKey(line string) bool {
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 {
		return false
	}
	named, _, _ := strings.Cut(line, " ")
	return key.Type() == named && slices.Contains(loginKeyTypes, named)
}
