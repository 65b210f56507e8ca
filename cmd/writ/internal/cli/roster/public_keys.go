package roster

import (
	"crypto/ed25519"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/redact"
	"writ/identity/sshsig"
)

// maxKeyFile limits a file with a public key, in bytes.
const maxKeyFile = 64 << 10

// publicKey reads the public key of a person, machine or authority from a file, or from s itself. It returns nil if s
// is empty.
func publicKey(env *cli.Env, s string) (ssh.PublicKey, error) {
	if s == "" {
		return nil, nil
	}
	text := []byte(s)
	if isPath(s) {
		var err error
		if text, err = env.ReadFile(s, maxKeyFile); err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "cannot read the public key: %w", err).
				WithHint("name the file that ends in .pub, or quote the key itself: \"ssh-ed25519 AAAA…\"")
		}
	}
	key, err := sshsig.ParsePublicKey(text)
	if err != nil {
		return nil, notOneKey(s, text, err)
	}
	switch t := key.Type(); t {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519:
		return key, nil
	case ssh.CertAlgoED25519v01, ssh.CertAlgoSKED25519v01, ssh.CertAlgoRSAv01, ssh.CertAlgoECDSA256v01:
		return nil, writ.Errorf(writ.CodeUsage, "this is a certificate (%s), and not a public key", t).
			WithHint("name the key of the certificate: the file without -cert; or add the authority of the certificate to the roster: writ ca add")
	default:
		return nil, writ.Errorf(writ.CodeUsage, "the type of this public key is %s, and the roster accepts only ed25519 keys", t).
			WithHint("the owner creates one with `ssh-keygen -t ed25519`, or with `ssh-keygen -t ed25519-sk` on a security key")
	}
}

// isPath reports whether --key names a file. A key has a space and is not the name of a file.
func isPath(s string) bool {
	if redact.HoldsKey(s) {
		return false
	}
	if !strings.Contains(s, " ") {
		return true
	}
	_, err := os.Stat(s)
	return err == nil
}

// notOneKey returns the error for a text that is not exactly one public key.
func notOneKey(s string, text []byte, reason error) *writ.Error {
	e := writ.Errorf(writ.CodeUsage, "this is not a single SSH public key: %v", reason)
	switch {
	case redact.HoldsKey(s):
		return e.WithHint("this is a private key, which no other person should see; name the file of its public key, which ends in .pub")
	case strings.Contains(string(text), "PRIVATE KEY"):
		return e.WithHint("this is a private key, which no other person should see; its public key is %s.pub", s)
	case strings.Contains(string(text), "BEGIN "):
		return e.WithHint("convert it to OpenSSH's format: ssh-keygen -i -f FILE")
	}
	return e.WithHint("give one line like \"ssh-ed25519 AAAA…\", without options; repeat the command for another key")
}

// supervisorKeyFile reads the public key of a supervisor.
func supervisorKeyFile(env *cli.Env, path string) (ed25519.PublicKey, error) {
	text, err := env.ReadFile(path, maxKeyFile)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the supervisor's key: %w", err)
	}
	key, err := sshsig.ParsePublicKey(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%s is not the public key of a supervisor: %v", path, err).
			WithHint("a supervisor writes supervisor.pub into its data directory")
	}
	if plain, ok := key.(ssh.CryptoPublicKey); ok {
		if public, ok := plain.CryptoPublicKey().(ed25519.PublicKey); ok && key.Type() == ssh.KeyAlgoED25519 {
			return public, nil
		}
	}
	return nil, writ.Errorf(writ.CodeUsage, "%s holds a key of the type %s; the key of a supervisor is ssh-ed25519", path,
		key.Type())
}
