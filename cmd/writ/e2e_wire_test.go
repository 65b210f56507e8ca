package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// The client in the page about the wire format runs a script and verifies its end. It trusts only members of the roster
// that it knows.
//
// Promise: Commands and hosts: A client in another language can log in, submit a script and verify the run's end by
// wire.md alone.
// How: The formats are texts with SSH signatures, and envelopes of CBOR with Ed25519.
// Also: TestVectorForOtherLanguagesIsCurrent.
func TestAClientInPythonRunsAScript(t *testing.T) {
	t.Parallel()
	python := testenv.Need(t, "python3")
	testenv.Need(t, "openssl")
	testenv.Need(t, "ssh-keygen")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("pong.tengo", "node := import(\"node\")\nrun := import(\"run\")\nnode.ping({})\nrun.output({said: \"pong\"})\n")
	context := filepath.Join(s.Dir, "context.yaml")
	if err := os.WriteFile(context, []byte(s.Writ("context", "export")), 0o600); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	call := func(args ...string) (said string, err error) {
		cmd := exec.CommandContext(t.Context(), python, append([]string{"../../docs/wire/client.py"}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
		out, err := cmd.CombinedOutput()
		if left, _ := os.ReadDir(scratch); len(left) > 0 {
			t.Errorf("it leaves %v behind, with the key of its session", left)
		}
		return string(out), err
	}
	run := func(signer, script string) (string, error) {
		return call(context, "dc1", signer, filepath.Join(s.Dir, "cluster", "root.key"), filepath.Join(s.Dir, script))
	}
	said, err := run("alice", "pong.tengo")
	if err != nil || !strings.Contains(said, `"state": "succeeded", "output": {"said": "pong"}`) {
		t.Fatalf("%v: %s", err, said)
	}
	s.Script("sizes.tengo", "params := {count: {type: \"int\", default: 2}}\nimport(\"run\").log(import(\"run\").params.count)\n")
	if said, err = run("alice", "sizes.tengo"); err == nil || !strings.Contains(said, "is refused") || !strings.Contains(said, "ARGUMENTS_INVALID") {
		t.Errorf("a script whose parameters it did not sign: %v, %s", err, said)
	}
	if said, err = run("bob", "pong.tengo"); err == nil || !strings.Contains(said, "SIGNER_UNKNOWN: ") || strings.Contains(said, "Traceback") {
		t.Errorf("unknown signer: %v, %s", err, said)
	}
	if said, err = call(); err == nil || !strings.Contains(said, "client.py CONTEXT DATACENTER") {
		t.Errorf("without arguments: %v, %s", err, said)
	}
	s.Writ("project", "add", "mail") // the client does not have the new version of the roster
	if said, err = run("alice", "pong.tengo"); err == nil || !strings.Contains(said, "not the one of the anchor") {
		t.Errorf("it believes another roster: %v, %s", err, said)
	}
}
