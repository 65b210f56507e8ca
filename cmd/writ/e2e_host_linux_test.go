package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
	"writ/sal/saltest"
)

// onHost is a cluster in one process whose node has real drivers.
type onHost struct {
	*testing.T
	binary     string
	env        []string
	dir        string
	containers *testenv.ContainerdServer
}

// command returns a command line of the program.
func (h *onHost) command(args ...string) *exec.Cmd {
	c := exec.Command(h.binary, args...)
	c.Env = h.env
	return c
}

// commandAsUnit is command with the capabilities of a systemd unit and no new privileges.
func (h *onHost) commandAsUnit(unit string, args ...string) *exec.Cmd {
	h.Helper()
	bounds := "-all"
	for line := range strings.Lines(read(h.T, unit)) {
		names, is := strings.CutPrefix(strings.TrimSpace(line), "CapabilityBoundingSet=CAP_")
		if is {
			bounds += ",+" + strings.ToLower(strings.ReplaceAll(names, " CAP_", ",+"))
		}
	}
	if bounds == "-all" {
		h.Fatalf("%s does not bound the capabilities of the runner", unit)
	}
	c := exec.Command(testenv.Need(h, "setpriv"), append([]string{"--no-new-privs", "--bounding-set", bounds, "--inh-caps", "-all", "--", h.binary}, args...)...)
	c.Env = h.env
	return c
}

// start runs `writ dev` with real drivers until the test ends or stop is called. Later commands use its context.
func (h *onHost) start(data string, flags ...string) (stop func()) {
	h.Helper()
	log := filepath.Join(h.dir, "dev.log")
	out, err := os.Create(log)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = out.Close() })
	dev := h.commandAsUnit(filepath.Join("../../deploy/systemd", "writ-runner.service"), append([]string{
		"dev", "--data", data, "--drivers", "host", "--containerd", h.containers.Address, "--listen", "127.0.0.1:0", "--log-level", "info",
		"--process-users", saltest.Accounts(data).Numbers(), "--container-ids", saltest.ContainerIDs(data).Numbers(),
	}, flags...)...)
	dev.Stdout, dev.Stderr = out, out
	if err := dev.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { endBelow(h.T, data) }) // a real mycelium outlives the runner
	stop = sync.OnceFunc(func() {
		_ = dev.Process.Signal(os.Interrupt)
		_ = dev.Wait()
	})
	h.Cleanup(stop)
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("dev said:\n%s", read(h.T, log))
		}
	})
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if found := regexp.MustCompile(`export WRIT_CONFIG=(\S+)`).FindStringSubmatch(read(h.T, log)); found != nil {
			h.env = append(h.env, "WRIT_CONFIG="+found[1])
			return stop
		}
		if time.Now().After(end) {
			h.Fatal("dev does not start")
		}
	}
}

