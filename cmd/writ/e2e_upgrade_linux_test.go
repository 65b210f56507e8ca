package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
	"writ/sal/saltest"
)

// processesOf returns the pids and names of a node's processes other than its runner, and the first processes of its
// containers.
func processesOf(t *testing.T, data, containerd string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if args := strings.Split(string(line), "\x00"); strings.Contains(string(line), data+"/") {
			program, _, _ := strings.Cut(args[0], " ") // the name of a machine's process has a suffix
			all = append(all, filepath.Base(filepath.Dir(path))+" "+filepath.Base(program))
		}
	}
	tasks, err := exec.Command(testenv.Need(t, "ctr"), "-a", containerd, "-n", "writ", "tasks", "ls").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(tasks)), "\n")[1:] {
		all = append(all, "container "+strings.Join(strings.Fields(line), " "))
	}
	slices.Sort(all)
	return all
}

// An upgrade replaces the program of a node's runner. Everything else on the node continues.
//
// Promise: Machines and the overlay: An upgrade of a runner stops no resource: the next program adopts machines,
// containers and databases.
// How: They have their own sessions; the shipped unit has `KillMode=process`, and `writ doctor` warns of other units.
// Also: TestDoctorWarnsOfAUnitThatEndsMachinesWithTheirRunner, TestShippedUnitsAreValidAndKeepMachinesRunning,
// TestSettingsThatAreShippedAreSettings.
func TestResourcesOutliveTheUpgradeOfTheirRunner(t *testing.T) {
	testenv.Nightly(t, "the suite of each driver ends its runner and continues with its resources")
	for _, tool := range []string{"redis-server", "busybox", "ctr", "nft"} {
		testenv.Need(t, tool)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	containers, image := testenv.Containerd(t, ""), testenv.Busybox(t)
	redis := testenv.Redis(t)
	dir := testenv.Home(t, "w")
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	const version = "v2.0.0"
	if said, err := exec.Command("go", "build", "-ldflags", "-X main.release="+version, "-o", newer, "writ/cmd/writ").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	kernel := filepath.Join(files, "kernel")
	if err := os.Rename(guest.Tiny(t, guest.Wait), kernel); err != nil {
		t.Fatal(err)
	}
	s := testcluster.NewIn(t, dir, "PATH="+filepath.Dir(vmmstub.Build(t))+":"+os.Getenv("PATH"))
	data := filepath.Join(s.Dir, "dc1-n1")
	t.Cleanup(func() { endBelow(t, data) }) // a real mycelium outlives its runner
	testcluster.Groups(t, data)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: redis.URL, Nodes: 1, Speed: "0", Node: []string{
		"--drivers", "host", "--containerd", containers.Address, "--process-users", saltest.Accounts(data).Numbers(), "--container-ids", saltest.ContainerIDs(data).Numbers(),
		"--image-dir", filepath.Dir(image.Path), "--image-dir", files,
	}})
	t.Cleanup(func() { // before the processes end
		if t.Failed() {
			t.Logf("the node said:\n%s", read(t, filepath.Join(s.Dir, "dc1-n1.log")))
		}
	})
	const modules = `network := import("network")
image := import("image")
herodb := import("herodb")
container := import("container")
machine := import("machine")
`
	s.Script("make.tengo", modules+fmt.Sprintf(`
box := image.fetch("box", {url: "file://%s", sha256: "%s", format: "oci"})
kernel := image.fetch("kernel", {url: "file://%s", sha256: "%s"})
lan := network.create("lan", {})
container.create("web", {image: box, memory_mib: 64, networks: [lan]})
herodb.create("db", {memory_mib: 64, engines: ["redis-server"], network: lan})
machine.create("vm", {cpus: 1, memory_mib: 128, kernel: kernel})
`, image.Path, image.SHA256, kernel, sha256Of(t, kernel)))
	s.Writ("submit", "make.tengo")
	before := processesOf(t, data, containers.Address)
	for _, name := range []string{"cloud-hypervisor", "redis-server", "container"} {
		if !strings.Contains(strings.Join(before, "\n"), name) {
			t.Fatalf("no %s among %q", name, before)
		}
	}

	runner := s.Procs["dc1-n1"]
	if err := runner.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := runner.Wait(); err != nil {
		t.Errorf("the older one ended with %v", err)
	}
	if diff := cmp.Diff(before, processesOf(t, data, containers.Address)); diff != "" {
		t.Errorf("without a runner: %s", diff)
	}
	s.Use(newer)
	s.Restart("dc1-n1")
	s.Says(0, []string{"version " + version, "ready"}, "node", "show", "dc1-n1")
	s.Script("use.tengo", modules+`
run := import("run")
said := container.exec("web", {command: ["echo", "still here"]})
machine.pause("vm")
machine.resume("vm")
run.output({said: said.stdout, db: herodb.get("db").port})
`)
	if said := s.Writ("submit", "use.tengo"); !strings.Contains(said, "still here") {
		t.Errorf("it said %s", said)
	}
	if diff := cmp.Diff(before, processesOf(t, data, containers.Address)); diff != "" {
		t.Errorf("with the newer one: %s", diff)
	}
	if said := s.Writ("resource", "list", "--drifted", "-o", "name"); strings.TrimSpace(said) != "" {
		t.Errorf("something is not as it should be: %s", said)
	}
	s.Script("remove.tengo", modules+`
gone := [machine.delete("vm"), container.delete("web"), herodb.delete("db")]
for g in gone { e := g.err; if e { import("run").fail(e.message) } }
`)
	s.Writ("submit", "remove.tengo", "--destructive")
	after := slices.DeleteFunc(processesOf(t, data, containers.Address), func(p string) bool { return strings.HasSuffix(p, " mycelium") })
	if len(after) > 0 { // the overlay belongs to the node and remains
		t.Errorf("these are left: %q", after)
	}
}
