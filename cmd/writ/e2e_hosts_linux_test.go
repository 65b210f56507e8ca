package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// hosts are network namespaces on one switch, each with one address and a wiretap on its cable.
type hosts struct {
	t     *testing.T
	wires []*wiretap
}

// address returns the address of a host.
func address(host string) string {
	return map[string]string{
		"desk": "10.77.0.1", "front": "10.77.0.2", "site": "10.77.0.3", "n1": "10.77.0.4", "front2": "10.77.0.5", "n2": "10.77.0.6", "n3": "10.77.0.7", "n4": "10.77.0.8",
		"site2": "10.77.0.9", "m1": "10.77.0.10",
	}[host]
}

func newHosts(t *testing.T, names ...string) *hosts {
	t.Helper()
	h := &hosts{t: t}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(testenv.Need(t, "ip"), args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	ip("link", "add", "lan", "type", "bridge")
	ip("link", "set", "lan", "up")
	for _, name := range names {
		cable := "to-" + name
		ip("netns", "add", name)
		ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip("link", "set", cable, "master", "lan", "up")
		ip("-n", name, "addr", "add", address(name)+"/24", "dev", "eth0")
		ip("-n", name, "link", "set", "eth0", "up")
		ip("-n", name, "link", "set", "lo", "up")
		h.wires = append(h.wires, listenAt(t, cable))
	}
	return h
}

// wiretap records the TCP payloads on a cable, for each direction of each connection in order of arrival.
type wiretap struct {
	mu     sync.Mutex
	flows  map[string][]byte
	first  map[string][]byte // first segment with a payload
	others map[string]int    // frames that are neither TCP nor used to discover neighbours
}

func listenAt(t *testing.T, cable string) *wiretap {
	t.Helper()
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	link, err := linkIndex(t, cable)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		t.Fatal(err)
	}
	w := &wiretap{flows: map[string][]byte{}, first: map[string][]byte{}, others: map[string]int{}}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		frame := make([]byte, 1<<17)
		for {
			n, _, err := unix.Recvfrom(fd, frame, 0)
			if err == nil {
				w.frame(frame[:n])
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		_ = unix.Close(fd)
	})
	return w
}

func linkIndex(t *testing.T, name string) (int, error) {
	text, err := os.ReadFile("/sys/class/net/" + name + "/ifindex")
	if err != nil { // /sys may be the one of the host
		out, err := exec.Command(testenv.Need(t, "ip"), "-o", "link", "show", "dev", name).Output()
		if err != nil {
			return 0, err
		}
		text = out
	}
	var index int
	_, err = fmt.Sscan(strings.SplitN(string(text), ":", 2)[0], &index)
	return index, err
}

// frame records the payload of an Ethernet frame with IPv4 and TCP, and counts other frames.
func (w *wiretap) frame(b []byte) {
	if len(b) < 34 {
		return
	}
	switch kind := binary.BigEndian.Uint16(b[12:]); {
	case kind == unix.ETH_P_IP && b[23] == unix.IPPROTO_TCP:
	// From kernels: neighbour discovery and multicast groups.
	case kind == unix.ETH_P_ARP, kind == unix.ETH_P_IP && b[23] == unix.IPPROTO_IGMP,
		kind == unix.ETH_P_IPV6 && (b[20] == unix.IPPROTO_ICMPV6 || b[20] == unix.IPPROTO_HOPOPTS):
		return
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.others[fmt.Sprintf("type %04x with protocols %d and %d", kind, b[23], b[20])]++
		return
	}
	packet := b[14:]
	packet = packet[:min(len(packet), int(binary.BigEndian.Uint16(packet[2:])))]
	from, to, segment := packet[12:16], packet[16:20], packet[int(packet[0]&15)*4:]
	data := segment[int(segment[12]>>4)*4:]
	if len(data) == 0 {
		return
	}
	flow := fmt.Sprintf("%v:%d > %v:%d", from, binary.BigEndian.Uint16(segment), to, binary.BigEndian.Uint16(segment[2:]))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first[flow] == nil {
		w.first[flow] = bytes.Clone(data)
	}
	w.flows[flow] = append(w.flows[flow], data...)
}

