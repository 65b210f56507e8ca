package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestJoiningWithoutTokens adds a supervisor by its key and a node by a statement. Both trust the cluster's id alone.
// If the roster requires approval, a node with a token also waits for a statement.
//
// Promise: Admission of nodes: In a datacenter with manual approval, a token admits no node: each node waits for an
// approval of its key.
// How: The supervisor asks the roster in force when it admits.
// Also: TestManualApprovalsHaveFormatTwo.
func TestJoiningWithoutTokens(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	broker := testenv.Redis(t).URL
	cluster := string(s.Client.Context.Cluster)
	nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	supervisor := s.Start("dc1", "waiting until the roster names this supervisor", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.URL,
		"--redis", broker, "--listen", nodeAPI, "--cluster", cluster)
	s.Writ("dc", "add", "dc1", "--region", "here", "--key", "dc1/supervisor.pub")
	s.Await(supervisor, "is listening for nodes")
	if _, said, code := s.Try("dc", "add", "dc1", "--region", "here", "--key", "dc1/supervisor.pub"); code != writ.ExitConflict {
		t.Errorf("again: exit %d\n%s", code, said)
	}

	node := s.Start("n1", "writ node approve n1", "runner", "--data", "n1", "--name", "n1", "--supervisor", "http://"+nodeAPI, "--redis", broker,
		"--cluster", cluster, "--drivers", "simulated", "--simulate-speed", "0")
	s.Until("the node is listed as pending", func(ctx context.Context) bool {
		nodes, err := s.Client.Nodes.List(ctx, api.ListNodesParams{Admission: api.Given(writ.AdmissionPending)})
		return err == nil && len(nodes) == 1
	})
	if _, said, code := s.Try("node", "approve", "n1"); code != writ.ExitUsage || !strings.Contains(said, "read it on the machine") {
		t.Errorf("without a fingerprint: exit %d\n%s", code, said)
	}
	another := "SHA256:" + strings.Repeat("A", 43)
	if _, said, code := s.Try("node", "approve", "n1", another); code != writ.ExitNotFound || !strings.Contains(said, "fingerprint that the machine shows") {
		t.Errorf("with the fingerprint of another machine: exit %d\n%s", code, said)
	}
	s.Writ("node", "approve", "n1", regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`).FindString(node.Said()), "--reason", "seen in the rack")
	s.Await(node, "msg=serving")
	s.Script("x.tengo", "herodb := import(\"herodb\")\nrun := import(\"run\")\nrun.output({at: herodb.create(\"x\", {memory_mib: 64}).address})\n")
	if out := s.Writ("submit", "x.tengo"); !strings.Contains(out, "at:") {
		t.Errorf("it says %q", out)
	}

	// With manual approval, a token is not enough.
	s.Writ("dc", "set", "dc1", "--manual-approval")
	if out := s.Writ("roster", "show"); !regexp.MustCompile(`manual approval:? +dc1`).MatchString(out) {
		t.Errorf("the roster is shown as\n%s", out)
	}
	s.Script("n2.token", s.Writ("token", "create", "--dc", "dc1"))
	second := s.Start("n2", "writ node approve n2", "runner", "--data", "n2", "--name", "n2", "--supervisor", "http://"+nodeAPI, "--redis", broker,
		"--join", "@n2.token", "--drivers", "simulated", "--simulate-speed", "0")
	s.Writ("node", "approve", "n2", regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`).FindString(second.Said()))
	s.Await(second, "msg=serving")
	if _, said, code := s.Try("dc", "set", "elsewhere", "--manual-approval"); code != writ.ExitNotFound || !strings.Contains(said, "writ dc list") {
		t.Errorf("unknown datacenter: exit %d\n%s", code, said)
	}
	// The timeouts of nodes are settings, too. A new value is validated together with the current values.
	s.Writ("dc", "set", "dc1", "--silent-after", "20s")
	if _, said, code := s.Try("dc", "set", "dc1", "--lost-after", "30s"); code != writ.ExitUsage || !strings.Contains(said, "the minimum is 40s") {
		t.Errorf("lost too soon: exit %d\n%s", code, said)
	}
	s.Writ("dc", "set", "dc1", "--lost-after", "5m")
	s.Await(supervisor, "silent_after=20s lost_after=5m0s")
	if out := s.Writ("dc", "show", "dc1"); !regexp.MustCompile(`(?s)manual approval:? +yes.*silent after:? +20s.*lost after:? +5m0s`).MatchString(out) {
		t.Errorf("the datacenter is shown as\n%s", out)
	}
	if out := s.Writ("roster", "show"); !strings.Contains(out, "dc1: a node is silent after 20s, and lost after 5m0s") {
		t.Errorf("the roster is shown as\n%s", out)
	}
	if _, said, code := s.Try("dc", "set", "dc1"); code != writ.ExitUsage || !strings.Contains(said, "no setting is given") {
		t.Errorf("without a setting: exit %d\n%s", code, said)
	}
}

