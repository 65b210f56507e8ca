package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/efi/bootserver"
	stages "writ/efi/progress"
	"writ/internal/test/testenv"
)

// The network of a test. This host is the switch and runs all parts of a datacenter except the node.
const (
	bootHost = "10.77.0.1"
	bootNode = "10.77.0.50"
)

// bootWords start the command line of a machine. Its kernel does not check its timers, which are late on a busy host.
const bootWords = "console=ttyS0 quiet panic=5 no_timer_check "

// staticWrit builds the program for an image as in the manual, with additional linker flags.
func staticWrit(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "writ-node")
	command := manualText(t, "../../docs/manual/boot.md", "## 1. Get the parts", "sh", "go build")
	build := exec.Command("sh", "-c", strings.NewReplacer("writ-node ./cmd/writ", path+" writ/cmd/writ", "-ldflags '", "-ldflags '"+strings.Join(append(flags, ""), " ")).Replace(command))
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build writ: %v\n%s", err, said)
	}
	return path
}

// newBridge creates a bridge with this host, at these addresses, and a tap for a machine.
func newBridge(t *testing.T, addresses ...string) (tap string) {
	t.Helper()
	lines := []string{"ip link add lan type bridge", "ip link set lan up", "ip tuntap add dev tap0 mode tap", "ip link set tap0 master lan", "ip link set tap0 up"}
	for _, address := range addresses {
		lines = append(lines, "ip addr add dev lan "+address)
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return "tap0"
}

// newLAN creates a bridge with this host, a tap for a machine, and a DHCP server with additional options.
func newLAN(t *testing.T, more ...dhcpv4.Modifier) (tap string) {
	t.Helper()
	tap = newBridge(t, bootHost+"/24")
	serveDHCP(t, more...)
	return tap
}

// serveDHCP starts a DHCP server for a machine, with additional options.
func serveDHCP(t *testing.T, more ...dhcpv4.Modifier) {
	t.Helper()
	server, err := server4.NewServer("lan", &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
		answers := map[dhcpv4.MessageType]dhcpv4.MessageType{dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeRequest: dhcpv4.MessageTypeAck}
		kind, ok := answers[m.MessageType()]
		if !ok {
			return
		}
		answer, err := dhcpv4.NewReplyFromRequest(m, append(more, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP(bootNode)), dhcpv4.WithLeaseTime(3600),
			dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(net.ParseIP(bootHost)), dhcpv4.WithServerIP(net.ParseIP(bootHost)),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(bootHost))))...)
		if err == nil {
			_, err = conn.WriteTo(answer.ToBytes(), peer)
		}
		if err != nil {
			t.Errorf("answer DHCP: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve() }()
	t.Cleanup(func() { server.Close(); <-served })
}

// bootRedis starts the Redis of the datacenter, on a socket.
func bootRedis(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	socket, settings := filepath.Join(dir, "redis.sock"), filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("port 0\nunixsocket %s\nrequirepass LONG-AND-RANDOM\ndir %s\nsave \"\"\nmaxmemory 256mb\nmaxmemory-policy noeviction\n", socket, dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Need(t, "redis-server"), settings)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return "unix://:LONG-AND-RANDOM@" + socket
}

// vm is a machine in QEMU.
type vm struct {
	t     *testing.T
	cmd   *exec.Cmd
	began time.Time
	qmp   string
	ended chan error

	mu    sync.Mutex
	lines []string // lines of the serial console, each with the time since the start
	news  chan struct{}
}

// startVM starts a machine with firmware, a network card at a tap, and the devices in args.
func startVM(t *testing.T, tap string, args ...string) *vm {
	t.Helper()
	return startFirmware(t, append([]string{
		"-netdev", "tap,id=n0,script=no,downscript=no,ifname=" + tap, "-device", "virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:77:00:50",
	}, args...)...)
}

// startFirmware starts a machine with firmware and the devices in args.
func startFirmware(t *testing.T, args ...string) *vm {
	t.Helper()
	dir := t.TempDir()
	vars := filepath.Join(dir, "vars.fd")
	text, err := os.ReadFile(testenv.Unpacked(t, testenv.FirmwareVars))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vars, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return startQEMU(t, append([]string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + testenv.Unpacked(t, testenv.FirmwareCode),
		"-drive", "if=pflash,format=raw,unit=1,file=" + vars,
	}, args...)...)
}