// onlyTLS13 fails the test if a cable carried other data than TLS 1.3, or one of the texts in plain. It returns the
// addresses of all servers.
func (h *hosts) onlyTLS13(texts ...string) map[string]bool {
	h.t.Helper()
	seen := map[string]bool{}
	for _, w := range h.wires {
		w.mu.Lock()
		for what, n := range w.others {
			h.t.Errorf("%d frames of %s crossed a cable", n, what)
		}
		for flow, first := range w.first {
			handshake := len(first) > 5 && first[0] == 0x16 && first[1] == 3
			serverHello := handshake && first[5] == 2
			if from, _, _ := strings.Cut(flow, " > "); serverHello {
				seen[from] = true
			}
			switch {
			case !handshake:
				h.t.Errorf("%s begins without TLS: %q", flow, first[:min(len(first), 80)])
			case serverHello && !bytes.Contains(first, []byte{0, 0x2b, 0, 2, 3, 4}):
				h.t.Errorf("%s speaks another TLS than 1.3", flow)
			}
		}
		for flow, all := range w.flows {
			for _, text := range texts {
				if bytes.Contains(all, []byte(text)) {
					h.t.Errorf("%q crossed a cable in %s", text, flow)
				}
			}
		}
		w.mu.Unlock()
	}
	return seen
}

// redis starts the Redis of a datacenter on a host, on a socket.
func (h *hosts) redis(host, dir, password string) (socket string) {
	h.t.Helper()
	socket = filepath.Join(dir, "redis.sock")
	settings := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("port 0\nunixsocket %s\nrequirepass %s\ndir %s\nsave \"\"\nmaxmemory 256mb\nmaxmemory-policy noeviction\n", socket, password, dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(testenv.Need(h.t, "ip"), "netns", "exec", host, testenv.Need(h.t, "redis-server"), settings)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return socket
}

// Texts that must not cross a cable in plain.
const (
	wireSecret = "canary-of-a-secret"
	wireScript = "canary of a script"
	wireArg    = "canary-of-an-argument"
	wireLog    = "canary of a log"
	wireResult = "canary of a result"
	wireOutput = "canary of an output"
	wireVolume = "canary of a volume"
)

// hostsScript is a deployment whose container and database get a secret.
const hostsScript = `
// ` + wireScript + `
container := import("container")
herodb := import("herodb")
image := import("image")
run := import("run")
word := run.secret("word")
web := image.fetch("` + wireArg + `", {url: "https://example.com/web.tar", format: "oci", sha256: "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce"}, {node: "n4"})
db := herodb.create("store", {memory_mib: 64, password: word})
box := container.create("box", {image: web, env: {WORD: word, DB: db.address}})
sum := container.exec(box, {command: ["sha256sum"], stdin: word})
echo := container.exec(box, {command: ["cat"], stdin: "` + wireResult + `"})
run.log("` + wireLog + `", db.address)
run.output({said: "` + wireOutput + `", echo: echo.stdout, sum: sum.stdout})
`

// Scripts for data that nodes copy from each other.
const (
	hostsVolume = `
volume := import("volume")
run := import("run")
run.output({path: volume.create("data", {size_gib: 1}, {node: "n2"}).path})
`
	hostsCopy = `
volume := import("volume")
run := import("run")
run.output({path: volume.copy("copy", {from: "data", size_gib: 1}, {node: "n3"}).path})
`
)

// page is a manual page whose code blocks name the machine: "desk", and "desk keeps" or "desk waits" for a command that
// continues to run.
type page struct {
	t       *testing.T
	root    string            // contains a directory for each machine
	sockets map[string]string // of the Redis on each machine
	env     []string
	waiting []func() // wait for commands that end by themselves
}

var blocksOfHosts = regexp.MustCompile("(?s)```sh (\\w+)( keeps| waits)?\n(.*?)```")

// begins maps a command that continues to run to the output after which the next command may start.
var begins = map[string]string{"writ coord": "is listening", "writ dc add": "Start the supervisor", "writ supervisor": "Redis listens for nodes", "writ runner": "msg=serving"}

func (p *page) dir(machine string) string { return filepath.Join(p.root, machine) }

// command returns a block as a command on a machine.
func (p *page) command(machine, block string) *exec.Cmd {
	cmd := exec.Command(testenv.Need(p.t, "ip"), "netns", "exec", machine, "sh", "-euc", block)
	cmd.Dir = p.dir(machine)
	cmd.Env = append([]string{"HOME=" + p.dir(machine), "PATH=" + filepath.Join(p.root, "bin") + ":" + os.Getenv("PATH"), "ROOT=" + p.root}, p.env...)
	return cmd
}

// typed runs a block that ends, and returns its output.
func (p *page) typed(machine, block string) string {
	p.t.Helper()
	out, err := p.command(machine, block).CombinedOutput()
	if err != nil {
		p.t.Fatalf("on %s:\n%s\n%v\n%s", machine, block, err, out)
	}
	return string(out)
}

// start runs a block that continues to run, and waits until it has started.
func (p *page) start(machine, block string, waits bool) {
	p.t.Helper()
	until := ""
	for command, text := range begins {
		if strings.Contains(block, command) {
			until = text
		}
	}
	log, err := os.Create(filepath.Join(p.root, fmt.Sprintf("%s-%d.log", machine, len(p.waiting))))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := p.command(machine, strings.Replace(block, "\nwrit ", "\nexec writ ", 1))
	if strings.HasPrefix(block, "writ ") {
		cmd = p.command(machine, "exec "+block)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	said := func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
	for late := time.Now().Add(testcluster.Patience); !strings.Contains(said(), until); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			p.t.Fatalf("on %s, %s ended: %v\n%s", machine, block, err, said())
		default:
		}
		if time.Now().After(late) {
			p.t.Fatalf("on %s, output of %s lacks %q:\n%s", machine, block, until, said())
		}
	}
	if waits {
		p.waiting = append(p.waiting, func() {
			select {
			case err := <-ended:
				ended <- err
				if err != nil {
					p.t.Errorf("on %s, %s ended: %v\n%s", machine, block, err, said())
				}
			case <-time.After(testcluster.Patience):
				p.t.Errorf("on %s, %s has not ended:\n%s", machine, block, said())
			}
		})
	}
}

