package main

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/help"
)

// argumentsOf maps the words of usage lines to arguments of an existing kind.
var argumentsOf = map[string]string{
	"FILE": "a.tengo", "FILE…": "a.tengo", "RUN": "@last", "[RUN]": "@last", "KIND/NAME": "container/web", "NODE": "n1",
	"NAME": "a", "DEPLOYMENT": "web", "DEPLOYMENT|KIND/NAME": "container/web", "A": "1", "[B]": "2", "NAME[@VERSION]": "a", "TOKEN": "b42dj5oyltbz4", "BATCH": "b42dj5oyltbz4", "NAME=VALUE|NAME-...": "a=b",
	"[FINGERPRINT]": "SHA256:" + strings.Repeat("A", 43),
}

// flagsOf has the flags without which a command fails before it reads its client flags.
var flagsOf = map[string][]string{
	"writ hold":            {"--deployment", "web"},
	"writ exec":            {"--", "ls"},
	"writ release":         {"--deployment", "web"},
	"writ batch create":    {"--serials", "a.txt"},
	"writ user add":        {"--key", "a.pub", "--role", "viewer"},
	"writ boot list":       {"--dc", "dc1"},
	"writ dc add":          {"--region", "here"},
	"writ dc set":          {"--manual-approval"},
	"writ coordinator add": {"--data", "new", "--url", "https://127.0.0.1:1"},
	"writ ca add":          {"--key", "a.pub"},
	"writ context add":     {"--server", "http://127.0.0.1:1"},
	"writ secret set":      {"--file", "a.pub"},
}

// clientLines returns a command line for each command that has a shared flag of clients.
func clientLines(flag string) map[string][]string {
	lines := make(map[string][]string)
	for _, c := range commandTree() {
		if c.HasSubCommands() && c.Name() != "hold" || !hasClientFlag(c, flag) {
			continue
		}
		line := strings.Fields(c.CommandPath())[1:]
		for _, word := range strings.Fields(c.Use)[1:] {
			if strings.HasPrefix(word, "--") {
				break // flagsOf has it
			}
			line = append(line, argumentsOf[word])
		}
		lines[c.CommandPath()] = append(line, flagsOf[c.CommandPath()]...)
	}
	return lines
}

// withFlag adds a flag to a command line, before the words of another program.
func withFlag(line []string, flag, value string) []string {
	at := slices.Index(line, "--")
	if at < 0 {
		at = len(line)
	}
	return slices.Insert(slices.Clone(line), at, "--"+flag, value)
}

func hasClientFlag(c *cobra.Command, flag string) bool {
	_ = help.Flags(c, help.Client) // merges the inherited flags
	return c.Flag(flag) != nil && c.Flag(flag) == c.InheritedFlags().Lookup(flag) ||
		c.PersistentFlags().Lookup(flag) != nil
}

// TestNoCommandIgnoresAClientFlag gives each command of clients a wrong value for each flag that selects a cluster or
// file. It reads the flag and fails, or rejects the flag.
func TestNoCommandIgnoresAClientFlag(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeScriptFiles(t, dir)
	// The bundle records the failures of its commands, TestScripts/doctor runs doctor, which is slow, and context add and
	// import create the file.
	besides := []string{"writ support bundle", "writ doctor", "writ context add", "writ context import"}
	for flag, wrong := range map[string]string{
		"config": filepath.Join(dir, "missing.yaml"), "context": "no-such-context", "server": "no-such-server",
		"cluster": "no-such-cluster",
	} {
		lines := clientLines(flag)
		if len(lines) < 40 {
			t.Fatalf("--%s: %d commands", flag, len(lines))
		}
		for path, line := range lines {
			if slices.Contains(besides[:2], path) || flag == "config" && slices.Contains(besides, path) {
				continue
			}
			text, code := usage(t, withFlag(line, flag, wrong)...)
			if code == writ.ExitDone || !strings.Contains(text, wrong) && !strings.Contains(text, "does not use --"+flag) {
				t.Errorf("%v with a wrong --%s: exit %d\n%s", line, flag, code, text)
			}
		}
	}
}

// writeScriptFiles writes the files that the command lines name.
func writeScriptFiles(t *testing.T, dir string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.tengo": "run := import(\"run\")\nrun.log(\"hello\")\n",
		"a.pub":   string(ssh.MarshalAuthorizedKey(key)),
		"a.txt":   "serial-1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