// startQEMU starts a machine with a serial console and the devices in args.
func startQEMU(t *testing.T, args ...string) *vm {
	t.Helper()
	v := &vm{t: t, qmp: filepath.Join(t.TempDir(), "qmp"), ended: make(chan error, 1), news: make(chan struct{}, 1)}
	v.cmd = exec.Command(testenv.Need(t, "qemu-system-x86_64"), append([]string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024",
		"-qmp", "unix:" + v.qmp + ",server=on,wait=off",
	}, args...)...)
	serial, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	v.cmd.Stderr = &said
	v.began = time.Now()
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		v.read(serial)
		err := v.cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.String())
		}
		v.ended <- err
	}()
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		<-v.ended
		if t.Failed() {
			t.Logf("the machine said:\n%s", v.said())
		}
	})
	return v
}

func (v *vm) read(serial io.Reader) {
	for lines := bufio.NewScanner(serial); lines.Scan(); {
		v.mu.Lock()
		v.lines = append(v.lines, fmt.Sprintf("%6.2f  %s", time.Since(v.began).Seconds(), strings.TrimSpace(strings.ReplaceAll(lines.Text(), "\x1b", ""))))
		v.mu.Unlock()
		select {
		case v.news <- struct{}{}:
		default:
		}
	}
}

func (v *vm) said() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.lines, "\n")
}

// await waits until the console contains a text.
func (v *vm) await(text string) {
	v.t.Helper()
	clock, tick := startClock(v.cmd.Process.Pid), time.NewTicker(time.Second)
	defer tick.Stop()
	for !strings.Contains(v.said(), text) {
		select {
		case <-v.news:
		case err := <-v.ended:
			v.ended <- err
			v.t.Fatalf("the machine ended before %q: %v", text, err)
		case <-tick.C:
			if clock.elapsed() > testcluster.Patience {
				v.t.Fatalf("no output %q within %s, %s with waits for a processor", text, testcluster.Patience,
					time.Since(clock.began).Round(time.Second))
			}
		}
	}
}