// newPage prepares hosts for the commands of a page: it installs the program and creates a user's key, and a Redis on
// each site.
func newPage(t *testing.T, tags string, names ...string) (*page, *hosts) {
	t.Helper()
	testenv.Need(t, "redis-server")
	testenv.Need(t, "ssh-keygen")
	h, p := newHosts(t, names...), &page{t: t, root: t.TempDir(), sockets: map[string]string{}}
	for _, name := range append(names, "bin", "desk/.ssh", "front/coord", "front2/coord") {
		if err := os.MkdirAll(p.dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const copies = "#!/bin/sh\nfor last; do :; done\nwhile [ $# -gt 1 ]; do case $1 in -r) ;; *) cp -r \"$1\" \"$ROOT/${last%%:*}/${last#*:}\" ;; esac; shift; done\n"
	if err := errors.Join(os.WriteFile(filepath.Join(p.root, "bin", "scp"), []byte(copies), 0o700), os.Symlink(testcluster.Binary(t, tags), filepath.Join(p.root, "bin", "writ"))); err != nil {
		t.Fatal(err)
	}
	p.typed("desk", "ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519")
	for _, name := range names {
		if strings.HasPrefix(name, "site") {
			p.sockets[name] = h.redis(name, t.TempDir(), "LONG-AND-RANDOM")
		}
	}
	return p, h
}

// follow types the commands of docs/manual/sites.md up to a heading, or to the end if until is "". It returns their
// output.
func (p *page) follow(until string) (said string) {
	p.t.Helper()
	all, err := os.ReadFile("../../docs/manual/sites.md")
	if err != nil {
		p.t.Fatal(err)
	}
	text := string(all)
	if until != "" {
		var found bool
		if text, _, found = strings.Cut(text, "\n## "+until+"\n"); !found {
			p.t.Fatalf("the page has no heading %q", until)
		}
	}
	var began time.Time
	for _, block := range blocksOfHosts.FindAllStringSubmatch(text, -1) {
		machine, kind, block := block[1], block[2], strings.TrimSpace(strings.ReplaceAll(block[3], "/run/redis/redis.sock", p.sockets[block[1]]))
		if strings.HasPrefix(block, "writ runner") {
			began = time.Now()
		}
		if kind != "" {
			p.start(machine, block, kind == " waits")
			continue
		}
		if strings.Contains(block, "writ dc list") { // as the page promises
			for _, ended := range p.waiting {
				ended()
			}
		}
		out := p.typed(machine, block)
		if strings.Contains(block, "writ submit") {
			p.t.Logf("from the start of the runner to the end of the first run: %s", time.Since(began).Round(time.Millisecond))
		}
		said += out
	}
	return said
}

// desk types a command on the workstation, as the user who created the cluster.
func (p *page) desk(commands string) string {
	p.t.Helper()
	return p.typed("desk", "export WRIT_CONFIG=cluster/client.yaml\n"+commands)
}

// node starts a node on its host, with additional flags.
func (p *page) node(name, flags string) {
	p.t.Helper()
	p.desk("writ token create --dc dc1 > " + name + ".token\nscp " + name + ".token " + name + ":")
	p.start(name, "writ runner --data "+name+" --name "+name+" --supervisor https://10.77.0.3:7441 --redis rediss://10.77.0.3:6379/0 --join @"+name+".token "+flags, false)
}

// submit submits a script and returns the output of its run.
func (p *page) submit(script string) map[string]string {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir("desk"), "script.tengo"), []byte(script), 0o600); err != nil {
		p.t.Fatal(err)
	}
	said := p.desk("timeout 100 writ submit script.tengo --dc dc1 -o json 2>&1 >run.json || { cat run.json; exit 1; }")
	text, err := os.ReadFile(filepath.Join(p.dir("desk"), "run.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var run struct {
		Output map[string]string `json:"output"`
	}
	if err := json.Unmarshal(text, &run); err != nil || run.Output == nil {
		p.t.Fatalf("%v: %s\n%s", err, text, said)
	}
	return run.Output
}

// copiesAVolume makes a node fetch a volume from another node.
func (p *page) copiesAVolume() {
	p.t.Helper()
	inside := func(node, path string) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.dir(node), path)
		}
		return filepath.Join(path, "content")
	}
	content := strings.Repeat(wireVolume, 1000)
	if err := os.WriteFile(inside("n2", p.submit(hostsVolume)["path"]), []byte(content), 0o640); err != nil {
		p.t.Fatal(err)
	}
	if got, err := os.ReadFile(inside("n3", p.submit(hostsCopy)["path"])); err != nil || string(got) != content {
		p.t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
}