// ok runs the program, which must succeed, and returns its output.
func (h *onHost) ok(args ...string) string {
	h.Helper()
	said, err := h.command(args...).CombinedOutput()
	if err != nil {
		h.Fatalf("writ %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// submit runs a script to its end and returns the output of the command. The script may destroy the resources that it
// names.
func (h *onHost) submit(script string, flags ...string) string {
	h.Helper()
	file := filepath.Join(h.dir, "script.tengo")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		h.Fatal(err)
	}
	return h.ok(append([]string{"submit", file, "--destructive"}, flags...)...)
}

// traces describes the state of the host: links, addresses, rules, namespaces, mounts, processes of the drivers,
// subvolumes and files of the node, and the objects in containerd.
func (h *onHost) traces(data string) string {
	h.Helper()
	var all strings.Builder
	ctr := "ctr -a " + h.containers.Address + " -n writ "
	for _, look := range []string{
		"ip -o link | sed 's/^[0-9]*: //; s/ .*//'", "ip -6 -o addr | sed 's/^[0-9]*: //' | grep -v fe80", "nft list ruleset", "ip netns list | sort",
		// Other tests that run now have mounts in the temporary directory, and in their directories in memory. The next
		// line has the mounts of this test.
		"grep writ /proc/mounts | cut -d' ' -f2 | grep -v '^" + os.TempDir() + "/\\|^/dev/shm/writ-test-' | sort",
		"grep '" + filepath.Dir(data) + "' /proc/mounts | cut -d' ' -f2 | sort",
		"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep '" + data + "/' | grep -v 'writ dev\\|grep' | sort",
		"find " + data + " -path '*/host/*' -not -type d | sort", "btrfs subvolume list " + filepath.Dir(data) + " | sed 's/.* path //' | sort",
		"grep '" + filepath.Dir(h.containers.Address) + "' /proc/mounts | cut -d' ' -f2 | sort",
		ctr + "containers ls -q", ctr + "tasks ls -q", ctr + "images ls -q", ctr + "snapshots ls | awk '{print $1}'", ctr + "content ls -q", ctr + "leases ls -q",
	} {
		said, _ := exec.Command("sh", "-c", look).CombinedOutput()
		fmt.Fprintf(&all, "== %s\n%s", look, said)
	}
	fmt.Fprintf(&all, "== control groups of databases and machines\n%s\n", strings.Join(testcluster.GroupsIn(h, filepath.Join(data, "local", "n1")), "\n"))
	return all.String()
}

// groupsOfContainers returns the control groups of the containers at the daemon.
func (h *onHost) groupsOfContainers() (dirs []string) {
	h.Helper()
	ids, err := exec.Command(testenv.Need(h, "ctr"), "-a", h.containers.Address, "-n", "writ", "containers", "ls", "-q").Output()
	if err != nil {
		h.Fatal(err)
	}
	for id := range strings.FieldsSeq(string(ids)) {
		for _, pattern := range []string{"writ", "*/writ"} {
			found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", pattern, id))
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

// confined checks that the process of a program for a node is not root and cannot gain privileges.
func (h *onHost) confined(data, program, argument string) {
	h.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		args, _ := os.ReadFile(path)
		if !strings.Contains(string(args), data+"/") || !strings.Contains(string(args), argument) || !strings.Contains(strings.SplitN(string(args), "\x00", 2)[0], program) {
			continue
		}
		status := read(h.T, filepath.Join(filepath.Dir(path), "status"))
		if strings.Contains(status, "Uid:\t0") || !strings.Contains(status, "CapEff:\t0000000000000000") || !strings.Contains(status, "NoNewPrivs:\t1") {
			h.Errorf("%s may do more than it should:\n%s", program, status)
		}
		return
	}
	h.Errorf("no process of %s works for the node", program)
}

func sha256Of(t *testing.T, path string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, path))))
}