// awaitApproval waits until the machine shows the command that approves it. It returns the name and fingerprint in the
// command, as parsed by a shell.
func (v *vm) awaitApproval() (name, fingerprint string) {
	v.t.Helper()
	v.await("  writ node approve ")
	v.await("continues by itself")
	_, command, _ := strings.Cut(v.said(), "  writ node approve ")
	var words []string
	for line := range strings.Lines(command) {
		if len(words) > 0 { // each line has the time since the start
			_, line, _ = strings.Cut(strings.TrimLeft(line, " "), "  ")
		}
		line = strings.TrimSpace(line)
		words = append(words, strings.Fields(strings.TrimSuffix(line, `\`))...)
		if !strings.HasSuffix(line, `\`) {
			break
		}
	}
	if len(words) != 2 || !strings.HasPrefix(words[1], "SHA256:") {
		v.t.Fatalf("the command of the page has %q", words)
	}
	return words[0], words[1]
}

// do sends a QMP command for the machine to QEMU. The arguments are JSON.
func (v *vm) do(command, arguments string) {
	v.t.Helper()
	conn, err := net.Dial("unix", v.qmp)
	if err != nil {
		v.t.Fatal(err)
	}
	defer conn.Close()
	answers := json.NewDecoder(conn)
	for _, ask := range []string{"", `{"execute": "qmp_capabilities"}`, fmt.Sprintf(`{"execute": %q, "arguments": %s}`, command, arguments)} {
		_, _ = io.WriteString(conn, ask)
		answer := map[string]any{"event": ""}
		for err == nil && answer["event"] != nil { // events may precede the answer
			clear(answer)
			err = answers.Decode(&answer)
		}
		if err != nil || answer["error"] != nil {
			v.t.Fatalf("%s: %v %v", ask, answer, err)
		}
	}
}

// pressPower presses the power button and waits until the machine is off.
func (v *vm) pressPower() {
	v.t.Helper()
	v.do("system_powerdown", "{}")
	for clock := startClock(v.cmd.Process.Pid); ; {
		select {
		case err := <-v.ended:
			v.ended <- err
			if err != nil {
				v.t.Errorf("the machine ended: %v", err)
			}
			return
		case <-time.After(time.Second):
			if clock.elapsed() > testcluster.Patience {
				v.t.Error("the machine does not turn off")
				return
			}
		}
	}
}

// A machine starts from an image with UEFI firmware, joins with a token, executes a signed job and turns off. The
// settings and the token are first on the USB stick or CD with the image, then on the kernel's command line. The
// console never shows the token. A machine without a token joins after its approval.
//
// Promise: Machines from an image: A machine with UEFI firmware boots a node image, joins with a token, runs a signed
// job and shuts down at its power button.
// How: Everything is in one file; the first process mounts, loads modules, uses DHCP and starts the runner; with a
// data disk it stays the same node.
// Also: TestTheFirstProcessPreparesAMachine.
func TestAMachineStartsFromAnImageAsANode(t *testing.T) {
	testenv.Nightly(t, "TestTheFirstProcessPreparesAMachine of package efi/boot starts one without firmware, and the tests of efi/image make images")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	testenv.Unpacked(t, testenv.FirmwareCode)
	if !testcluster.Alone(t, "") {
		return
	}
	tap := newLAN(t)
	s := testcluster.New(t, "WRIT_REDIS_LISTEN="+bootHost+":6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: bootHost + ":7441"})
	s.Script("ping.tengo", `
node := import("node")
run := import("run")
params := {name: {type: "string"}}
node.ping({}, {node: run.params.name})
run.output({said: "pong"})
`)
	dir := t.TempDir()
	image, disk, tokenFile := filepath.Join(dir, "node.efi"), filepath.Join(dir, "node.img"), filepath.Join(dir, "n1.token")
	t.Log(strings.SplitN(s.Writ("efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t), "--image", image), "\n\n", 2)[0])
	supervisor, redis := "https://"+bootHost+":7441", "rediss://"+bootHost+":6379/0"

	started := map[string]bool{}
	starts := func(name, token string, args ...string) {
		t.Helper()
		v := startVM(t, tap, args...)
		v.await("msg=serving")
		serving := time.Since(v.began)
		v.await("This machine serves as a node.")
		s.Until("the image of the machine is shown", func(context.Context) bool {
			return strings.Contains(s.Writ("node", "show", name), "writ node, image ")
		})
		if said := s.Writ("node", "list"); !strings.Contains(said, name) {
			t.Errorf("%s is not in the list:\n%s", name, said)
		}
		if said := s.Writ("submit", "ping.tengo", "--param", "name="+name); !strings.Contains(said, "pong") {
			t.Errorf("output of the run = %s", said)
		}
		done := time.Since(v.began)
		kept := []string{" boot     INFO  start: writ ", " runner   INFO  msg=serving "}
		if started[name] {
			kept = append(kept, "-- an earlier start of the machine, boot id ", " boot     INFO  off: ", "-- the machine was started again, boot id ")
		}
		s.Says(0, kept, "node", "logs", name)
		started[name] = true
		v.pressPower()
		for _, part := range strings.Split(token, ".")[1:] {
			if strings.Contains(v.said(), part) && len(part) > 40 {
				t.Errorf("the console shows %s of the token", part)
			}
		}
		if strings.Contains(v.said(), "error:") {
			t.Error("a stage failed")
		}
		t.Logf("%s: serving after %.1f s, the first run done after %.1f s, off after %.1f s\n%s", name, serving.Seconds(), done.Seconds(), time.Since(v.began).Seconds(), v.said())
	}

	var token string
	for name, devices := range map[string][]string{
		"by-disk": {"-device", "qemu-xhci", "-device", "usb-storage,drive=d0,bootindex=1"},
		"by-cd":   {"-device", "ide-cd,drive=d0,bootindex=1"},
	} {
		token = strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
		if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log(s.Writ("efi", "disk", "--image", image, "--disk", disk, "--name", name, "--join", "@"+tokenFile, "--supervisor", supervisor, "--redis", redis))
		starts(name, token, append([]string{"-drive", "if=none,id=d0,format=raw,readonly=on,file=" + disk}, devices...)...)
		s.Writ("node", "remove", "--yes", name, "--reason", "it forgets who it is")
	}

	// A machine without a token shows how to approve it, and then continues without a restart.
	cluster := strings.Split(token, ".")[3]
	boots := serveBoot(t, "--listen", bootHost+":8080", "--image", image)
	waits := startVM(t, tap, "-kernel", image, "-append", bootWords+"writ.boot=http://"+bootHost+":8080"+stages.Path+"52-54-00-77-00-50 writ.name=by-hand writ.cluster="+cluster+" writ.supervisor="+supervisor+" writ.redis="+redis)
	name, fingerprint := waits.awaitApproval()
	if name != "by-hand" {
		t.Errorf("the console names %s", name)
	}
	if m := boots.awaitStep(stages.StageWaits); m.Node != name || m.Address != bootNode {
		t.Errorf("the boot server has %+v", m)
	}
	s.Writ("node", "approve", name, fingerprint)
	waits.await("has approved this node")
	waits.await("msg=serving")
	waits.await("This machine serves as a node.")
	if m := boots.awaitStep(stages.StageJoined); m.Node != name || m.Failed {
		t.Errorf("the boot server has %+v", m)
	}
	t.Logf("by-hand: serving after %.1f s\n%s", time.Since(waits.began).Seconds(), waits.said())
	waits.pressPower()
	boots.awaitStep(stages.StageOff)
	if said := boots.stop(); strings.Contains(said, fingerprint) {
		t.Errorf("the boot server received the fingerprint:\n%s", said)
	}
	s.Writ("node", "remove", "--yes", "by-hand", "--reason", "it forgets who it is")

	// A machine whose serial number was signed beforehand needs neither a token nor a command.
	s.Script("rack.txt", "WRIT-0001\nWRIT-0002\n")
	s.Writ("batch", "create", "--dc", "dc1", "--serials", "rack.txt")
	starts("by-batch", "", "-smbios", "type=1,serial=WRIT-0001", "-kernel", image, "-append",
		bootWords+"writ.name=by-batch writ.cluster="+cluster+" writ.supervisor="+supervisor+" writ.redis="+redis)
	if said := s.Writ("batch", "list"); !strings.Contains(said, "1 of 2") || !strings.Contains(said, "by-batch") {
		t.Errorf("the batches are\n%s", said)
	}
	s.Writ("node", "remove", "--yes", "by-batch", "--reason", "it forgets who it is")

	data := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.WriteFile(data, nil, 0o600), os.Truncate(data, 512<<20)); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(testenv.Need(t, "mkfs.btrfs"), "-q", "-L", "writ-data", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	token = strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
	options := bootWords + "writ.data=writ-data writ.supervisor=" + supervisor + " writ.redis=" + redis
	with := []string{"-drive", "if=none,id=d1,format=raw,file=" + data, "-device", "virtio-blk-pci,drive=d1", "-kernel", image, "-append"}
	starts("node-525400770050", token, append(slices.Clone(with), options+" writ.join="+token)...)
	// It keeps its identity at another address.
	starts("node-525400770050", token, append(slices.Clone(with), options+" writ.address=10.77.0.51/24 writ.gateway="+bootHost)...)
	if said := s.Writ("node", "list", "-o", "name"); len(strings.Fields(said)) != 1 {
		t.Errorf("a node that starts again is another one:\n%s", said)
	}
}

// ipxeROM is iPXE for the network card of a machine with firmware.
const ipxeROM = "/usr/lib/ipxe/qemu/efi-virtio.rom"

func needIPXE(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(ipxeROM); err != nil {
		t.Skipf("this machine has no %s, of Debian's package ipxe-qemu", ipxeROM)
	}
}

// freePort returns an unused loopback port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A machine with iPXE loads the image and its command line from a web server: its only fault is the missing token. With
// a boot server, the list shows the same fault. If an image cannot be started, the machine uses the next one.
func TestAMachineStartsFromABootServer(t *testing.T) {
	testenv.Nightly(t, "TestABuildWritesBillAndChecksum makes the directory of a web server, and TestABootServerServesASiteAndListsItsMachines has a boot server without a machine")
	testenv.Need(t, "qemu-system-x86_64")
	needIPXE(t)
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	testenv.Unpacked(t, testenv.FirmwareCode)
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	node, base := filepath.Join(t.TempDir(), "node.efi"), "http://10.0.2.2:"+port
	for _, args := range [][]string{
		{"efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t), "--image", node},
		{"efi", "ipxe", "--image", node, "--dir", dir, "--url", base, "--supervisor", "https://10.0.2.2:7441", "--redis", "rediss://10.0.2.2:6379/0"},
	} {
		if code := run(args, os.Stdin, said, said, os.Environ()); code != 0 {
			text, _ := os.ReadFile(said.Name())
			t.Fatalf("%v: %s", args, text)
		}
	}
	v := startFirmware(t, "-netdev", "user,id=n0,bootfile="+base+"/boot.ipxe", "-device", "virtio-net-pci,netdev=n0,romfile="+ipxeROM)
	v.await("the join token is missing")
	t.Logf("started from a web server after %.1f s\n%s", time.Since(v.began).Seconds(), v.said())
	_ = v.cmd.Process.Kill()

	port = freePort(t) // the machine reaches it at 10.0.2.2
	wrong := filepath.Join(t.TempDir(), "wrong.efi")
	if err := os.WriteFile(wrong, imageOf(t, "quiet"), 0o600); err != nil {
		t.Fatal(err)
	}
	machines := filepath.Join(t.TempDir(), "machines")
	if err := os.WriteFile(machines, []byte("serial=S-1 writ.name=n7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(image string) *servedBoot {
		return serveBoot(t, "--listen", "127.0.0.1:"+port, "--machines", machines, "--url", "http://10.0.2.2:"+port, "--image", image, "--supervisor", "https://10.0.2.2:7441", "--redis", "rediss://10.0.2.2:6379/0")
	}
	s := serve(wrong)
	v = startFirmware(t, "-netdev", "user,id=n0,bootfile=http://10.0.2.2:"+port+"/boot/ipxe", "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:77:00:50,romfile="+ipxeROM,
		"-smbios", "type=1,serial=S-1,uuid=6c8b0a5e-0000-4000-8000-000000000001", "-smbios", "type=3,asset=rack 4")
	m := s.await("a failure", func(r bootserver.Row) bool { return r.Failures > 0 })
	if !strings.Contains(m.Advice, "iPXE could not load or start the image") || m.Serial != "S-1" || m.Asset != "rack 4" {
		t.Errorf("machine with an invalid image = %+v", m)
	}
	t.Log(s.stop())
	s = serve(node)
	v.await("the join token is missing")
	if m = s.awaitStep(stages.StageConfig); m.MAC != "52:54:00:77:00:50" || !m.Failed || !strings.HasPrefix(m.Text, "the join token is missing") || m.Serial != "S-1" || m.Sent == 0 || m.Sent != m.Size || m.Assignment != bootserver.AssignmentUsed {
		t.Errorf("the boot server has %+v", m)
	}
	t.Logf("started from a boot server after %.1f s\n%s\n%s\n%s", time.Since(v.began).Seconds(), v.said(), s.writ("boot", "list", "--boot-server", s.list, "-o", "wide"), s.stop())
}
