package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestDemo runs the demo in this process, under the race detector and the leak check.
//
// Promise: Plans, scripts and manuals: `writ demo` succeeds with only Go installed.
// How: Embedded Redis, simulated drivers.
func TestDemo(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	said, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	code := run([]string{"demo", "-o", "json", "--simulate-speed", "0.1"}, os.Stdin, out, said, os.Environ())
	errs := read(t, said.Name())
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	var result struct {
		Signer, Datacenter, Dashboard string
		Run                           api.Run
		Calls                         []writ.Call
		Signed                        bool `json:"signed"`
	}
	if err := json.Unmarshal([]byte(read(t, out.Name())), &result); err != nil {
		t.Fatal(err)
	}
	if result.Signer != "dev" || result.Datacenter != "local" || !result.Signed || result.Run.State != api.RunStateSucceeded ||
		!strings.HasPrefix(result.Dashboard, "http://127.0.0.1:") {
		t.Errorf("%+v", result)
	}
	simulated := 0
	for _, c := range result.Calls {
		if c.NodeName == "" || c.Driver == "" || c.Started.IsZero() || c.Ended.IsZero() {
			t.Errorf("call %d has no node, driver or times: %+v", c.Seq, c)
		}
		if c.Simulated {
			simulated++
		}
	}
	if len(result.Calls) < 5 || simulated == 0 || simulated == len(result.Calls) {
		t.Errorf("%d calls, %d of them simulated; some of both kinds are meant to be shown", len(result.Calls), simulated)
	}
	if len(result.Run.Output) == 0 {
		t.Error("no output")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind, %v", left, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDemoForPeople checks the two commands of the README.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	out, said, code := s.Try("demo", "--simulate-speed", "0")
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, said)
	}
	for _, want := range []string{"signer:", "datacenter:", "machine.create", "simulated", "directory", "created", "database:", "dashboard: http://127.0.0.1:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown:\n%s", want, out)
		}
	}
}

// TestDevSaysWhichRedisItUses checks both cases: a redis-server on PATH, and the stand-in without one.
//
// Promise: Commands and hosts: `writ dev` prints the Redis that it uses.
// How: It starts `redis-server` from PATH, or a stand-in if the program is missing.
func TestDevSaysWhichRedisItUses(t *testing.T) {
	redis := testenv.Need(t, "redis-server")
	testcluster.Binary(t) // while the compiler is on PATH
	for want, path := range map[string]string{"redis-server (" + redis: filepath.Dir(redis), "miniredis inside this process": t.TempDir()} {
		t.Setenv("PATH", path)
		s := testcluster.Empty(t)
		p := s.Start("dev", "Ctrl-C ends it", "dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--simulate-speed", "0")
		if !strings.Contains(p.Said(), want) {
			t.Errorf("the output lacks %q:\n%s", want, p.Said())
		}
		s.Script("x.tengo", "herodb := import(\"herodb\")\nrun := import(\"run\")\nrun.output({at: herodb.create(\"x\", {memory_mib: 64}).address})\n")
		if out := s.Writ("submit", "x.tengo"); !strings.Contains(out, "at:") {
			t.Errorf("with %s: %s", want, out)
		}
	}
}