// endBelow ends the processes with a path below a directory among their arguments.
func endBelow(t *testing.T, dir string) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if args, err := os.ReadFile(path); err == nil && bytes.Contains(args, []byte("\x00"+dir+"/")) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// sharesASecret runs the manual's example of a container and a database that share a secret, and changes the secret.
// The container logs in with the value in its environment, and the old value is invalid.
func (h *onHost) sharesASecret(image testenv.Archive) {
	h.Helper()
	page := read(h.T, "../../docs/manual/databases.md")
	_, script, _ := strings.Cut(page, "```tengo\n")
	script, _, _ = strings.Cut(script, "```")
	for pattern, here := range map[string]string{`url: "[^"]*"`: `url: "file://` + image.Path + `"`, `sha256: "[^"]*"`: `sha256: "` + image.SHA256 + `"`} {
		script = regexp.MustCompile(pattern).ReplaceAllLiteralString(script, here)
	}
	set := func(value string) {
		h.Helper()
		c := h.command("secret", "set", "store")
		c.Stdin = strings.NewReader(value)
		if said, err := c.CombinedOutput(); err != nil {
			h.Fatalf("set the secret: %v\n%s", err, said)
		}
	}
	asks := func(password string) string {
		h.Helper()
		command := `printf "AUTH ` + password + `\\r\\nINCR visits\\r\\nQUIT\\r\\n" | nc -w 10 $REDIS_HOST $REDIS_PORT`
		return h.submit(fmt.Sprintf("run := import(\"run\")\nrun.output({answer: import(\"container\").exec(\"app\", {command: [\"sh\", \"-c\", %q]}).stdout})\n", command))
	}
	set("the-first-of-the-manual")
	h.submit(script)
	if said := asks("$REDIS_PASSWORD"); !strings.Contains(said, "+OK") || !strings.Contains(said, ":1") {
		h.Errorf("answer to the container's login with the shared secret:\n%s", said)
	}
	set("the-second-of-the-manual")
	if said := h.submit(script); !strings.Contains(said, "updated") {
		h.Errorf("output of the script with a new value of the secret:\n%s", said)
	}
	if said := asks("$REDIS_PASSWORD"); !strings.Contains(said, "+OK") || !strings.Contains(said, ":2") {
		h.Errorf("the container logs in with the next value, and hears:\n%s", said)
	}
	if said := asks("the-first-of-the-manual"); !strings.Contains(said, "WRONGPASS") {
		h.Errorf("with the value of before the database answers:\n%s", said)
	}
	h.submit(`
gone := [import("container").delete("app"), import("herodb").delete("store")]
for g in gone { e := g.err; if e { import("run").fail(e.message) } }
import("image").delete("app")
import("network").delete("lan")
`)
}

