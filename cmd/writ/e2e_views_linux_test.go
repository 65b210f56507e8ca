package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/sal/saltest"
)

// TestFindingsOfANodeReachPeople damages resources on a node without writ, and checks all views for users: state,
// addresses, drift, repairs, orphans, and the remains of a delete. A node inspects its resources when its runner
// starts.
func TestFindingsOfANodeReachPeople(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"redis-server", "nft"} {
		testenv.Need(t, tool)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	s := testcluster.NewIn(t, vmmstub.Passable(t))
	const node = "dc1-n1"
	testcluster.Groups(t, filepath.Join(s.Dir, node))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0",
		Node: []string{"--drivers", "host", "--process-users", saltest.Accounts(s.Dir).Numbers(), "--container-ids", saltest.ContainerIDs(s.Dir).Numbers()}})
	t.Cleanup(func() { endBelow(t, filepath.Join(s.Dir, node)) })
	again := func(meanwhile func()) {
		t.Helper()
		s.Kill(node)
		meanwhile()
		s.Restart(node)
	}
	succeeds := func(name, script string, args ...string) {
		t.Helper()
		s.Script(name, script)
		s.Writ(append([]string{"submit", name}, args...)...)
	}

	succeeds("make.tengo", `
volume := import("volume")
herodb := import("herodb")
volume.create("data", {size_gib: 1})
volume.create("held", {size_gib: 1})
lan := import("network").create("lan", {})
herodb.create("db", {memory_mib: 64, engines: ["redis-server"], network: lan})
`)
	for _, want := range []string{`(?m)^herodb +db +running +\S+:6379 +default +dc1 +dc1-n1 `, `(?m)^volume +data +ready +- +default +dc1 `} {
		s.Until("it says "+want, func(context.Context) bool { return regexp.MustCompile(want).MatchString(s.Writ("resource", "list")) })
	}
	trees := filepath.Dir(one(t, filepath.Join(s.Dir, node), "v"+"??????????"))
	place := func(name string) string {
		t.Helper()
		run := strings.TrimSpace(s.Writ("run", "list", "--limit", "1", "-o", "name"))
		found := regexp.MustCompile(`"path": "([^"]+)"`).FindAllStringSubmatch(s.Writ("run", "show", run, "--values", "-o", "json"), -1)
		return found[map[string]int{"data": 0, "held": 1}[name]][1]
	}
	data, held := place("data"), place("held")
	stray := filepath.Join(trees, "vaaaaaaaaaa")
	again(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(stray, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(serving(t, filepath.Join(s.Dir, node)), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	s.Says(0, []string{"it is running, at ", "mended "}, "resource", "show", "herodb/db")
	s.Says(0, []string{"it is gone", "drift: its content is gone"}, "resource", "show", "volume/data")
	s.Says(0, []string{"1 orphan on " + node + ": `writ resource list --orphans`"}, "resource", "list")
	s.Says(0, []string{"orphan: the tree " + stray}, "node", "show", node)
	s.Says(0, []string{`"remedy": "rm -r ` + stray + `"`, `"number": 1`}, "resource", "list", "-o", "json")
	s.Kill("dc1") // the next supervisor knows the findings, too
	s.Restart("dc1")
	s.Says(0, []string{"drift: its content is gone"}, "resource", "show", "volume/data")

	// A script that requests the resource again creates it: the plan shows that, with the finding of the node, and so
	// does the run.
	s.Script("data.tengo", "import(\"volume\").create(\"data\", {size_gib: 1})\n")
	s.Says(writ.ExitPlanChanges, []string{"+ 1 volume.create data", "drift: its content is gone: missing directory " + data, "1 to create"}, "plan", "data.tengo", "--exit-code")
	s.Writ("submit", "data.tengo")
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	s.Says(0, []string{"it is ready"}, "resource", "show", "volume/data")
	s.Says(0, []string{"1 unchanged"}, "plan", "data.tengo", "--exit-code")

	// Resources that a delete cannot remove are listed until the node has removed them.
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", held).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(held, syscall.MNT_DETACH) })
	s.Script("delete.tengo", "volume := import(\"volume\")\nvolume.delete(\"held\", {}, {retries: 0})\n")
	if _, said, code := s.Try("submit", "delete.tengo", "--destructive"); code == 0 || !strings.Contains(said, "busy") {
		t.Errorf("exit %d:\n%s", code, said)
	}
	again(func() {})
	s.Says(0, []string{"it is deleting", "drift: maintenance failed", "busy"}, "resource", "show", "volume/held")
	again(func() {
		if err := syscall.Unmount(held, 0); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("sh", "-c", "rm -r "+stray).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	s.Says(writ.ExitNotFound, []string{"unknown volume held"}, "resource", "show", "volume/held")
	s.Until("the list without orphans", func(context.Context) bool { return !strings.Contains(s.Writ("resource", "list"), "orphan") })
	succeeds("delete.tengo", "volume := import(\"volume\")\nherodb := import(\"herodb\")\nvolume.delete(\"data\")\nif herodb.delete(\"db\").err == undefined { import(\"network\").delete(\"lan\") }\n", "--destructive")
}

// one returns a directory that matches a pattern.
func one(t *testing.T, dir, pattern string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if is, _ := filepath.Match(pattern, filepath.Base(path)); is && err == nil && e.IsDir() {
			found = path
		}
		return nil
	})
	if err != nil || found == "" {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return found
}

// serving returns the process of a node's database engine.
func serving(t *testing.T, dir string) int {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		args, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(string(args), dir+"/") && strings.Contains(strings.SplitN(string(args), "\x00", 2)[0], "redis-server") {
			return pid
		}
	}
	t.Fatal("no engine serves")
	return 0
}
