package catalog

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// loginKeyTypes lists the keys that sshd of today accepts in authorized_keys. It ignores lines with other keys, so a machine with such
// a key could not be reached.
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