// TestAScriptWorksOnRealDrivers creates a resource of each kind with a script, checks that they work together, and
// destroys its deployment.
//
// Promise: Repair and usage: A script creates a network, images, volumes, a container, a database and a machine on
// real drivers, and `writ deployment destroy` removes them without a trace.
// How: One runner with `--drivers host`, private containerd, redis-server, a guest in QEMU behind the stub of the
// hypervisor.
//
// Promise: Databases: A container and a database share a secret that the script never sees, and a new version changes
// the database first, then the container.
// How: One name for both, resolved on the node; the container waits for the database's address; the old version is
// invalid.
func TestAScriptWorksOnRealDrivers(t *testing.T) {
	for _, tool := range []string{"nft", "ping", "redis-server", "busybox", "btrfs", "mkfs.btrfs", "ctr"} {
		testenv.Need(t, tool)
	}
	testenv.NeedTaps(t)
	qemu := testenv.Need(t, "qemu-system-x86_64")
	g := guest.Build(t)
	if !testcluster.Alone(t, "") {
		return
	}
	containers, image := testenv.Containerd(t, ""), testenv.Busybox(t)
	vmm := vmmstub.Build(t)
	vmmstub.Set(t, vmm, vmmstub.Settings{QEMU: qemu})
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: containers}
	disk := filepath.Join(h.dir, "d")
	if err := os.Mkdir(disk, 0o711); err != nil {
		t.Fatal(err)
	}
	testenv.NewBtrfs(t, disk, 4096)
	if err := os.Chmod(disk, 0o711); err != nil { // so that processes can have their own users
		t.Fatal(err)
	}
	data := filepath.Join(disk, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	h.env = append(os.Environ(), "PATH="+filepath.Dir(vmm)+":"+os.Getenv("PATH"))
	stop := h.start(data, "--image-dir", filepath.Dir(image.Path), "--image-dir", filepath.Dir(g.Kernel), "--image-dir", filepath.Dir(g.Initramfs))
	if said := h.ok("node", "list"); !strings.Contains(said, fmt.Sprintf("0/%d ", runtime.NumCPU())) {
		t.Errorf("the node offers something else than the CPUs of its host:\n%s", said)
	}
	h.submit("image := import(\"image\")\n" + fmt.Sprintf(`image.fetch("first", {url: "file://%s", sha256: "%s"})`, g.Initramfs, sha256Of(t, g.Initramfs)) + "\nimage.delete(\"first\")\n")
	before := h.traces(data) // includes objects that are created once
	h.sharesASecret(image)

	said := h.submit(fmt.Sprintf(`
network := import("network")
image := import("image")
volume := import("volume")
herodb := import("herodb")
container := import("container")
machine := import("machine")
run := import("run")
lan := network.create("lan", {})
box := image.fetch("box", {url: "file://%s", sha256: "%s", format: "oci"})
kernel := image.fetch("kernel", {url: "file://%s", sha256: "%s"})
start := image.fetch("start", {url: "file://%s", sha256: "%s"})
disk := volume.create("disk", {size_gib: 1})
files := volume.create("files", {size_gib: 1})
db := herodb.create("db", {memory_mib: 64, network: lan, engines: ["redis-server"]})
web := container.create("web", {image: box, networks: [lan], volumes: [{volume: files, path: "/files"}], memory_mib: 64})
vm := machine.create("vm", {cpus: 1, memory_mib: 192, kernel: kernel, initramfs: start, cmdline: %q, networks: [lan], disks: [disk]})
asked := container.exec(web, {command: ["nc", "-w", "10", db.host, "6379"], stdin: "PING\r\nQUIT\r\n"})
kept := container.exec(web, {command: ["sh", "-c", "echo kept >/files/note"]})
run.output({answer: asked.stdout, kept: kept.exit_code, host: db.host, vm: vm.address, path: files.path, subnet: lan.subnet})
`, image.Path, image.SHA256, g.Kernel, sha256Of(t, g.Kernel), g.Initramfs, sha256Of(t, g.Initramfs), guest.Cmdline), "--deployment", "shop")
	field := func(name string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + name + `:\s+(.*)$`).FindStringSubmatch(said)
		if found == nil {
			t.Fatalf("the output has no %s:\n%s", name, said)
		}
		return strings.TrimSpace(found[1])
	}
	if !strings.Contains(field("answer"), "NOAUTH") || !strings.HasPrefix(field("host"), "4") && !strings.HasPrefix(field("host"), "5") {
		t.Errorf("the container asked the database at %s and got %q", field("host"), field("answer"))
	}
	if strings.Contains(said, "simulated") {
		t.Errorf("something is simulated:\n%s", said)
	}
	if note := read(t, filepath.Join(field("path"), "note")); note != "kept\n" {
		t.Errorf("the volume of the container has %q", note)
	}
	h.confined(data, "cloud-hypervisor", "--api-socket")
	h.confined(data, "redis-server", "server.conf")
	const reads = "machine := import(\"machine\")\nrun := import(\"run\")\nrun.output({text: machine.console(\"vm\", {lines: 200}).text})\n"
	console := h.submit(reads)
	for end := time.Now().Add(3 * time.Minute); !strings.Contains(console, "vm "+guest.UpText) && time.Now().Before(end); console = h.submit(reads) {
		time.Sleep(time.Second) // it boots under emulation
	}
	if !strings.Contains(console, "vm "+guest.UpText) {
		t.Errorf("the console of the machine has %q", console)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		said, err := exec.Command(testenv.Need(h, "ping"), "-6", "-c", "1", "-w", "2", field("vm")).CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) { // ping ends with "unreachable" while the guest checks whether the address is in use
			t.Errorf("the machine does not answer at %s: %v\n%s", field("vm"), err, said)
			break
		}
	}

	groups := h.groupsOfContainers()
	if len(groups) == 0 || len(testcluster.GroupsIn(t, filepath.Join(data, "local", "n1"))) == 0 {
		t.Errorf("the container has the control groups %q, and the drivers have %q", groups, testcluster.GroupsIn(t, filepath.Join(data, "local", "n1")))
	}
	h.ok("deployment", "destroy", "shop", "--yes")
	if after := h.traces(data); after != before {
		t.Errorf("something is left behind; before:\n%s\nafter:\n%s", before, after)
	}
	for _, dir := range groups {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the control group %s is left behind: %v", dir, err)
		}
	}
	stop()
}
