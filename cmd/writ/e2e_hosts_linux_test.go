package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/cmd/writ/internal/testcluster"
	"writ/internal/testenv"
)

// hosts are network namespaces at one switch, each with one address, and a listener at each of their cables.
type hosts struct {
	t     *testing.T
	wires []*wiretap
}

// address is where a host is.
func address(host string) string {
	return map[string]string{"desk": "10.77.0.1", "front": "10.77.0.2", "site": "10.77.0.3", "n1": "10.77.0.4"}[host]
}

func newHosts(t *testing.T, names ...string) *hosts {
	t.Helper()
	h := &hosts{t: t}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
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

// wiretap keeps what crosses a cable by TCP: of each direction of each connection, what came in the order in which it came.
type wiretap struct {
	mu    sync.Mutex
	flows map[string][]byte
	first map[string][]byte // the first segment with anything in it
}

func listenAt(t *testing.T, cable string) *wiretap {
	t.Helper()
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in the order of bytes of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	link, err := linkIndex(cable)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		t.Fatal(err)
	}
	w := &wiretap{flows: map[string][]byte{}, first: map[string][]byte{}}
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

func linkIndex(name string) (int, error) {
	text, err := os.ReadFile("/sys/class/net/" + name + "/ifindex")
	if err != nil { // /sys may be that of the machine
		out, err := exec.Command("ip", "-o", "link", "show", "dev", name).Output()
		if err != nil {
			return 0, err
		}
		text = out
	}
	var index int
	_, err = fmt.Sscan(strings.SplitN(string(text), ":", 2)[0], &index)
	return index, err
}

// frame takes a frame of Ethernet with IPv4 and TCP in it.
func (w *wiretap) frame(b []byte) {
	if len(b) < 34 || binary.BigEndian.Uint16(b[12:]) != unix.ETH_P_IP || b[23] != unix.IPPROTO_TCP {
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

// onlyTLS13 fails the test if something else than TLS 1.3 crossed a cable, or one of some texts did. It returns how many connections there were.
func (h *hosts) onlyTLS13(texts ...string) int {
	h.t.Helper()
	seen := map[string]bool{}
	for _, w := range h.wires {
		w.mu.Lock()
		for flow, first := range w.first {
			seen[flow] = true
			handshake := len(first) > 5 && first[0] == 0x16 && first[1] == 3
			serverHello := handshake && first[5] == 2
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
	return len(seen)
}

// redis starts the Redis of a datacenter on a host, at a socket.
func (h *hosts) redis(host, dir, password string) (socket string) {
	h.t.Helper()
	testenv.Need(h.t, "redis-server")
	socket = filepath.Join(dir, "redis.sock")
	settings := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("port 0\nunixsocket %s\nrequirepass %s\ndir %s\nsave \"\"\nmaxmemory 256mb\nmaxmemory-policy noeviction\n", socket, password, dir)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", host, "redis-server", settings)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return socket
}

// canaries are what must not cross a cable in plain text.
const (
	wireSecret = "canary-of-a-secret"
	wireScript = "canary of a script"
	wireArg    = "canary-of-an-argument"
	wireLog    = "canary of a log"
	wireOutput = "canary of an output"
)

const hostsScript = `
// ` + wireScript + `
herodb := import("herodb")
run := import("run")
secrets := {word: "1"}
db := herodb.create("` + wireArg + `", {memory_mib: 64})
run.log("` + wireLog + `", db.address)
run.output({said: "` + wireOutput + `"})
`

// A coordinator, a supervisor with its Redis, a node and a person are on four hosts. All that crosses their cables is TLS 1.3, and nothing was copied
// from one to the other but what commands printed.
func TestHostsSpeakNothingButTLS(t *testing.T) {
	if !testcluster.Alone(t, "") {
		return
	}
	testenv.Need(t, "redis-server")
	h := newHosts(t, "desk", "front", "site", "n1")
	s := testcluster.Empty(t)
	front, site, n1 := s.On("front"), s.On("site"), s.On("n1")
	url := "https://" + address("front") + ":7440"
	front.Writ("init", "--data", "cluster", "--new-key", "--name", "alice", "--coordinator", url)
	front.Start("coord", "is listening", "coord", "--data", "cluster", "--listen", address("front")+":7440")
	// The person at the desk has the exported context and a key, and nothing else.
	if err := os.WriteFile(filepath.Join(s.Dir, "work.yaml"), []byte(front.Writ("context", "export")), 0o600); err != nil {
		t.Fatal(err)
	}
	desk := s.On("desk", "WRIT_CONFIG="+filepath.Join(s.Dir, "desk", "config.yaml"))
	desk.Writ("context", "import", "work.yaml", "--key", filepath.Join(s.Dir, "cluster", "root.key"))

	socket := h.redis("site", t.TempDir(), "long-and-random")
	add := desk.Start("add", "Start the supervisor", "dc", "add", "dc1", "--region", "here", "--token-file", "dc1.token")
	site.Start("dc1", "Redis listens for nodes", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", url, "--join", "@dc1.token",
		"--listen", address("site")+":7441", "--redis", "unix://:long-and-random@"+socket, "--redis-listen", address("site")+":6379")
	if err := add.Wait(); err != nil {
		t.Fatalf("dc add: %v\n%s", err, add.Said())
	}
	desk.Says(0, []string{"healthy"}, "dc", "list")
	token := desk.Writ("token", "create", "--dc", "dc1")
	if err := os.WriteFile(filepath.Join(s.Dir, "n1.token"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n1.Start("n1", "msg=serving", "runner", "--data", "n1", "--name", "n1", "--supervisor", "https://"+address("site")+":7441",
		"--redis", "rediss://"+address("site")+":6379/0", "--join", "@n1.token", "--drivers", "simulated", "--simulate-speed", "0")

	if err := os.WriteFile(filepath.Join(s.Dir, "value"), []byte(wireSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.Writ("secret", "set", "word", "--file", "value")
	if err := os.WriteFile(filepath.Join(s.Dir, "hosts.tengo"), []byte(hostsScript), 0o600); err != nil {
		t.Fatal(err)
	}
	said := desk.Writ("submit", "hosts.tengo", "-o", "json")
	t.Logf("from token to the end of the first run: %s", time.Since(began).Round(time.Millisecond))
	if !strings.Contains(said, wireOutput) {
		t.Errorf("the run gave %s", said)
	}
	// Who has no key of the roster reads nothing. The dashboard opens with a code.
	if err := os.Mkdir(filepath.Join(s.Dir, "stranger"), 0o700); err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(s.Dir, "stranger", "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", identity).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, "desk", "logins")); err != nil {
		t.Fatal(err)
	}
	if _, said, code := desk.Try("run", "list", "--key", identity); code != writ.ExitDenied || !strings.Contains(said, "SIGNER_UNKNOWN") {
		t.Errorf("a stranger: exit %d, %s", code, said)
	}
	if said := desk.Writ("login", "--web"); !strings.Contains(said, url+"/login#") {
		t.Errorf("writ login --web says %s", said)
	}
	desk.Writ("logout")
	if n := h.onlyTLS13(wireSecret, wireScript, wireArg, wireLog, wireOutput, "long-and-random", strings.TrimSpace(token)[:40]); n < 8 {
		t.Errorf("only %d directions of connections were seen", n)
	}
}