// TestDevResumes kills a development cluster and starts it again in the same directory.
//
// Promise: Connections and certificates: Clusters on loopback require a login from readers, as other clusters do: the
// clusters of `writ init`, `writ dev` and `writ demo`.
// How: The roster names their coordinator.
// Also: TestACoordinatorOnLoopbackGetsTLS.
func TestDevResumes(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	dev := []string{"dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "1"}
	_, at, _ := strings.Cut(s.Start("dev", "Ctrl-C ends it", dev...).Said(), "Dashboard: ")
	refusesStrangers(t, strings.Fields(at)[0])
	s.Script("x.tengo", "volume := import(\"volume\")\nrun := import(\"run\")\nrun.output({at: volume.create(\"x\", {size_gib: 1}).path})\n")
	before := s.Writ("submit", "x.tengo")
	node := s.Writ("node", "list", "-o", "json")
	s.Script("long.tengo", "herodb := import(\"herodb\")\nx := herodb.create(\"slow-2-db\", {memory_mib: 64}).address\n")
	open := s.Submit("long.tengo")
	s.Kill("dev")

	s.Start("dev", "Ctrl-C ends it", dev...)
	out, said, code := s.Try("submit", "x.tengo")
	if code != 0 || out != before || !strings.Contains(said, "unchanged") {
		t.Errorf("the volume is missing: exit %d\n%s%s", code, said, out)
	}
	if after := s.Writ("node", "list", "-o", "json"); nodeID(t, node) != nodeID(t, after) {
		t.Errorf("the node is another one:\n%s\n%s", node, after)
	}
	s.Writ("run", "watch", string(open))
}

// TestDevEndsSoonWithRunsOpen stops a working development cluster while a client watches. The next start continues the
// runs.
func TestDevEndsSoonWithRunsOpen(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	dev := []string{"dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "2"}
	p := s.Start("dev", "Ctrl-C ends it", dev...)
	for i := range 20 {
		file := fmt.Sprintf("r%d.tengo", i)
		name := fmt.Sprintf("slow-600-db%d", i) // drivers are working on it
		if i%4 == 3 {
			name = "slow-600-db0" // held by another run
		}
		s.Script(file, fmt.Sprintf("herodb := import(\"herodb\")\nx := herodb.create(%q, {memory_mib: 64}).address\n", name))
		s.Submit(file)
	}
	s.Script("watched.tengo", "herodb := import(\"herodb\")\nx := herodb.create(\"slow-600-watched\", {memory_mib: 64}).address\n")
	s.Start("submit", "running in local", "submit", "watched.tengo")
	began := time.Now()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	took := time.Since(began)
	t.Logf("it ended after %s", took.Round(10*time.Millisecond))
	if took > 20*time.Second { // a single client once delayed it by 75 s
		t.Error("that is too long")
	}
	s.Kill("submit")
	s.Start("dev", "Ctrl-C ends it", dev...)
	if open := strings.Fields(s.Writ("run", "list", "--state", "running", "-o", "name")); len(open) != 21 {
		t.Errorf("%d runs are open after the next start, want 21", len(open))
	}
}

// TestInterruptedWatchShowsHowToContinue interrupts `writ submit`, which does not affect the run.
func TestInterruptedWatchShowsHowToContinue(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	s.Start("dev", "Ctrl-C ends it", "dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "1", "--simulate-speed", "0")
	s.Script("long.tengo", "herodb := import(\"herodb\")\nx := herodb.create(\"slow-600-db\", {memory_mib: 64}).address\n")
	p := s.Start("submit", "running in local", "submit", "long.tengo")
	if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exit, ok := errors.AsType[*exec.ExitError](p.Wait())
	if !ok || exit.ExitCode() != writ.ExitInterrupted {
		t.Errorf("it ends with %v, want exit code 130", p.Err)
	}
	id := strings.TrimSpace(s.Writ("run", "list", "--state", "running", "-o", "name"))
	if want := "writ run watch " + id; id == "" || !strings.Contains(p.Said(), want) {
		t.Errorf("the output lacks %q:\n%s", want, p.Said())
	}
	s.Writ("run", "cancel", id)
	if _, said, code := s.Try("run", "watch", id); code != writ.ExitFailed || !strings.Contains(said, "cancelled by dev") {
		t.Errorf("a cancelled run: exit %d\n%s", code, said)
	}
}

// TestAFailedRunIsResumed resumes a failed run and watches it to its end.
func TestAFailedRunIsResumed(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	s.Start("dev", "Ctrl-C ends it", "dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "1", "--simulate-speed", "0")
	s.Script("flaky.tengo", `
herodb := import("herodb")
run := import("run")
first := herodb.create("first", {memory_mib: 64})
db := herodb.create("flaky-1-db", {memory_mib: 64}, {retries: 0})
run.output({name: db.name, address: db.address != "", first: first.name})
`)
	if _, said, code := s.Try("submit", "flaky.tengo"); code != writ.ExitFailed {
		t.Fatalf("the script does not fail: exit %d\n%s", code, said)
	}
	id := strings.TrimSpace(s.Writ("run", "list", "--state", "failed", "-o", "name"))
	if why := s.Writ("run", "explain", id); !strings.Contains(why, "call 2 (herodb.create flaky-1-db) failed: INJECTED") || !strings.Contains(why, "next: writ run resume "+id) {
		t.Errorf("explained as:\n%s", why)
	}
	out, said, code := s.Try("run", "resume", id, "--reason", "it works now")
	if code != 0 || !strings.Contains(out, "flaky-1-db") || !strings.Contains(said, "succeeded in") {
		t.Errorf("resume: exit %d\n%s%s", code, said, out)
	}
	for _, command := range []string{"show", "explain"} {
		if out := s.Writ("run", command, id); !strings.Contains(out, "resume by dev at ") || !strings.Contains(out, ": it works now\n") {
			t.Errorf("run %s does not show the signer of the resume:\n%s", command, out)
		}
	}
	if _, said, code := s.Try("run", "resume", id); code != writ.ExitConflict || !strings.Contains(said, "only a failed run can be resumed") {
		t.Errorf("a run that has succeeded: exit %d\n%s", code, said)
	}
}

// A command that is interrupted while a coordinator does not answer reports the interrupt and prints no other output.
// In particular, it does not print a plan without a datacenter.
func TestAnInterruptedCommandShowsNothing(t *testing.T) {
	t.Parallel()
	bin := testcluster.Binary(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "empty.tengo")
	none := filepath.Join(dir, "none.yaml")
	if err := errors.Join(os.WriteFile(script, nil, 0o600), os.WriteFile(none, []byte("contexts: []\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plan", script}, {"run", "list"}, {"login"}, {"pki", "show"}, {"coordinator", "remove", "coord2"}} {
		t.Run(args[0], func(t *testing.T) {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			var out, said bytes.Buffer
			cmd := exec.Command(bin, append(args, "--config", none, "--cluster", strings.Repeat("0", 64), "--server", "http://"+silent.Addr().String())...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "XDG_STATE_HOME="+dir), &out, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				ended <- cmd.Wait()
				silent.Close() // ends Accept if the command never connected
			}()
			if conn, err := silent.Accept(); err == nil {
				defer conn.Close()
				_ = cmd.Process.Signal(os.Interrupt)
			}
			err = <-ended
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != writ.ExitInterrupted || out.Len() > 0 || strings.Contains(said.String(), "error") {
				t.Errorf("it ends with %v, want exit code 130 without output:\n%s%s", err, out.String(), said.String())
			}
		})
	}
}

func nodeID(t *testing.T, list string) string {
	t.Helper()
	var page api.NodePage
	if err := json.Unmarshal([]byte(list), &page); err != nil || len(page.Items) != 1 {
		t.Fatalf("%d nodes, %v", len(page.Items), err)
	}
	return string(page.Items[0].ID)
}

// TestDevResumesWithoutARemovedNode removes one of two nodes while the cluster works, and starts the cluster
// again.
func TestDevResumesWithoutARemovedNode(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	dev := []string{"dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "2", "--simulate-speed", "0"}
	s.Start("dev", "Ctrl-C ends it", dev...)
	s.Writ("node", "remove", "--yes", "n2")
	s.Kill("dev")
	p := s.Start("dev", "Ctrl-C ends it", dev...)
	s.Await(p, "node n2 in local has ended")
	s.Script("x.tengo", "volume := import(\"volume\")\nrun := import(\"run\")\nrun.output({at: volume.create(\"x\", {size_gib: 1}).path})\n")
	s.Writ("submit", "x.tengo")
	s.Runs("dev")
}

// TestDevWithoutANodeShowsHowToAddOne removes the only node, starts the cluster again, and follows its hint.
//
// Promise: Commands and hosts: `writ dev` lists the directories of removed nodes with the steps to replace them, and
// is not ready without a node.
// How: It asks the coordinator for the removed nodes.
func TestDevWithoutANodeShowsHowToAddOne(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	dev := []string{"dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "1", "--simulate-speed", "0"}
	s.Start("dev", "Ctrl-C ends it", dev...)
	s.Writ("node", "remove", "n1", "--yes")
	s.Kill("dev")
	p := s.Start("dev", "no nodes are left", dev...)
	if !strings.Contains(p.Said(), "and start again: rm -r ") || strings.Contains(p.Said(), "ready;") {
		t.Fatalf("it said:\n%s", p.Said())
	}
	s.Kill("dev")
	if err := os.RemoveAll(filepath.Join(s.Dir, "cluster", "local", "n1")); err != nil {
		t.Fatal(err)
	}
	if p := s.Start("dev", "ready; Ctrl-C ends it", dev...); strings.Contains(p.Said(), "removed nodes") {
		t.Errorf("it said:\n%s", p.Said())
	}
	s.Script("x.tengo", "import(\"volume\").create(\"x\", {size_gib: 1})\n")
	s.Writ("submit", "x.tengo")
}

// TestRemovedNodeEndsWithItsOwnCode removes a node whose Redis then disconnects it. Its process ends, and so does
// the next start. The first of the two supervisors that its nodes know is absent.
//
// Promise: Admission of nodes: A node stops permanently, within a minute, only on its supervisor's signed removal,
// and systemd does not restart it.
// How: The node asks with a nonce: at its start, every minute, and after a refusal of Redis or the node API; without
// Redis accounts it asks every 5 s.
// Also: TestRemovedNodeExitsAndStaysDown, TestOnlyTheSignatureOfItsSupervisorEndsANode,
// TestRefusedNodeChecksItsMembership, TestNodeWithoutAccountAsksMoreOften,
// TestOtherEnvelopeDecidesNoMembership.
func TestRemovedNodeEndsWithItsOwnCode(t *testing.T) {
	t.Parallel()
	broker := testenv.RedisWithPassword(t)
	s := testcluster.New(t)
	absent, nodeAPI := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: broker.URL, Nodes: 2, Speed: "0", Listen: nodeAPI, NodeURL: "http://" + absent + ",http://" + nodeAPI})
	s.Script("long.tengo", "herodb := import(\"herodb\")\nx := herodb.create(\"slow-600-db\", {memory_mib: 64}, {node: \"dc1-n2\"}).address\n")
	run := string(s.Submit("long.tengo"))
	for !strings.Contains(s.Writ("run", "show", run, "-o", "json"), `"state": "running",`) {
		time.Sleep(100 * time.Millisecond) // until the node works on it
	}
	began := time.Now()
	s.Writ("node", "remove", "--yes", "dc1-n2")
	if list := s.Writ("node", "list"); strings.Contains(list, "dc1-n2") {
		t.Errorf("it is still listed:\n%s", list)
	}
	_, _, _ = s.Try("run", "watch", run) // it ends
	if why, _, _ := s.Try("run", "explain", run); !strings.Contains(why, "NODE_LOST") {
		t.Errorf("the run that it worked for is explained as:\n%s", why)
	}
	p := s.Procs["dc1-n2"]
	err := p.Wait()
	t.Logf("it ended after %s", time.Since(began).Round(10*time.Millisecond))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != writ.ExitRemoved {
		t.Errorf("it ended with %v", err)
	}
	if told := strings.Count(p.Said(), "node removed from its datacenter"); told != 1 {
		t.Errorf("removal logged %d times, want 1:\n%s", told, p.Said())
	}
	if said, code := s.RestartFails("dc1-n2"); code != writ.ExitRemoved || !strings.Contains(said, string(writ.CodeNodeRejected)) {
		t.Errorf("started again it ends with %d:\n%s", code, said)
	}
	s.Runs("dc1", "dc1-n1")
}

// refusesStrangers fails the test if a coordinator on loopback answers read requests without a login.
func refusesStrangers(t *testing.T, url string) {
	t.Helper()
	for _, path := range []string{"/v1/runs", "/", "/metrics"} {
		answer, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET %s without a login: %s", path, answer.Status)
		}
	}
}

// A cluster that an earlier version founded on loopback, without a coordinator in its roster, gets logins and TLS with
// one command and one restart.
func TestACoordinatorOnLoopbackGetsTLS(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	refusesStrangers(t, s.URL)
	if _, err := s.Client.Roster.Amend(t.Context(), func(next *identity.Roster) error { // as in earlier versions
		next.Coordinators = nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Dir, "cluster", "coordinator.key")); err != nil {
		t.Fatal(err)
	}
	s.Kill("coord")
	s.Restart("coord")
	s.Add(testcluster.Datacenter{Name: "east", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("x.tengo", "x := 1\n")
	before := s.Submit("x.tengo")
	s.Writ("run", "watch", string(before)) // the supervisor retries events that the coordinator missed

	port := testenv.FreePort(t)
	secure := fmt.Sprintf("https://localhost:%d", port)
	// The supervisor releases the old address.
	s.Writ("coordinator", "add", "coord1", "--url", secure, "--data", "cluster", "--no-wait")
	s.Kill("coord")
	s.Start("coord", "is listening", "coord", "--data", "cluster", "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	if out := s.Writ("run", "show", string(before), "--server", secure); !strings.Contains(out, "succeeded") {
		t.Errorf("the run from before:\n%s", out)
	}
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/runs", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest { // the answer to plain HTTP
		t.Errorf("without TLS: %s", answer.Status)
	}

	// Another coordinator replaces it. The command asks the new one, because the removed one does not learn which
	// datacenters have adopted the roster.
	second := fmt.Sprintf("https://localhost:%d", testenv.FreePort(t))
	s.Writ("coordinator", "add", "coord2", "--url", second, "--data", "coord2", "--server", secure)
	s.Start("coord2", "is listening", "coord", "--data", "coord2", "--listen", "127.0.0.1:"+second[len("https://localhost:"):])
	s.Until("the supervisor is linked to both", func(context.Context) bool {
		return strings.Contains(s.Writ("dc", "list", "--server", second), string(api.DatacenterHealthHealthy))
	})
	s.Writ("coordinator", "remove", "coord1")
	if out := s.Writ("coordinator", "list", "-o", "name"); strings.TrimSpace(out) != "coord2" {
		t.Errorf("there are\n%s", out)
	}
}
