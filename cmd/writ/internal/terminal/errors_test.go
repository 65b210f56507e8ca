package terminal

import (
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
)

// TestNoErrorShowsASecret puts every kind of secret into every error that repeats its input.
//
// Promise: Terminals and output: Errors, logs and contexts contain no private key, token, webhook address or password
// of an address.
// How: A filter removes secrets from every error, hint, note and log attribute; a key in place of a name is refused
// unread.
// Also: TestKeyInsteadOfItsNameIsNotShown, TestAKeyIsNotKept, TestNoDaemonLogsASecret, TestNoTextShowsASecret,
// TestNoLogShowsASecret, TestInvalidAddressKeepsItsPassword.
func TestNoErrorShowsASecret(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "canary")
	if err != nil {
		t.Fatal(err)
	}
	file := string(pem.EncodeToMemory(block))
	body := strings.Split(file, "\n")[1]
	opener, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	token := identity.NewToken(writ.ClusterID(strings.Repeat("ab", 32))).String()
	for name, secret := range map[string]struct{ text, canary string }{
		"a key of OpenSSH":           {file, body[len(body)-20:]},
		"its beginning":              {file[:200], strings.ReplaceAll(file, "\n", "")[160:190]},
		"its text without the frame": {strings.Join(strings.Split(file, "\n")[1:4], "\n"), body[len(body)-20:]},
		"a key of age":               {opener.String(), opener.String()[20:40]},
		"a join token":               {token, strings.Split(token, ".")[2][10:30]},
	} {
		for form, err := range map[string]error{
			"as it is": fmt.Errorf("open %s: no such file", secret.text),
			"quoted":   writ.Errorf(writ.CodeUsage, "%q is no file", secret.text),
			"hint":     writ.Errorf(writ.CodeUsage, "no").WithHint("chmod 600 %s", secret.text),
			"wrapped":  fmt.Errorf("submit: %w", errors.New(secret.text)),
			"exit":     &ExitError{Err: fmt.Errorf("wait for %s", secret.text), Exit: 6},
		} {
			for _, format := range []Format{Table, JSON} {
				term, _, said := newTest(t)
				term.Format = format
				term.Fail(err)
				plain := strings.NewReplacer("\n", "", `\n`, "").Replace(said())
				if strings.Contains(plain, secret.canary) || !strings.Contains(plain, "not shown") {
					t.Errorf("%s, %s, %s: %s", name, form, format, said())
				}
			}
		}
	}
	term, _, said := newTest(t)
	term.Fail(writ.Errorf(writ.CodeUsage, "writ1.example is a token? AGE-SECRET is not one; -----BEGIN PUBLIC KEY-----"))
	if strings.Contains(said(), "not shown") {
		t.Errorf("a text without secrets was redacted: %s", said())
	}
	var unmarshalled map[string]any
	term, _, said = newTest(t)
	term.Format = JSON
	term.Fail(fmt.Errorf("open %s", file))
	if err := json.Unmarshal([]byte(said()), &unmarshalled); err != nil {
		t.Errorf("%v: %s", err, said())
	}
}

func TestErrorWithoutHintGetsThatOfItsCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		hint string
	}{
		{writ.Errorf(writ.CodeConflict, "no"), "Look at the object again, then decide."},
		{writ.Errorf(writ.CodeResourceBusy, "no"), "writ explain RESOURCE_BUSY"},
		{writ.Errorf(writ.CodeConflict, "no").WithHint("wait"), "wait"},
		{writ.Errorf(writ.CodeUsage, "no"), ""},
		{writ.Errorf("OF_A_LATER_VERSION", "no"), ""},
		{errors.New("the port is taken"), ""},
	} {
		term, _, said := newTest(t)
		term.Fail(tt.err)
		if _, hint, _ := strings.Cut(said(), "hint: "); strings.TrimSpace(hint) != tt.hint {
			t.Errorf("%v: %q, want the hint %q", tt.err, said(), tt.hint)
		}
	}
}
