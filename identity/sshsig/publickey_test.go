package sshsig

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestParsePublicKeyRefusesMoreThanOneKey(t *testing.T) {
	alice, bob := string(ssh.MarshalAuthorizedKey(testPublic("alice"))), string(ssh.MarshalAuthorizedKey(testPublic("bob")))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPublic, err := ssh.NewPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, want string }{
		"one":              {alice, ""},
		"with a comment":   {"# the key of alice\n\n" + alice + "\n", ""},
		"CRLF":             {strings.ReplaceAll(alice, "\n", "\r\n"), ""},
		"options":          {`from="10.0.0.0/8",expiry-time="20200101",no-pty ` + alice, "from, expiry-time, no-pty"},
		"an authority":     {`cert-authority,principals="deploy" ` + alice, "cert-authority, principals"},
		"secret option":    {`environment="TOKEN=abc" ` + alice, "environment,"},
		"a second key":     {alice + bob, "there are 2 keys (ssh-ed25519, ssh-ed25519)"},
		"RSA first":        {string(ssh.MarshalAuthorizedKey(rsaPublic)) + alice, "there are 2 keys (ssh-rsa, ssh-ed25519)"},
		"a broken line":    {alice + "ssh-ed25519 AAAA\n", "line 2 has a key of the type ssh-ed25519 that is cut off"},
		"joined lines":     {strings.TrimSpace(alice) + " alice@home" + bob, "line 1 has a second key"},
		"in quotes":        {`"` + strings.TrimSpace(alice) + `"`, "a quotation mark"},
		"obsolete type":    {"ssh-dss AAAAB3NzaC1kc3M=", "unknown or obsolete type ssh-dss"},
		"wrapped":          {alice[:20] + "\n" + alice[20:], "cut off"},
		"byte order mark":  {"\ufeff" + alice, ""},
		"nothing":          {"\n", "no public key"},
		"the same twice":   {alice + alice, "there are 2 keys"},
		"text before it":   {"hello\n" + alice, "line 1 is not a public key"},
		"key in an option": {`command="echo ` + strings.TrimSpace(bob) + `" ` + alice, "command,"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ParsePublicKey([]byte(c.file))
			switch {
			case c.want == "" && (err != nil || ssh.FingerprintSHA256(key) != ssh.FingerprintSHA256(testPublic("alice"))):
				t.Errorf("%v, %v", key, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			case err != nil && (strings.Contains(err.Error(), "abc") || strings.Contains(err.Error(), "AAAA")):
				t.Errorf("the error repeats the file: %v", err)
			}
		})
	}
}