// TestStrangersUseNoSupervisorSlots registers with the id of a token before the supervisor that has the token.
func TestStrangersUseNoSupervisorSlots(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	adding := s.Start("add", "waiting until it registers", "dc", "add", "dc1", "--region", "here", "--token-file", "token")
	text, err := os.ReadFile(filepath.Join(s.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := identity.ParseToken(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Answer[api.Registration](s.Client.API.Register(t.Context(), api.NewRegistration{
		Token: token.ID, Name: "dc1", Key: make([]byte, ed25519.PublicKeySize), Nonce: make([]byte, identity.NonceSize), Proof: []byte("of nothing"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	s.Start("dc1", "is listening for nodes", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.URL, "--redis", testenv.Redis(t).URL,
		"--listen", fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), "--join", "@token")
	if err := adding.Wait(); err != nil {
		t.Errorf("dc add: %v\n%s", err, adding.Said())
	}
}

// TestTwoDatacenters checks that scripts reach the addressed datacenter, and that a script waits for a datacenter that
// is down.
//
// Promise: Failures: A submission for an unreachable datacenter is visible, waits, and runs when the datacenter
// returns.
// How: The coordinator keeps it until it expires.
// Also: TestSubmissionWaitsForItsDatacenter.
func TestTwoDatacenters(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "east", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	s.Add(testcluster.Datacenter{Name: "west", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	s.Script("where.tengo", `
herodb := import("herodb")
run := import("run")
herodb.create("here", {memory_mib: 64})
run.output({datacenter: run.datacenter})
`)
	both := [][]string{{"east-n1", "east-n2"}, {"west-n1", "west-n2"}}
	for i, name := range []string{"east", "west"} {
		out := s.Writ("submit", "where.tengo", "--dc", name)
		if !strings.Contains(out, name) {
			t.Errorf("output of a run in %s = %q", name, out)
		}
		if here, there := len(s.Effects(both[i]...)), len(s.Effects(both[1-i]...)); here != 1 || there != i {
			t.Errorf("after a script for %s: %d effects there, %d elsewhere", name, here, there)
		}
	}

	out, said, code := s.Try("submit", "where.tengo", "--dc", "any", "--select", "name=west")
	if code != 0 || !strings.Contains(out, "west") || !strings.Contains(said, "west (here): healthy, 0 open calls: chosen") ||
		!strings.Contains(said, `not east: name is "east", not "west"`) {
		t.Errorf("--dc any: exit %d\n%s%s", code, said, out)
	}
	if _, said, code := s.Try("submit", "where.tengo"); code != 2 || !strings.Contains(said, "there are 2 datacenters: east, west") {
		t.Errorf("without --dc: exit %d\n%s", code, said)
	}

	s.Kill("west")
	s.Until("west is away", func(ctx context.Context) bool {
		list, err := api.Answer[api.DatacenterList](s.Client.API.ListDatacenters(ctx))
		for _, d := range list.Items {
			if d.Name == "west" {
				return err == nil && !d.Placeable
			}
		}
		return false
	})
	id := s.Submit("where.tengo", "--dc", "west")
	if out := s.Writ("run", "show", string(id)); !strings.Contains(out, "waiting") || !strings.Contains(out, "west") {
		t.Errorf("a run for a datacenter that is away:\n%s", out)
	}
	if _, said, code := s.Try("submit", "where.tengo", "--dc", "any", "--select", "name=west"); code != 8 || !strings.Contains(said, "not west") {
		t.Errorf("--dc any while none will do: exit %d\n%s", code, said)
	}
	if out := s.Writ("submit", "where.tengo", "--dc", "any"); !strings.Contains(out, "east") {
		t.Errorf("--dc any while west is away: %s", out)
	}
	s.Restart("west")
	s.Succeeded(s.Follow(id, 0, func() {}))
	if out := s.Writ("run", "watch", string(id)); !strings.Contains(out, "west") {
		t.Errorf("after its return: %s", out)
	}
}
