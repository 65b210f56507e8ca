package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/cmd/writ/internal/testcluster"
	"writ/internal/testenv"
)

// The client of the page about the wire format runs a script and verifies how that ended. It believes nobody who is not in the roster that it knows.
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
	run := func() (said string, err error) {
		cmd := exec.CommandContext(t.Context(), python, "../../docs/wire/client.py", context, "dc1", "alice", filepath.Join(s.Dir, "cluster", "root.key"), filepath.Join(s.Dir, "pong.tengo"))
		cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
		out, err := cmd.CombinedOutput()
		if left, _ := os.ReadDir(scratch); len(left) > 0 {
			t.Errorf("it leaves %v behind, with the key of its session", left)
		}
		return string(out), err
	}
	said, err := run()
	if err != nil || !strings.Contains(said, `"state": "succeeded", "output": {"said": "pong"}`) {
		t.Fatalf("%v: %s", err, said)
	}
	s.Writ("project", "add", "mail") // the roster has a next version, which nobody told the client
	if said, err = run(); err == nil || !strings.Contains(said, "not the one of the anchor") {
		t.Errorf("it believes another roster: %v, %s", err, said)
	}
}
