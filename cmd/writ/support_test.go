package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

// unpackBundle returns the texts of a bundle by name.
func unpackBundle(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(header.Name, "writ-support/")] = string(text)
	}
}

// A bundle can be made without a cluster; it contains the errors. It never contains credentials.
//
// Promise: Commands and hosts: A support bundle contains no private key, token or password of an address, and works
// without a cluster.
// How: Outputs of commands and logs pass the same filter as logs.
// Also: TestBundleHidesForeignTokens, TestNoTextShowsASecret, TestNoPathHidesALineOfAKey.
func TestABundleHasNoKeysAndIsMadeWithoutACluster(t *testing.T) {
	dir := t.TempDir()
	log, bundle, config := filepath.Join(dir, "coord.log"), filepath.Join(dir, "help.tar.gz"), filepath.Join(dir, "config.yaml")
	const secret, said = "CANARY-0123456789012345678901234567890123456.0a1b\n", "connect to postgres://writ:CANARY@db.example/ledger\n"
	// Truncated before the secret.
	text := "the beginning\njoin with writ2.aaaaaaaaaaaaa." + secret + strings.Repeat("x", 10<<20-len(secret)-len(said)-1) + "\n" + said
	if err := errors.Join(os.WriteFile(log, []byte(text), 0o600), os.WriteFile(config, []byte("contexts: []\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	bundleOf := func(args ...string) int {
		return run(append([]string{"support", "bundle", "--config", config, "--server", "http://127.0.0.1:1", "--file", bundle}, args...), os.Stdin, output, output, nil)
	}
	if code := bundleOf("--log", log, "--run", "@last"); code != 0 {
		text, _ := os.ReadFile(output.Name())
		t.Fatalf("exit code %d: %s", code, text)
	}
	if info, err := os.Stat(bundle); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle is for %v, %v", info.Mode(), err)
	}
	all := unpackBundle(t, bundle)
	for name, want := range map[string]string{
		"version.txt": "engines", "doctor.txt": "script sandbox", "nodes.json": "code", "holds.json": "code", "deployments.json": "code", "run-last.json": "code", "log-coord.log": "postgres://writ:(secret, not shown)@db.example",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s has no %q:\n%.2000s", name, want, all[name])
		}
	}
	for name, text := range all {
		if strings.Contains(text, "CANARY") || strings.Contains(text, "the beginning") {
			t.Errorf("%s contains forbidden text", name)
		}
	}
	if code := bundleOf(); code != writ.ExitConflict {
		t.Errorf("a bundle is written over another one: exit code %d", code)
	}
	if code := run([]string{"support", "bundle", "--log", filepath.Join(dir, "none"), "--file", filepath.Join(dir, "b")}, os.Stdin, output, output, nil); code != writ.ExitUsage {
		t.Errorf("a log that is not there: exit code %d", code)
	}
}

// TestBundleHidesForeignTokens builds a bundle from a log with secrets of other services and with addresses that are
// not escaped.
func TestBundleHidesForeignTokens(t *testing.T) {
	dir := t.TempDir()
	log, bundle := filepath.Join(dir, "coord.log"), filepath.Join(dir, "help.tar.gz")
	const digest = "sha256:6f1c000000000000000000000000000000000000000000000000000000000000"
	lines := []string{
		"secret wh" + "sec_CANARY0123456789CANARY0123456789", "clone with gh" + "p_CANARY0123456789CANARY0123456789",
		`level=WARN msg="send to a webhook" url=https://hooks.slack.com/services/T0CANARY/B0CANARY/CANARY0123456789`,
		`{"level":"WARN","msg":"redis://:CANARY/CANARY@127.0.0.1:6379/0 and unix://:CANARY/b@/run/redis.sock are invalid","node":"n1"}`,
		"image " + digest,
	}
	if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	if code := run([]string{"support", "bundle", "--server", "http://127.0.0.1:1", "--file", bundle, "--log", log}, os.Stdin, output, output, nil); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got := unpackBundle(t, bundle)["log-coord.log"]
	if strings.Contains(got, "CANARY") || !strings.Contains(got, digest) || !strings.Contains(got, `are invalid","node":"n1"}`) {
		t.Errorf("the log in the bundle:\n%s", got)
	}
}
