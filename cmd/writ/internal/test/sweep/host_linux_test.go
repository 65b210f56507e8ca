package sweep

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/failpoint"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
	"writ/sal/saltest"
)

// act is one action of a script on a host, or a command of a person.
type act struct {
	name    string
	text    string   // of the script
	keep    bool     // complete only after the runner has reconciled its resources, as it does at its start
	flags   []string // of `writ submit`, in addition to --destructive
	command []string // arguments of writ; no script is submitted
}

// tale is a sequence of acts that leaves no resources.
type tale struct {
	name string
	acts []act
}

// tales contain every driver operation that changes a host, except volume.copy, which equals volume.clone with a single
// node.
func tales(h *hostCluster) []tale {
	const again = ", {idempotent: true})" // operations without automatic retries are harmless to repeat here
	bootable, raw, qcow2 := filepath.Join(h.Dir, "kernel.raw"), filepath.Join(h.Dir, "disk.raw"), filepath.Join(h.Dir, "disk.qcow2")
	boots, err := os.ReadFile(guest.Tiny(h.t, guest.Wait))
	if err != nil {
		h.t.Fatal(err)
	}
	h.Script("kernel.raw", string(boots))
	h.Script("disk.raw", strings.Repeat("content of disk ", 4096))
	if said, err := exec.Command(testenv.Need(h.t, "qemu-img"), "convert", "-f", "raw", "-O", "qcow2", raw, qcow2).CombinedOutput(); err != nil {
		h.t.Fatalf("qemu-img: %v\n%s", err, said)
	}
	kernel := h.fetch("kernel", "raw", bootable)
	return []tale{
		{"network", []act{
			{name: "network.create", text: `network.create("lan", {ipv4: "10.77.0.0/24"})`},
			{name: "network.allow", text: `network.allow("lan", {rules: [{protocol: "tcp", ports: [80]}]})`},
			{name: "network.delete", text: `network.delete("lan")`},
		}},
		{"storage", []act{
			{name: "image.fetch", text: h.fetch("base", "raw", raw)},
			{name: "volume.create", text: `volume.create("data", {size_gib: 1})`},
			{name: "volume.create filled", text: `volume.create("disk", {size_gib: 1, image: "base"})`},
			{name: "volume.create bigger", text: `volume.create("data", {size_gib: 2})`},
			{name: "volume.resize", text: `volume.resize("disk", {size_gib: 2})`},
			{name: "volume.snapshot", text: `volume.snapshot("disk", {snapshot: "s"})`},
			{name: "volume.clone", text: `volume.clone("copy", {from: volume.get("disk")})`},
			{name: "volume.clone of a snapshot", text: `volume.clone("old", {from: volume.get("disk"), snapshot: "s"})`},
			{name: "volume.send", text: `volume.send("disk", {backup: "b"}` + again},
			{name: "volume.receive", text: `volume.receive("back", {backup: "b", size_gib: 3})`},
			{name: "volume.discard", text: `volume.discard("disk", {backup: "b"})`},
			{name: "volume.restore", text: `volume.restore("disk", {snapshot: "s"}` + again},
			{name: "volume.delete_snapshot", text: `volume.delete_snapshot("disk", {snapshot: "s"})`},
			{name: "volume.delete", text: `for name in ["data", "disk", "copy", "old", "back"] { volume.delete(name) }`},
			{name: "image.fetch converted", text: h.fetch("other", "qcow2", qcow2)},
			{name: "image.delete", text: `image.delete("base"); image.delete("other")`},
		}},
		{"container", []act{
			{name: "container ground", text: `network.create("lan", {}); network.create("back", {}); volume.create("files", {size_gib: 1})`},
			{name: "image.fetch oci", text: h.fetch("box", "oci", h.image.Path)},
			{name: "container.create", text: `container.create("web", {image: image.get("box"), devices: ["disk"], networks: [network.get("lan"), network.get("back")], volumes: [{volume: volume.get("files"), path: "/files"}], files: {"/etc/app": {text: "a", on_change: "none"}}, memory_mib: 64})`},
			{name: "container.create with another file", text: `container.create("web", {image: image.get("box"), devices: ["disk"], networks: [network.get("lan"), network.get("back")], volumes: [{volume: volume.get("files"), path: "/files"}], files: {"/etc/app": {text: "b", on_change: "none"}}, memory_mib: 64})`},
			{name: "container.exec", text: `container.exec("web", {command: ["id"]}` + again},
			{name: "container.run", text: `container.run("job", {image: image.get("box"), command: ["sh", "-c", "echo ran >/files/ran"], networks: [network.get("lan")], volumes: [{volume: volume.get("files"), path: "/files"}], memory_mib: 64})`},
			{name: "container.create changed", text: `container.create("web", {image: image.get("box"), devices: ["disk"], networks: [network.get("lan"), network.get("back")], volumes: [{volume: volume.get("files"), path: "/files"}], files: {"/etc/app": "c"}, memory_mib: 32, env: {A: "b"}})`},
			{name: "container.stop", text: `container.stop("web", {grace_seconds: 5})`},
			{name: "container.start", text: `container.start("web")`},
			{name: "container.stop at once", text: `container.stop("web", {grace_seconds: 0})`},
			{name: "container.delete", text: `container.delete("web")`},
			{name: "container clearing", text: `image.delete("box"); volume.delete("files"); network.delete("lan"); network.delete("back")`},
		}},
		{"service", []act{
			{name: "service ground", text: h.fetch("box", "oci", h.image.Path)},
			{name: "container.create", text: served("tcp: 80", "")},
			{name: "container.create handed over", text: served("tcp: 80", "A: \"b\"")},
			{name: "container.create unhealthy", text: "c := " + served("tcp: 81, start_seconds: 1, retries: 1", `A: "c"`) + "; if !c.err { [][0].it_is_healthy }"},
			{name: "container.delete", text: `container.delete("site")`},
			{name: "service clearing", text: `image.delete("box")`},
		}},
		h.deployment(),
		{"database", []act{
			{name: "database ground", text: `network.create("lan", {})`},
			{name: "herodb.create", text: `herodb.create("db", {memory_mib: 32, persist: true, network: network.get("lan"), engines: ["redis-server"]})`},
			{name: "herodb.create changed", text: `herodb.create("db", {memory_mib: 64, size_gib: 2, persist: true, network: network.get("lan"), engines: ["redis-server"]})`},
			{name: "herodb.backup", text: `herodb.backup("db", {backup: "b"})`},
			{name: "herodb.restore", text: `herodb.restore("db", {backup: "b"}` + again},
			{name: "herodb.delete_backup", text: `herodb.delete_backup("db", {backup: "b"})`},
			{name: "herodb.rotate_secret", text: `herodb.rotate_secret("db", {}` + again},
			{name: "herodb.delete", text: `herodb.delete("db")`},
			{name: "herodb.create at the host", text: `herodb.create("here", {memory_mib: 32, engines: ["redis-server"]})`},
			{name: "herodb.delete at the host", text: `herodb.delete("here")`},
			{name: "database clearing", text: `network.delete("lan")`},
		}},
		{"machine", []act{
			{name: "machine ground", text: `network.create("lan", {}); volume.create("root", {size_gib: 1}); volume.create("more", {size_gib: 1}); ` + kernel},
			{name: "machine.create", text: `machine.create("vm", {cpus: 1, memory_mib: 256, kernel: "kernel", networks: [network.get("lan")], disks: [volume.get("root")], cloud_init: "#cloud-config"})`},
			{name: "machine.pause", text: `machine.pause("vm")`},
			{name: "machine.resume", text: `machine.resume("vm")`},
			{name: "machine.resize", text: `machine.resize("vm", {cpus: 2, memory_mib: 512})`},
			{name: "volume.resize of a machine's", text: `volume.resize("root", {size_gib: 2})`, keep: true},
			{name: "machine.attach", text: `machine.attach("vm", {volume: volume.get("more")})`},
			{name: "machine.detach", text: `machine.detach("vm", {volume: volume.get("more")})`},
			{name: "machine.snapshot", text: `machine.snapshot("vm", {snapshot: "s"})`},
			{name: "machine.restore", text: `machine.restore("vm", {snapshot: "s"}` + again},
			{name: "machine.delete_snapshot", text: `machine.delete_snapshot("vm", {snapshot: "s"})`},
			{name: "machine.stop", text: `machine.stop("vm", {grace_seconds: 5})`},
			{name: "machine.start", text: `machine.start("vm")`},
			{name: "machine.delete", text: `machine.delete("vm")`},
			{name: "machine clearing", text: `volume.delete("root"); volume.delete("more"); image.delete("kernel"); network.delete("lan")`},
		}},
	}
}

