package main

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// Signed texts are readable forever, so they must contain no secret. Commands reject a secret before they send a
// request.
//
// Promise: Terminals and output: Signed reasons, labels and parameters contain no private key or join token, and
// reasons and labels no password of an address.
// How: Commands refuse such a value before they contact a coordinator.
// Also: TestTextsWithSecretsAreDetected.
func TestNoSecretIsSigned(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "canary")
	if err != nil {
		t.Fatal(err)
	}
	token := identity.NewToken(writ.ClusterID(strings.Repeat("ab", 32))).String()
	file := string(pem.EncodeToMemory(block))
	const password = "postgres://writ:hunter2@db.example:5432/writ"
	dir := t.TempDir()
	script, params := filepath.Join(dir, "s.tengo"), filepath.Join(dir, "params.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(script, `run := import("run")
params := {key: {type: "string", default: ""}, keys: {type: "list", of: "string", default: []}}
x := run.params.key
`)
	write(params, "keys: [a, "+token+"]\n")
	try := func(args ...string) (string, int) {
		said, err := os.Create(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		code := run(args, os.Stdin, said, said, []string{"HOME=" + dir})
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text), code
	}
	refused := func(args ...string) {
		t.Helper()
		text, code := try(args...)
		if code != writ.ExitUsage || !strings.Contains(text, "contains a private key, a token or a password") || !strings.Contains(text, "writ secret set") {
			t.Errorf("writ %q: exit %d\n%s", args, code, text)
		}
	}
	for _, secret := range []string{token, strings.TrimSpace(strings.ReplaceAll(file, "\n", " ")), password, "it was password=hunter2"} {
		for _, command := range [][]string{
			{"node", "approve", "n1"}, {"node", "reject", "n1"}, {"node", "cordon", "n1"}, {"node", "uncordon", "n1"}, {"node", "drain", "n1"}, {"node", "label", "n1", "a=b"},
			{"node", "remove", "n1"}, {"node", "lost", "n1"}, {"run", "cancel", "r"}, {"run", "resume", "r"}, {"token", "revoke", "aaaaaaaaaaaaa"}, {"pki", "rotate"}, {"hold"}, {"release"},
		} {
			refused(append(command, "--reason", secret)...)
		}
		refused("dc", "add", "dc1", "--label", "a="+secret)
	}
	refused("node", "label", "n1", "a=writ2.ki4yceabcg6vm.5ynvEDNQQgCCu2vR6qSoavazkruX") // as long as a value may be
	for _, secret := range []string{token, file} {
		refused("plan", script, "--offline", "-p", "keys=a,b", "-p", "key="+secret)
	}
	refused("plan", script, "--offline", "-p", "key=a", "--params", params)
	if text, code := try("plan", script, "--offline", "-p", "keys=a,b", "-p", "key="+password); code == writ.ExitUsage {
		t.Errorf("a parameter that may be an example: exit %d\n%s", code, text)
	}
}

func TestSettingsKeepTheirText(t *testing.T) {
	env := newEnv(terminal.New(os.Stdin, os.Stdout, os.Stderr, nil))
	settings := func(text string) (*cobra.Command, error) {
		cmd, _, err := newRoot(env).Find([]string{"runner"})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "runner.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Flags().Set("config", path); err != nil {
			t.Fatal(err)
		}
		return cmd, env.FillFlags(cmd)
	}
	for _, value := range []string{"2026-01-31", "1.10", "no"} {
		cmd, err := settings("name: " + value)
		if err != nil || cmd.Flag("name").Value.String() != value {
			t.Errorf("name: %s is read as %s, %v", value, cmd.Flag("name").Value, err)
		}
	}
	for _, text := range []string{"cpus: 0x1F", "cpus: 1_000", "cpus: 010", "cpus: 1\n---\ncpus: 2", "cpus: 1\ncpus: 2", "- cpus"} {
		if _, err := settings(text); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%q: %v, want USAGE", text, err)
		}
	}
}