// Two coordinators, a supervisor with its Redis, nodes and a user run on separate hosts, with the commands of the
// manual. Their cables carry only TLS 1.3. Only the output of commands is copied between hosts.
//
// Promise: Connections and certificates: Coordinator, supervisor, Redis, nodes and people on different hosts use TLS
// 1.3 only, without copying certificates.
// How: Certificates chain to keys of the roster; the test runs the commands of the sites manual on seven hosts and
// captures their traffic.
//
// Promise: Connections and certificates: `writ pki rotate` ends all earlier certificates of a datacenter permanently:
// a peer that has seen a new certificate refuses them.
// How: The time of the signed statement is stored in the journal and in each delegation; runs continue during 20
// rotations.
// Also: TestNoRunFailsWhileCertificatesLastAMinute, TestNodeReturnsAfterMonths,
// TestRotationRevokesEarlierCertificates, TestStolenKeyDoesNotLockOutItsSuccessor,
// TestFloorNeverRevokesNewCertificates, TestEndedCertificatesStayEnded.
func TestHostsSpeakNothingButTLS(t *testing.T) {
	t.Parallel()
	if !testcluster.Alone(t, "") {
		return
	}
	p, h := newPage(t, "", "desk", "front", "site", "n1", "front2", "site2", "m1", "n2", "n3", "n4")
	said := p.follow("")
	for _, want := range []string{"healthy", "said", "hello", "succeeded", "redis", "new certificates", "by the supervisor of dc1", "by the supervisor of dc2"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}

	p.node("n2", "--transfers 10.77.0.6:7450")
	p.node("n3", "--transfer-allow 10.77.0.0/24")
	p.node("n4", "--drivers simulated --simulate-speed 0")
	if err := os.WriteFile(filepath.Join(p.dir("desk"), "value"), []byte(wireSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	p.desk("writ secret set word --dc dc1 --file value")
	if out := p.submit(hostsScript); out["said"] != wireOutput || !strings.Contains(out["echo"], wireResult) || !strings.Contains(out["sum"], writ.DigestOf([]byte(wireSecret)).String()) {
		t.Errorf("the run gave %q", out)
	}
	p.copiesAVolume()
	// A client whose key is not in the roster has no read rights.
	out := p.typed("desk", "ssh-keygen -q -t ed25519 -N '' -f stranger\nWRIT_CONFIG=stranger.yaml writ context import work.yaml --key ./stranger\nWRIT_CONFIG=stranger.yaml writ run list || echo exit $?")
	if !strings.Contains(out, "SIGNER_UNKNOWN") || !strings.Contains(out, fmt.Sprint("exit ", writ.ExitDenied)) {
		t.Errorf("output for a stranger = %s", out)
	}
	// Other processes of the cluster cannot act as a coordinator.
	for _, address := range []string{"10.77.0.3:7441", "10.77.0.3:6379"} {
		if out := p.desk("writ run list --server https://" + address + " 2>&1 || echo exit $?"); !strings.Contains(out, "CERTIFICATE_ROLE") || !strings.Contains(out, fmt.Sprint("exit ", writ.ExitDenied)) {
			t.Errorf("with %s as coordinator: %s", address, out)
		}
	}
	reads := strings.TrimSpace(p.desk("writ login --token\nwrit run list > /dev/null"))
	web := p.desk("writ login --web 2>/dev/null\nwrit logout")
	code, found := strings.CutPrefix(strings.TrimSpace(web), "https://10.77.0.2:7440/login#")
	if !found || len(code) < 32 || len(reads) < 32 {
		t.Errorf("writ login --web printed %s, and --token %s", web, reads)
	}
	// Certificates are replaced repeatedly while runs continue. No run fails or is delayed.
	began := time.Now()
	out = p.desk(`
		for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			writ submit hello.tengo --dc dc1 --detach -o name >> runs
			writ pki rotate --dc dc1
		done
		for run in $(cat runs); do writ run watch --quiet $run; done`)
	if n := strings.Count(out, "has new certificates"); n != 20 || strings.Contains(out, "failed") {
		t.Errorf("while certificates were replaced %d times:\n%s", n, out)
	}
	t.Logf("20 runs while certificates were replaced 20 times: %s", time.Since(began).Round(time.Millisecond))
	token, err := os.ReadFile(filepath.Join(p.dir("desk"), "n1.token"))
	if err != nil {
		t.Fatal(err)
	}
	seen := h.onlyTLS13(wireSecret, wireScript, wireArg, wireLog, wireResult, wireOutput, wireVolume, "LONG-AND-RANDOM", strings.TrimSpace(string(token))[:40], reads, code)
	for _, address := range []string{"[10 77 0 2]:7440", "[10 77 0 5]:7440", "[10 77 0 3]:7441", "[10 77 0 3]:6379", "[10 77 0 6]:7450", "[10 77 0 9]:7441", "[10 77 0 9]:6379"} {
		if !seen[address] {
			t.Errorf("no connections to %s: %v", address, seen)
		}
	}
}

// certificates fails the test unless each certificate of the cluster is valid, for one minute at most.
func (p *page) certificates() {
	p.t.Helper()
	var shown struct {
		Items []struct {
			Name         string             `json:"name"`
			Certificates []writ.Certificate `json:"certificates"`
		} `json:"items"`
	}
	if text := p.desk("writ pki show -o json 2>/dev/null"); json.Unmarshal([]byte(text), &shown) != nil || len(shown.Items) != 2 {
		p.t.Fatalf("writ pki show printed %s", text)
	}
	for _, owner := range shown.Items {
		for _, c := range owner.Certificates {
			if left := time.Until(c.Until); left <= 0 || left > time.Minute {
				p.t.Errorf("the %s of %s has a certificate for %s", c.Of, owner.Name, left)
			}
		}
	}
}

// Certificates last one minute. Users submit scripts as fast as possible for longer than that, and then while all
// certificates are replaced twenty times. No run fails, and a node that joins in the meantime works.
func TestNoRunFailsWhileCertificatesLastAMinute(t *testing.T) {
	testenv.Nightly(t, "TestHostsSpeakNothingButTLS replaces certificates that last for months")
	t.Parallel()
	const tags = "shortleaves"
	if !testcluster.Alone(t, tags) {
		return
	}
	p, _ := newPage(t, tags, "desk", "front", "site", "n1", "n2")
	p.follow("Another person")
	load := func(meanwhile string) string {
		t.Helper()
		return p.desk(`
			rm -f enough
			for worker in 1 2 3; do
				( while [ ! -e enough ]; do writ submit hello.tengo -o name >> runs || echo "exit $?" >> wrong; done ) &
			done
			` + meanwhile + `
			touch enough
			wait`)
	}
	load("sleep 70 # the first certificates end")
	p.certificates()
	p.node("n2", "")
	p.submit("node := import(\"node\")\nrun := import(\"run\")\nnode.ping({}, {node: \"n2\"})\nrun.output({said: \"here\"})\n")

	out := load(`
		for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			writ pki rotate
			sleep 3 # in which runs go through
		done`)
	if n := strings.Count(out, "has new certificates"); n != 20 {
		t.Errorf("certificates were replaced %d times:\n%s", n, out)
	}
	p.certificates()
	if wrong, err := os.ReadFile(filepath.Join(p.dir("desk"), "wrong")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("some runs failed: %s, %v\n%s", wrong, err, out)
	}
	runs, err := os.ReadFile(filepath.Join(p.dir("desk"), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs", bytes.Count(runs, []byte("\n")))
}
