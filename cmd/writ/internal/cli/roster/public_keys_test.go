package roster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/identity/sshsig"
)

func TestSupervisorKeyIsOneWholeKey(t *testing.T) {
	env := &cli.Env{Terminal: terminal.New(os.Stdin, os.Stdout, os.Stderr, nil)}
	dir := t.TempDir()
	key, err := sshsig.LoadOrCreateKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	line := string(ssh.MarshalAuthorizedKey(sshsig.NewSigner(key).PublicKey()))
	for name, c := range map[string]struct{ text, want string }{
		"one":     {line, ""},
		"options": {"no-pty,from=\"10.0.0.1\" " + line, "no-pty, from"},
		"two":     {line + line, "there are 2 keys"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := supervisorKeyFile(env, path)
		if c.want == "" && err != nil || c.want != "" && (writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