// served returns the call that creates a container with a shared port and a health check.
func served(check, env string) string {
	return fmt.Sprintf(`container.create("site", {image: image.get("box"), command: ["sh", "-c", "exec httpd -f -p 80"], memory_mib: 32, env: {%s}, publish: [{port: 20080, to: 80, share: "site"}], health: {%s, interval_seconds: 1, timeout_seconds: 1}})`, env, check)
}

// hostCluster is a datacenter with one node that changes its host.
type hostCluster struct {
	*testcluster.Cluster
	t          *testing.T
	data       string // of the node, on a separate disk
	containers *testenv.ContainerdServer
	image      testenv.Archive
	registry   *ociregistry.Server
	disturb    func()   // is called while a run is open, if it is set
	names      []string // of all resources on hosts so far
	noted      string   // file with the steps taken without interruption
	count      int      // number of scripts
	ends       int      // number of ends of the runner
}

// newHostCluster starts a datacenter whose node stores its files on btrfs or in plain directories.
func newHostCluster(t *testing.T, onBtrfs bool) *hostCluster {
	t.Helper()
	redis := testenv.Redis(t)
	dir := testenv.Home(t, "w")
	h := &hostCluster{t: t, containers: testenv.Containerd(t, ""), image: testenv.Busybox(t)}
	h.registry = ociregistry.StartPlain(t)
	vmm := vmmstub.Build(t)
	tools := t.TempDir()
	if said, err := exec.Command("go", "build", "-o", filepath.Join(tools, "mycelium"), "writ/internal/test/myceliumstub/mycelium").CombinedOutput(); err != nil {
		t.Fatalf("build the stub of mycelium: %v\n%s", err, said)
	}
	t.Setenv("PATH", filepath.Dir(vmm)+":"+tools+":"+os.Getenv("PATH"))
	disk := filepath.Join(dir, "d")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if onBtrfs {
		testenv.NewBtrfs(t, disk, 4096)
	}
	for _, above := range []string{dir, disk} { // so that processes can run as separate users
		if err := os.Chmod(above, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	content := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(content, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h.data = filepath.Join(disk, "n")
	testcluster.Groups(t, h.data)
	t.Cleanup(h.endAll)
	h.Cluster = testcluster.NewTagged(t, "failpoints")
	h.noted = filepath.Join(h.Dir, "noted.steps")
	h.Add(testcluster.Datacenter{Name: supervisor, Redis: redis.URL, Nodes: 1, Speed: "0", Node: []string{
		"--data", h.data, "--drivers", "host", "--containerd", h.containers.Address, "--log-level", "debug",
		// Otherwise another node of this host may use the default ranges.
		"--process-users", saltest.Accounts(h.data).Numbers(), "--container-ids", saltest.ContainerIDs(h.data).Numbers(),
		"--image-dir", h.Dir, "--image-dir", filepath.Dir(h.image.Path), "--publish", "127.0.0.1:20080,20081",
		"--registry", h.registry.Host, "--device", "disk=" + testenv.Attach(t, content),
	}})
	// The first start again, with ends: the runner creates its overlay key and starts the daemon.
	h.Kill(node)
	h.endAll()
	if err := os.RemoveAll(filepath.Join(h.data, "host", "mycelium")); err != nil {
		t.Fatal(err)
	}
	ends := filepath.Join(h.Dir, "start.ends")
	h.arm(ends)
	h.awaitLook(ends)
	h.rearm("")
	return h
}

// endAll ends the processes that outlive a runner and use its disk.
func (h *hostCluster) endAll() {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid <= 1 || pid == os.Getpid() || !strings.Contains(string(text), h.data+"/") {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

// named returns a pattern for objects that are named after resources of this node, on a host with other users.
func (h *hostCluster) named() string {
	records, _ := filepath.Glob(filepath.Join(h.data, "host", "*", "records", "*.json"))
	for _, r := range records {
		if name := strings.TrimSuffix(filepath.Base(r), ".json"); !slices.Contains(h.names, name) {
			h.names = append(h.names, name)
		}
	}
	return strings.Join(append([]string{"no resource"}, h.names...), `\|`)
}

var modules = regexp.MustCompile(`\b(network|volume|image|container|herodb|machine)\.`)

// carry runs the script of an act to completion. If ends is not empty, the runner ends before each step that is not in
// that file, and is restarted.
func (h *hostCluster) carry(a act, ends string) {
	h.t.Helper()
	if a.command != nil {
		h.carryCommand(a, ends)
		return
	}
	h.count++
	name := fmt.Sprintf("act%d.tengo", h.count)
	var text strings.Builder
	used := modules.FindAllStringSubmatch(a.text, -1)
	for _, m := range []string{"network", "volume", "image", "container", "herodb", "machine"} {
		if slices.ContainsFunc(used, func(u []string) bool { return u[1] == m }) {
			fmt.Fprintf(&text, "%s := import(%q)\n", m, m)
		}
	}
	h.Script(name, text.String()+a.text+"\n")
	begun, before := time.Now(), h.ends
	id := h.Submit(append([]string{name, "--destructive"}, a.flags...)...)
	var run api.Run
	for late := time.Now().Add(testcluster.Patience); ; {
		if h.tend(ends) {
			late = time.Now().Add(testcluster.Patience)
		}
		if h.disturb != nil {
			h.disturb()
		}
		var err error
		if run, err = api.Answer[api.Run](h.Client.API.GetRun(h.t.Context(), id)); err == nil && ended[string(run.State)] {
			break
		}
		if time.Now().After(late) {
			h.t.Fatalf("%s does not end:\n%s", a.name, tail(h.Procs[node].Said()))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if string(run.State) != string(writ.RunSucceeded) {
		said, _, _ := h.Try("run", "show", string(id))
		h.t.Errorf("%s is %s: %s", a.name, run.State, said)
	}
	if a.keep {
		h.rearm(ends)
		h.awaitLook(ends)
	}
	h.t.Logf("%s: %d ends in %v", a.name, h.ends-before, time.Since(begun).Round(time.Millisecond))
}

// arm starts the runner. It ends before each step that is missing in a file, or records its steps.
func (h *hostCluster) arm(ends string) {
	h.t.Helper()
	if ends == "" {
		h.Launch(node, failpoint.Variable+"="+failpoint.Noted+":"+h.noted)
		return
	}
	h.Launch(node, failpoint.Variable+"="+failpoint.Steps+":"+ends)
}

// rearm ends the runner, unless it has just ended, and restarts it.
func (h *hostCluster) rearm(ends string) {
	h.t.Helper()
	p := h.Procs[node]
	_ = p.Cmd.Process.Kill()
	_ = p.Wait()
	h.arm(ends)
}

var lookedAfter = regexp.MustCompile(`msg="findings reported".* round=1 mended=(\d+) drifted=(\d+) orphans=(\d+)`)

// sound restarts the runner and fails the test unless it finds all resources as requested.
func (h *hostCluster) sound(when string) {
	h.t.Helper()
	h.rearm("")
	if found := h.awaitLook(""); strings.Join(found[1:], " ") != "0 0 0" {
		h.t.Errorf("%s: %s\n%s", when, found[0], h.Procs[node].Said())
	}
}

// awaitLook waits until the runner has reconciled its resources and returns its findings.
func (h *hostCluster) awaitLook(ends string) (found []string) {
	h.t.Helper()
	h.Until("the runner has looked after its resources", func(context.Context) bool {
		h.tend(ends)
		found = lookedAfter.FindStringSubmatch(h.Procs[node].Said())
		return found != nil
	})
	return found
}

// tend restarts the runner if it has ended, and reports whether it had.
func (h *hostCluster) tend(ends string) bool {
	h.t.Helper()
	p := h.Procs[node]
	if !p.Ended() {
		return false
	}
	if !strings.Contains(p.Said(), "failpoint step/") {
		h.t.Fatalf("the runner ended: %v\n%s", p.Err, tail(p.Said()))
	}
	h.ends++
	h.arm(ends)
	return true
}

// variable matches values that differ each time: addresses, ids, names derived from ids, numbers.
var variable = regexp.MustCompile(`\b[0-9a-f]{12,}\b|[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,}|\b[a-z][a-z2-7]{10}|[0-9a-f]{6,}|[0-9]+`)

// traces lists links, addresses, rules, namespaces, mounts, processes, groups and files on the host and objects in
// containerd. It omits values that differ each time, and unfinished record files, which are ignored and removed with
// their record.
func (h *hostCluster) traces() []string {
	h.t.Helper()
	var all []string
	ctr := "ctr -a " + h.containers.Address + " -n writ "
	for _, look := range []string{
		"ip -o link | sed 's/^[0-9]*: //; s/ .*//'", "ip -6 -o addr | grep -v fe80", "ip -4 -o addr", "ip -6 route | grep -v fe80 | sed 's/ linkdown//'", "ip -6 rule", "nft list ruleset", "ip netns list",
		"cut -d' ' -f2 /proc/mounts | grep '" + filepath.Dir(h.containers.Address) + "\\|" + h.data + "\\|/run/netns'",
		"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | cut -c1-300; echo; done 2>/dev/null | grep '" + h.data + "/\\|mycelium\\|containerd-shim\\|" + h.containers.Address + "' | grep -v ' runner \\|grep\\|containerd -c'",
		"cd " + h.data + "/host && find . -not -type d -not -name '*.log*' | grep -v '/events-\\|/records/.*\\.tmp$'", "btrfs subvolume list " + h.data,
		"find /sys/fs/cgroup /run/containerd/runc -type d | grep '" + h.named() + "'",
		ctr + "containers ls -q", ctr + "tasks ls -q", ctr + "images ls -q", ctr + "snapshots ls | awk '{print $1}'", ctr + "content ls -q", ctr + "leases ls -q",
	} {
		said, _ := exec.Command("sh", "-c", look).Output()
		lines := strings.Split(variable.ReplaceAllString(string(said), "#"), "\n")
		slices.Sort(lines)
		all = append(append(all, "== "+strings.Replace(look, h.named(), "names", 1)), lines...)
	}
	return all
}

// TestARunnerMayEndBeforeEveryStepOfItsDrivers ends a runner with real drivers before every step of a driver, restarts
// it, and checks that the host is in the same state as without interruption. The short form runs every step, but ends
// the runner only before the steps of some acts and before a few steps of creating and deleting acts, selected by the
// seed.
//
// Promise: Limits and shares: A node process may repeatedly end before any change of its host: the call completes
// without leftovers, duplicates or drift.
// How: Every driver records before it acts and names each step; a test build ends itself before each.
func TestARunnerMayEndBeforeEveryStepOfItsDrivers(t *testing.T) {
	testenv.Nightly(t, "the conformance suite disturbs every driver at its steps, and TestAScriptWorksOnRealDrivers of cmd/writ uses them together")
	for _, tool := range []string{"nft", "redis-server", "busybox", "mkfs.btrfs", "btrfs", "qemu-img", "containerd", "runc", "ctr"} {
		testenv.Need(t, tool)
	}
	testenv.NeedTaps(t)
	if !testcluster.Alone(t, "failpoints", "-seed", fmt.Sprint(luck(t)), "-only", *only) {
		return
	}
	long := testenv.IsLong()
	random := rand.New(rand.NewPCG(*seed, 0))
	// Steps taken without interruption, and steps at which the runner ended.
	taken, ended := map[string]bool{}, map[string]bool{}
	for _, kind := range []string{"btrfs", "directory"} {
		t.Run(kind, func(t *testing.T) {
			h := newHostCluster(t, kind == "btrfs")
			h.carry(act{name: "warming up", text: h.fetch("first", "oci", h.image.Path) + `; image.delete("first")`}, "")
			h.sound("at first") // objects that are created only once exist
			all := tales(h)
			if kind == "directory" { // the other tales do not depend on the kind
				all = slices.DeleteFunc(all, func(s tale) bool { return s.name != "storage" && s.name != "database" })
			}
			story := all[random.IntN(len(all))]
			chosen := map[string]bool{}
			for range shortActs {
				chosen[story.acts[random.IntN(len(story.acts))].name] = true
			}
			disturbed := func(act string) endings {
				switch {
				case long || *only != "" || chosen[act]:
					return beforeAll
				case kind == "btrfs" && makesOrTakes.MatchString(act):
					return beforeSome
				default:
					return never
				}
			}
			for _, story := range all {
				if strings.Contains(story.name, *only) {
					h.tell(story, random, disturbed)
				}
			}
			for pattern, steps := range map[string]map[string]bool{"*.steps": taken, "*.ends": ended} {
				files, _ := filepath.Glob(filepath.Join(h.Dir, pattern))
				for _, file := range files {
					read(t, steps, file)
				}
			}
			t.Logf("the runner ended %d times", h.ends)
		})
	}
	if *only == "" {
		everyStep(t, taken, ended, long)
	}
}

// endings selects the steps of an act before which the runner ends.
type endings int

const (
	never endings = iota
	beforeSome
	beforeAll
)

const (
	shortActs  = 1 // maximum number of acts per tale with ends before all steps, in the short form
	shortSteps = 2 // steps of other acts with ends, including steps that occur only because of ends
)

// makesOrTakes matches acts that create or delete a resource.
var makesOrTakes = regexp.MustCompile(`^[a-z]+\.(fetch|create|delete)$`)

// tell runs a tale, first without interruption.
func (h *hostCluster) tell(story tale, random *rand.Rand, disturbed func(act string) endings) {
	h.t.Helper()
	want := map[string][]string{}
	for _, a := range story.acts {
		if disturbed(a.name) == beforeSome {
			h.carryNoting(a, h.stepsOf(story, a))
		} else {
			h.carry(a, "")
		}
		want[a.name] = h.traces()
	}
	h.dropArchives()
	if !slices.ContainsFunc(story.acts, func(a act) bool { return disturbed(a.name) != never }) {
		return
	}
	for _, a := range story.acts {
		how := disturbed(a.name)
		if how == never {
			h.carry(a, "")
			continue
		}
		ends := filepath.Join(h.Dir, story.name+"-"+a.name+".ends")
		if how == beforeSome {
			h.spare(ends, h.stepsOf(story, a), random)
		}
		h.rearm(ends)
		h.carry(a, ends)
		h.sound(a.name)
		if diff := cmp.Diff(want[a.name], h.traces()); diff != "" {
			h.t.Errorf("after %s something is otherwise than without ends:\n%s", a.name, diff)
		}
	}
	if diff := cmp.Diff(want[story.acts[len(story.acts)-1].name], h.traces()); diff != "" {
		h.t.Errorf("after %s something is left behind:\n%s", story.name, diff)
	}
	h.dropArchives()
}

// carryNoting runs an act without interruption and records its steps in a file.
func (h *hostCluster) carryNoting(a act, steps string) {
	h.t.Helper()
	noted := h.noted
	h.noted = steps
	h.rearm("")
	h.carry(a, "")
	h.noted = noted
	h.rearm("")
}

// stepsOf returns the file with the steps of an act.
func (h *hostCluster) stepsOf(story tale, a act) string {
	return filepath.Join(h.Dir, story.name+"-"+a.name+".steps")
}

// spare marks all steps of an act as done in the file ends, except for a few.
func (h *hostCluster) spare(ends, steps string, random *rand.Rand) {
	h.t.Helper()
	text, err := os.ReadFile(steps)
	if err != nil {
		h.t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if err := os.WriteFile(ends, []byte(strings.Join(lines[min(shortSteps, len(lines)):], "")), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// dropArchives removes archives of volumes, which no operation deletes.
func (h *hostCluster) dropArchives() {
	h.t.Helper()
	archives, _ := filepath.Glob(filepath.Join(h.data, "host", "*", "backups", "*", "*"))
	for _, path := range archives {
		if err := os.Remove(path); err != nil {
			h.t.Error(err)
		}
	}
}

// fetch returns the call that fetches a file of the host as an image.
func (h *hostCluster) fetch(name, format, path string) string {
	h.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`image.fetch("%s", {url: "file://%s", sha256: "%x", format: "%s"})`, name, path, sha256.Sum256(text), format)
}
