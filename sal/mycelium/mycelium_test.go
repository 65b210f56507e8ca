//go:build linux

package mycelium

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"writ"
	"writ/internal/outbound"
	"writ/internal/sleep"
	"writ/internal/test/myceliumstub"
	"writ/internal/test/testenv"
	"writ/sal/needs"
)

// TestMain lets this program act as the stub if it is called by the daemon's name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "mycelium" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := myceliumstub.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// stub returns this program under the daemon's name.
func stub(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mycelium")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// both runs a test with the stub, and with the real daemon where it is on PATH: both must behave the same.
func both(t *testing.T, test func(t *testing.T, binary string)) {
	for name, binary := range map[string]func(testing.TB) string{
		"stub": stub,
		"real": func(t testing.TB) string { return testenv.Need(t, "mycelium") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, binary(t))
		})
	}
}

func public(t testing.TB, text string) *ecdh.PublicKey {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.X25519().NewPublicKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The keys are from mycelium's documentation, whose addresses date from the time of BLAKE2. The digests here were
// compared between two implementations of BLAKE3.
func TestAddressIsWhatTheDaemonDerives(t *testing.T) {
	for key, want := range map[string]string{
		"955bf6bea5e1150fd8e270c12e5b2fc08f08f7c5f3799d10550096cc137d671b": "514:74ce:dd13:296f:ada7:4d2e:9335:acac",
		"abd16194646defe7ad2318a0f0a69eb2e3fe939c3b0b51cf0bb88bb8028ecd1d": "597:d890:a254:dd45:2bc6:9a47:40d5:ed83",
		"a47c1d6f2a15b2c670d3a88fbe0aeb301ced12f7bcb4c8e3aa877b20f8559c02": "548:c783:d7ce:74a3:9ba1:a0cb:ae21:338d",
	} {
		got := Address(public(t, key))
		if got != netip.MustParseAddr(want) {
			t.Errorf("%s has %s, want %s", key, got, want)
		}
		if !Range.Contains(got) || !Subnet(got).Contains(got) || Subnet(got).Bits() != 64 {
			t.Errorf("%s: %s", got, Subnet(got))
		}
	}
}

func TestTheDaemonDerivesTheSameAddress(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := &Node{Dir: t.TempDir()}
		inspect := func() ([]byte, error) {
			cmd := exec.Command(binary, "--key-file", n.keyPath(), "inspect", "--json")
			cmd.Env = []string{"HOME=" + n.Dir, "XDG_CONFIG_HOME=" + n.Dir}
			return cmd.Output()
		}
		if text, err := inspect(); err == nil {
			t.Errorf("inspect without a key: %s", text)
		}
		want, err := n.Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := inspect()
		if err != nil {
			t.Fatal(err)
		}
		var said struct{ Address netip.Addr }
		if err := json.Unmarshal(text, &said); err != nil || said.Address != want {
			t.Errorf("got %s, want %s (%v)", text, want, err)
		}
	})
}

func TestStubWarnsThatItDoesNotEncrypt(t *testing.T) {
	text, err := exec.Command(stub(t), "--help").Output()
	if err != nil || !bytes.HasPrefix(text, []byte(myceliumstub.Warning)) {
		t.Errorf("--help: %s, %v", text, err)
	}
}

func TestKeyIsCreatedOnceAndPrivate(t *testing.T) {
	n := &Node{Dir: filepath.Join(t.TempDir(), "overlay")}
	first, err := n.Subnet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := (&Node{Dir: n.Dir}).Subnet(t.Context())
	if err != nil || again != first {
		t.Errorf("at first %s, then %s, %v", first, again, err)
	}
	info, err := os.Stat(n.keyPath())
	if err != nil || info.Mode() != 0o600 || info.Size() != 32 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if err := os.WriteFile(n.keyPath(), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Subnet(t.Context()); writ.CodeOf(err) != writ.CodeKeyUnusable || writ.AsError(err).Hint == "" {
		t.Errorf("damaged key: %v", err)
	}
}

// Promise: Machines and the overlay: A node keeps its addresses without its overlay daemon, restarts a dead daemon,
// and leaves another node's daemon alone.
// How: writ creates the key; it identifies the daemon by its command line and holds it by a handle.
// Also: TestDeadDaemonIsRestarted, TestDaemonIsAdoptedUnlessItsSettingsDiffer.
func TestHostWithoutDaemonHasAddresses(t *testing.T) {
	var log bytes.Buffer
	n := &Node{Dir: t.TempDir(), Options: Options{Binary: filepath.Join(t.TempDir(), "mycelium")}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	s, err := n.Status(t.Context())
	if err != nil || !s.Subnet.IsValid() || s.Running || !strings.Contains(s.Detail, "not on PATH") || n.Detail() != s.Detail {
		t.Errorf("%+v, %v", s, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// answering returns the client of a daemon with prepared answers.
func answering(t testing.TB, answers map[string]string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.Method+" "+r.URL.EscapedPath()]
		switch {
		case !ok:
			http.Error(w, "no such thing", http.StatusNotFound)
		case text == "":
			w.WriteHeader(http.StatusNoContent)
		case text == "exists":
			http.Error(w, text, http.StatusConflict)
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(s.Close)
	return &Client{URL: s.URL, HTTP: s.Client()}
}

func TestBothFormsOfEndpointsAreRead(t *testing.T) {
	c := answering(t, map[string]string{
		"GET /api/v1/admin/peers": `[
			{"endpoint":{"proto":"tcp","socketAddr":"192.0.2.7:9651"},"type":"static","connectionState":"alive","txBytes":7,"rxBytes":9,"discovered":3,"lastConnected":2},
			{"endpoint":{"proto":"quic","addr":{"socket":"[2001:db8::1]:9651"}},"type":"inbound","connectionState":"connecting","txBytes":0,"rxBytes":0,"discovered":3,"lastConnected":null},
			{"endpoint":{"proto":"vsock","addr":{"vsock":{"cid":2,"port":9651}}},"type":"static","connectionState":"dead","txBytes":0,"rxBytes":0}]`,
		"GET /api/v1/admin/routes/selected": `[{"subnet":"400:1:2:3::/64","nextHop":"TCP a <-> b","metric":20,"seqno":0},{"subnet":"500:1:2:3::/64","nextHop":"TCP a <-> c","metric":"infinite","seqno":0}]`,
	})
	peers, err := c.Peers(t.Context())
	want := []Peer{
		{Endpoint: "tcp://192.0.2.7:9651", Type: "static", State: "alive", Sent: 7, Received: 9},
		{Endpoint: "quic://[2001:db8::1]:9651", Type: "inbound", State: "connecting"},
		{Endpoint: "vsock://2:9651", Type: "static", State: "dead"},
	}
	if diff := cmp.Diff(want, peers); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	routes, err := c.Routes(t.Context())
	wantRoutes := []Route{
		{netip.MustParsePrefix("400:1:2:3::/64"), "TCP a <-> b", 20},
		{netip.MustParsePrefix("500:1:2:3::/64"), "TCP a <-> c", -1},
	}
	if diff := cmp.Diff(wantRoutes, routes, cmpopts.EquateComparable(netip.Prefix{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := answering(t, map[string]string{"GET /api/v1/admin/peers": `[{"endpoint":{"proto":"carrier pigeon"}}]`}).Peers(t.Context()); err == nil {
		t.Error("an unknown form is accepted as a peer")
	}
}

// The fields that the driver reads, and those that people see, are the same in both.
//
// Promise: Machines and the overlay: The stubs of mycelium and cloud-hypervisor answer, end and lock as the real
// programs do.
// How: The same tests run with both.
// Also: TestRequestsAreAnsweredAsTheRealProgramDoes, TestEveryEndHasItsCodeAndItsEvents,
// TestADiskIsLockedWhileTheMachineRuns.
func TestTheStubAnswersAsTheDaemonDoes(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := newNode(t, binary)
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		run(t, n)
		until(t, n, "a daemon", func(s Status) bool { return s.Running })
		c := n.Client()
		for _, tt := range []struct {
			ask, body string
			status    int
			answer    string // its beginning; the names of its fields if it is an object
		}{
			{"GET /admin", "", 200, "nodeIp nodePubkey nodeStartTime nodeSubnet"},
			{"GET /admin/peers", "", 200, "[]"},
			{"GET /admin/routes/selected", "", 200, "["},
			{"GET /admin/routes/fallback", "", 200, "[]"},
			{"GET /admin/routes/queried", "", 200, "[]"},
			{"POST /admin/peers", `{"endpoint":"tcp://192.0.2.7:9651"}`, 204, ""},
			{"POST /admin/peers", `{"endpoint":"tcp://192.0.2.7:9651"}`, 409, "A peer identified by that endpoint already exists"},
			{"POST /admin/peers", `{"endpoint":"192.0.2.7:9651"}`, 400, "missing leading protocol identifier"},
			{"POST /admin/peers", `{"endpoint":"dove://192.0.2.7:9651"}`, 400, "protocol for endpoint is not supported"},
			{"POST /admin/peers", `{"endpoint":"tcp://example.org:9651"}`, 400, "failed to parse address: invalid socket address syntax"},
			{"POST /admin/peers", `{"endpoint":`, 400, "Failed to parse the request body as JSON"},
			{"POST /admin/peers", `{}`, 422, "Failed to deserialize the JSON body into the target type"},
			{"GET /admin/peers", "", 200, "[connectionState discovered endpoint lastConnected rxBytes txBytes type"},
			{"DELETE /admin/peers/tcp%3A%2F%2F192.0.2.7%3A9651", "", 204, ""},
			{"DELETE /admin/peers/tcp%3A%2F%2F192.0.2.7%3A9651", "", 404, "A peer identified by that endpoint does not exist"},
			{"DELETE /admin/peers/nobody", "", 400, "missing leading protocol identifier"},
			{"GET /messages?timeout=0", "", 204, ""},
			{"GET /nothing", "", 404, ""},
			{"PUT /admin", "", 405, ""},
		} {
			method, path, _ := strings.Cut(tt.ask, " ")
			request, err := http.NewRequestWithContext(t.Context(), method, c.URL+"/api/v1"+path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := c.HTTP.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if got := fields(text); response.StatusCode != tt.status || !strings.HasPrefix(got, tt.answer) || tt.answer == "" && got != "" || err != nil {
				t.Errorf("%s %s = %d %s, want %d %s (%v)", tt.ask, tt.body, response.StatusCode, text, tt.status, tt.answer, err)
			}
		}
	})
}

// fields returns the field names of an object, or of the first object in a list. It returns other texts unchanged.
func fields(text []byte) string {
	var object map[string]any
	var list []map[string]any
	switch {
	case json.Unmarshal(text, &object) == nil:
		return strings.Join(slices.Sorted(maps.Keys(object)), " ")
	case json.Unmarshal(text, &list) == nil && len(list) > 0:
		return "[" + strings.Join(slices.Sorted(maps.Keys(list[0])), " ")
	}
	return string(text)
}

func TestPeerCallsAreIdempotent(t *testing.T) {
	c := answering(t, map[string]string{"POST /api/v1/admin/peers": "exists"})
	if err := c.AddPeer(t.Context(), "tcp://192.0.2.7:9651"); err != nil {
		t.Error(err)
	}
	if err := c.RemovePeer(t.Context(), "tcp://[2001:db8::1]:9651"); err != nil {
		t.Error(err)
	}
	c = answering(t, map[string]string{"POST /api/v1/admin/peers": "", "DELETE /api/v1/admin/peers/tcp:%2F%2F[2001:db8::1]:9651": ""})
	if err := c.AddPeer(t.Context(), "tcp://192.0.2.7:9651"); err != nil {
		t.Error(err)
	}
	if err := c.RemovePeer(t.Context(), "tcp://[2001:db8::1]:9651"); err != nil {
		t.Error(err)
	}
}

// pair returns two hosts on one wire.
func pair(t testing.TB, binary string) (a, b *Node) {
	t.Helper()
	ip := testenv.Need(t, "ip")
	a, b = newNode(t, binary), newNode(t, binary)
	a.Peers = []string{"tcp://10.0.0.2:9651"}
	for _, args := range []string{
		"link add wire type veth peer name other", "link set other netns " + b.Netns, "address add 10.0.0.1/24 dev wire", "link set wire up", "link set lo up",
	} {
		in(t, a, append([]string{ip}, strings.Fields(args)...)...)
	}
	for _, args := range []string{"address add 10.0.0.2/24 dev other", "link set other up", "link set lo up"} {
		in(t, b, append([]string{ip}, strings.Fields(args)...)...)
	}
	return a, b
}

func newNode(t testing.TB, binary string) *Node {
	t.Helper()
	n := &Node{
		Options: Options{Binary: binary, NoDiscovery: true},
		Dir:     testenv.Home(t, "m"), Netns: testenv.Netns(t), Log: slog.New(slog.DiscardHandler),
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(n.Dir, logName))
			t.Logf("the daemon said:\n%s", text)
		}
	})
	return n
}

// daemonOf returns the running daemon of a node, or nil.
func daemonOf(n *Node) (*process, error) { return findDaemon(n.name(), n.keyPath()) }

// in runs a tool in the namespace of a node.
func in(t testing.TB, n *Node, args ...string) (said string) {
	t.Helper()
	testenv.InNetns(t, n.Netns, func() error {
		text, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		said = string(text)
		if err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, text)
		}
		return nil
	})
	return said
}

// run runs a node until the test ends or stop is called.
func run(t testing.TB, n *Node) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// until waits for a status.
func until(t testing.TB, n *Node, what string, right func(Status) bool) (s Status) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); _ = sleep.For(t.Context(), 20*time.Millisecond) {
		var err error
		if s, err = n.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		if right(s) {
			return s
		}
	}
	t.Fatalf("%s does not come: %+v", what, s)
	return s
}

func TestTwoHostsReachEachOther(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		ping := testenv.Need(t, "ping")
		a, b := pair(t, binary)
		stopA := run(t, a)
		run(t, b)
		subnet, err := b.Subnet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := until(t, a, "a route to the other", func(s Status) bool {
			return s.Connected && slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Subnet == subnet })
		})
		if len(s.Peers) != 1 || s.Peers[0].Endpoint != a.Peers[0] || !strings.Contains(s.Detail, "1 of 1 peers alive") {
			t.Errorf("%+v", s)
		}
		told, err := a.Standing(t.Context())
		if err != nil || !told.Connected || told.PeerCount != 1 || told.Alive != 1 || told.Selected != len(s.Routes) || told.Peers[0].Endpoint != a.Peers[0] ||
			told.PID == 0 || !strings.HasPrefix(told.Version, "0.") || time.Since(told.Since).Abs() > time.Minute || told.Subnet != s.Subnet.String() {
			t.Errorf("%+v, %v", told, err)
		}
		there, err := b.Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in(t, a, ping, "-n", "-c", "3", "-i", "0.1", "-w", "20", there.String())
		stopA()
		if said := in(t, a, testenv.Need(t, "ip"), "-brief", "link"); strings.Contains(said, "mycelium") {
			t.Errorf("the interface is still there: %s", said)
		}
	})
}

func TestMissingAddressIsReported(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		a, b := pair(t, binary)
		run(t, a)
		run(t, b)
		until(t, a, "a peer", func(s Status) bool { return s.Connected })
		disableIPv6 := func(value string) {
			testenv.InNetns(t, a.Netns, func() error {
				return os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte(value), 0o644)
			})
		}
		disableIPv6("1")
		o, err := a.Standing(t.Context())
		kill := fmt.Sprintf("`kill %d`", o.PID)
		if err != nil || o.Connected || !strings.Contains(o.Detail, "no interface has the address "+o.Address) ||
			!strings.Contains(o.Detail, kill) {
			t.Fatalf("%+v, %v", o, err)
		}
		disableIPv6("0")
		in(t, a, "sh", "-c", strings.Trim(kill, "`"))
		until(t, a, "a peer again", func(Status) bool {
			again, err := a.Standing(t.Context())
			return err == nil && again.Connected && again.PID != o.PID
		})
	})
}

func TestDeadDaemonIsRestarted(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := newNode(t, binary)
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		run(t, n)
		until(t, n, "a daemon", func(s Status) bool { return s.Running })
		first, err := daemonOf(n)
		if err != nil || first == nil {
			t.Fatal("no daemon is found", err)
		}
		defer first.handle.Close()
		_ = first.handle.Signal(syscall.SIGKILL)
		until(t, n, "another daemon", func(s Status) bool {
			p, err := daemonOf(n)
			if err != nil || p == nil {
				return false
			}
			defer p.handle.Close()
			return s.Running && p.pid != first.pid
		})
	})
}

func TestDaemonIsAdoptedUnlessItsSettingsDiffer(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := newNode(t, binary)
		n.Outlive = true
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		pids := map[string]int{}
		for _, when := range []string{"first", "again", "with another peer"} {
			if when == "with another peer" {
				n.Peers = []string{"tcp://192.0.2.7:9651"}
			}
			stop := run(t, n)
			until(t, n, "a daemon "+when, func(s Status) bool {
				p, err := daemonOf(n)
				if err != nil || p == nil {
					return false
				}
				defer p.handle.Close()
				pids[when] = p.pid
				args, err := n.args(n.keyPath())
				return s.Running && err == nil && slices.Equal(p.args, args)
			})
			stop()
		}
		if pids["first"] != pids["again"] || pids["again"] == pids["with another peer"] {
			t.Errorf("the daemons are %v", pids)
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if p, err := daemonOf(n); p != nil || err != nil {
			t.Errorf("daemon after the stop = %+v, %v", p, err)
		}
	})
}

func TestFailedDaemonStartIsReported(t *testing.T) {
	n := newNode(t, filepath.Join(t.TempDir(), "mycelium"))
	if err := os.WriteFile(n.Binary, []byte("#!/bin/sh\necho this is no mycelium\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, n)
	until(t, n, "the reason", func(s Status) bool {
		return strings.Contains(s.Detail, "exit status 3") && strings.Contains(s.Detail, filepath.Join(n.Dir, logName))
	})
}

// The daemon continues without its port and only logs that.
//
// Promise: Machines and the overlay: A node reports an occupied port that keeps it out of the overlay.
// How: The node checks the port before it starts the daemon, which would continue without it.
func TestAPortInUseIsNamed(t *testing.T) {
	for network, address := range map[string]string{"tcp": ":9651", "tcp4": DefaultAPI} {
		n := newNode(t, stub(t))
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		var other io.Closer
		testenv.InNetns(t, n.Netns, func() (err error) {
			other, err = net.Listen(network, address)
			return err
		})
		run(t, n)
		for n.faultText() == "" && t.Context().Err() == nil {
			_ = sleep.For(t.Context(), time.Millisecond)
		}
		if why := n.faultText(); !strings.Contains(why, "on "+address) || !strings.Contains(why, "address already in use") {
			t.Errorf("it says %q", why)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidPeersAreRefused(t *testing.T) {
	for peer, ok := range map[string]bool{
		"tcp://192.0.2.7:9651": true, "tcp://[2001:db8::1]:9651": true, "tcp://[fe80::1%2]:9651": true, "vsock://2:9651": true,
		"quic://[2001:db8::1]:9651": false, "tls://192.0.2.7:9651": false, "tcp://[fe80::1%eth0]:9651": false, "tcp://192.0.2.7:0": false,
		"tcp://example.org:9651": false, "192.0.2.7:9651": false, "tcp://192.0.2.7": false, "dove://192.0.2.7:9651": false, "vsock://2": false, "": false,
	} {
		n := &Node{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Options: Options{Peers: []string{peer}}}
		ended, stop := context.WithCancel(t.Context())
		stop()
		if err := n.Run(ended); (writ.CodeOf(err) != writ.CodeUsage) != ok || ok && err != nil {
			t.Errorf("%q: %v", peer, err)
		} else if !ok && writ.AsError(err).Hint == "" {
			t.Errorf("%q: no hint", peer)
		}
	}
}

// With these peers, the daemon exits (name of an interface), reaches none (TLS), or loses packets (QUIC).
func TestRefusedPeersAreUnusable(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		ping := testenv.Need(t, "ping")
		n := newNode(t, binary)
		if _, err := n.Address(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := exec.Command(binary, keyFlag, n.keyPath(), "--no-tun", "--peers", "tcp://[fe80::1%eth0]:9651").Run()
		if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != 2 {
			t.Errorf("with the name of an interface: %v", err)
		}

		a, b := pair(t, binary)
		here, err := a.Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there, err := b.Address(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		byHand(t, b)
		byHand(t, a, "--peers", "quic://10.0.0.2:9651", "tls://10.0.0.2:9652")
		until(t, a, "a route to the other", func(s Status) bool { return s.Connected && len(s.Routes) > 0 })
		if s, err := a.Client().Peers(t.Context()); err != nil || slices.ContainsFunc(s, func(p Peer) bool { return strings.HasPrefix(p.Endpoint, "tls:") && p.Alive() }) {
			t.Errorf("by TLS it reaches %+v, %v", s, err)
		}
		const headers = 48 // of IPv6 and ICMP
		pings := func(bytes int, count string) bool {
			passed := false
			testenv.InNetns(t, a.Netns, func() error {
				passed = exec.Command(ping, "-n", "-c", count, "-i", "0.2", "-W", "1", "-M", "do", "-s", fmt.Sprint(bytes-headers), "-I", here.String(), there.String()).Run() == nil
				return nil
			})
			return passed
		}
		for end := time.Now().Add(time.Minute); !pings(1280, "1"); {
			if time.Now().After(end) {
				t.Fatal("small packets do not pass by QUIC either")
			}
		}
		if pings(MTU, "3") {
			t.Errorf("by QUIC, %d bytes pass", MTU)
		}
	})
}

// byHand starts a node's daemon with other arguments than the node would use.
func byHand(t *testing.T, n *Node, more ...string) {
	t.Helper()
	peers := n.Peers
	n.Peers = nil
	args, err := n.args(n.keyPath())
	n.Peers = peers
	if err != nil {
		t.Fatal(err)
	}
	const noQUIC = "--disable-quic"
	if !slices.Contains(args, noQUIC) {
		t.Error("the node accepts QUIC")
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == noQUIC })
	l := launch{dir: n.Dir, netns: n.Netns, ready: n.checkPorts, log: logFile{filepath.Join(n.Dir, logName), n.step}, step: n.step}
	p, err := l.start(append(append(args, "--quic-listen-port", "9651"), more...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop(context.Background())
		p.handle.Close()
	})
}

// Like daemons, which announce themselves only once a minute.
func TestStubsOnOneWireFindEachOther(t *testing.T) {
	t.Parallel()
	a, b := pair(t, stub(t))
	a.Peers, a.NoDiscovery, b.NoDiscovery = nil, false, false
	run(t, a)
	run(t, b)
	until(t, a, "the other", func(s Status) bool {
		return slices.ContainsFunc(s.Peers, func(p Peer) bool { return p.Alive() && (p.Type == "linkLocalDiscovery" || p.Type == "inbound") })
	})
}

// Two hosts are joined by two wires and search on the second one only.
func TestDiscoveryIsLimitedToInterfaces(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		a, b := pair(t, binary)
		ip := testenv.Need(t, "ip")
		in(t, a, ip, "link", "add", "second", "type", "veth", "peer", "name", "far", "netns", b.Netns)
		// Without duplicate address detection, addresses are usable at once: a daemon that cannot send its first beacon
		// sends the next one a minute later.
		const noDuplicates = "echo 0 >/proc/sys/net/ipv6/conf/$0/accept_dad && ip link set $0 up"
		in(t, a, "sh", "-c", noDuplicates, "second")
		in(t, b, "sh", "-c", noDuplicates, "far")
		a.Peers, a.NoDiscovery, b.NoDiscovery = nil, false, false
		a.DiscoveryOn, b.DiscoveryOn = []string{"second"}, []string{"far"}
		for _, n := range []*Node{a, b} {
			if err := n.CheckDiscovery(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, n)
		}
		until(t, a, "the other", func(s Status) bool {
			return slices.ContainsFunc(s.Peers, func(p Peer) bool { return p.Alive() && (p.Type == "linkLocalDiscovery" || p.Type == "inbound") })
		})
		status, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		onFirst := strings.Fields(in(t, b, ip, "-brief", "-6", "address", "show", "dev", "other", "scope", "link"))
		address, _, _ := strings.Cut(onFirst[2], "/")
		for _, p := range status.Peers {
			if strings.Contains(p.Endpoint, address) {
				t.Errorf("it found %s on the first wire", p.Endpoint)
			}
		}
	})
}

func TestImpossibleDiscoveryIsRejected(t *testing.T) {
	old := filepath.Join(t.TempDir(), "mycelium")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho 'Usage: mycelium --disable-peer-discovery'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(old), "empty"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*Options{
		"":                        {Binary: old},
		"cannot limit its search": {Binary: old, DiscoveryOn: []string{"eth1"}},
		"is disabled":             {Binary: stub(t), DiscoveryOn: []string{"eth1"}, NoDiscovery: true},
		"not the name":            {Binary: stub(t), DiscoveryOn: []string{"eth1", "--peers"}},
		"does not print its help": {Binary: filepath.Join(filepath.Dir(old), "empty"), DiscoveryOn: []string{"eth1"}},
	} {
		err := o.CheckDiscovery(t.Context())
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || writ.AsError(err).Hint == "") {
			t.Errorf("wanted %q, got %v", want, err)
		}
	}
	missing := &Options{Binary: filepath.Join(t.TempDir(), "mycelium"), DiscoveryOn: []string{"eth1"}}
	if err := missing.CheckDiscovery(t.Context()); err != nil {
		t.Errorf("without the program: %v", err)
	}
}

// A client that waits for a message blocks all others. The daemon must not be considered dead for that reason.
func TestBlockedDaemonIsNotRestarted(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := newNode(t, binary)
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		run(t, n)
		until(t, n, "a daemon", func(s Status) bool { return s.Running })
		ctx, stop := context.WithCancel(t.Context())
		held := make(chan error, 1)
		go func() { held <- n.Client().call(ctx, http.MethodGet, "/messages?timeout=2", nil, nil) }()
		if s, err := n.Status(t.Context()); err != nil || !s.Running {
			t.Errorf("%+v, %v", s, err)
		}
		stop()
		<-held
	})
}

// A daemon runs for months and keeps its log open.
func TestTheLogOfADaemonIsBounded(t *testing.T) {
	file := logFile{filepath.Join(t.TempDir(), logName), func(string) {}}
	if err := file.trim(); err != nil {
		t.Errorf("without a log: %v", err)
	}
	log, err := file.open()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	say := func(text string) {
		t.Helper()
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say(strings.Repeat("x", maxLog) + "the end")
	if err := file.trim(); err != nil {
		t.Fatal(err)
	}
	say("more")
	if err := file.trim(); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(file.path)
	old, errOld := os.ReadFile(file.path + ".old")
	if string(now) != "more" || len(old) != maxLog || !strings.HasSuffix(string(old), "the end") || err != nil || errOld != nil {
		t.Errorf("it has %d bytes, %v, and had %d, %v", len(now), err, len(old), errOld)
	}
}

func TestInvalidAnswerIsQuotedBriefly(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write(bytes.Repeat([]byte("\xff<p>"), 1<<18))
	}))
	defer s.Close()
	c := &Client{URL: s.URL, HTTP: s.Client()}
	if _, err := c.Info(t.Context()); err == nil || len(err.Error()) > 1000 || !utf8.ValidString(err.Error()) {
		t.Errorf("error of %d bytes", len(fmt.Sprint(err)))
	}
}

// A process in a container may have any arguments. It is neither adopted nor stopped.
//
// Promise: Repair and usage: A process in a container or of another user cannot impersonate the overlay daemon.
// How: Its user, process numbers and root directory must be the runner's own.
func TestContainerProcessIsNotTheDaemon(t *testing.T) {
	testenv.NeedRoot(t)
	const shell = "/bin/sh"
	for name, tt := range map[string]struct {
		as   syscall.SysProcAttr
		ours bool
	}{
		"as the runner starts it": {ours: true},
		"with numbers of its own": {as: syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}},
		"of another user":         {as: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}},
		"in a root of its own":    {as: syscall.SysProcAttr{Chroot: rootWith(t, shell)}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Dir: t.TempDir()}
			c := &exec.Cmd{Path: shell, Args: []string{"mycelium", "-c", "echo there; read word", keyFlag, n.keyPath()}, SysProcAttr: &tt.as}
			if tt.as.Chroot != "" {
				c.Path = "/sh"
			}
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				_ = c.Wait()
			}()
			if _, err := out.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			p, err := daemonOf(n)
			if p != nil {
				p.handle.Close()
			}
			if err != nil || (p != nil) != tt.ours {
				t.Errorf("it is the daemon: %v, %v", p != nil, err)
			}
		})
	}
}

// While a client waits for a message, the daemon answers no other. The node then reports the last answer and its age.
//
// Promise: Repair and usage: While the overlay daemon does not answer, its last answer is shown with its age, and
// drops are shown as usual.
// How: A background request asks the daemon; a caller waits three seconds at most.
// Also: TestRecordsOfNetworksStay.
func TestTheLastAnswerOfABusyDaemonIsReported(t *testing.T) {
	hold, reached := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	n := &Node{Dir: t.TempDir(), Options: Options{Binary: os.Args[0]}}
	subnet, err := n.Subnet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if held.Load() {
			reached <- struct{}{}
			<-hold
		}
		switch r.URL.Path {
		case "/api/v1/admin":
			fmt.Fprintf(w, `{"nodeSubnet":%q,"nodePubkey":""}`, subnet)
		case "/api/v1/admin/peers":
			fmt.Fprint(w, `[{"endpoint":{"proto":"tcp","socketAddr":"192.0.2.7:9651"},"type":"static","connectionState":"alive","txBytes":3,"rxBytes":4}]`)
		default:
			fmt.Fprint(w, `[]`)
		}
	}))
	defer s.Close()
	n.API = strings.TrimPrefix(s.URL, "http://")
	held.Store(true)
	inVain := func() (writ.Overlay, error) { // the daemon is asked after the deadline
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-reached
			cancel()
		}()
		return n.Standing(ctx)
	}
	if o, err := inVain(); err != nil || o.Address == "" || o.Running || !strings.Contains(o.Detail, "has not answered yet") {
		t.Errorf("before it ever answered: %+v, %v", o, err)
	}
	held.Store(false)
	hold <- struct{}{}
	n.inquiry.mu.Lock()
	answered := n.inquiry.pending
	n.inquiry.mu.Unlock()
	if answered != nil {
		<-answered
	}
	if o, err := n.Standing(t.Context()); err != nil || !o.Connected || o.Alive != 1 || o.Received != 4 || strings.Contains(o.Detail, "does not answer") {
		t.Errorf("when it answers: %+v, %v", o, err)
	}
	held.Store(true)
	defer func() {
		held.Store(false)
		close(hold)
	}()
	o, err := inVain()
	if err != nil || !o.Connected || len(o.Peers) != 1 || !strings.Contains(o.Detail, "does not answer now; 0s ago: 1 of 1 peers alive") {
		t.Errorf("while it is held up: %+v, %v", o, err)
	}
}

// rootWith returns a directory with a shell and its libraries.
func rootWith(t *testing.T, shell string) string {
	t.Helper()
	root := t.TempDir()
	linked, err := exec.Command("ldd", shell).Output()
	if err != nil {
		t.Skip("no ldd")
	}
	copied := map[string]string{shell: "/sh"}
	for word := range strings.FieldsSeq(string(linked)) {
		if strings.HasPrefix(word, "/") {
			copied[word] = word
		}
	}
	for from, to := range copied {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, filepath.Dir(to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, to), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestForeignDaemonIsNotAdopted(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		n := newNode(t, binary)
		in(t, n, testenv.Need(t, "ip"), "link", "set", "lo", "up")
		run(t, n)
		until(t, n, "a daemon", func(s Status) bool { return s.Running })
		other := &Node{Dir: t.TempDir(), Options: Options{Binary: n.Binary}, Netns: n.Netns}
		for who, want := range map[*Node]needs.State{n: needs.OK, other: needs.Degraded} {
			for _, f := range needs.Examine(t.Context(), "overlay", who.Needs()) {
				if f.Need == "the daemon's port" && f.State != want || f.Need == "tunnels" && f.State != needs.OK {
					t.Errorf("%+v", f)
				}
			}
		}
		if left, err := os.ReadDir(other.Dir); err != nil || len(left) > 0 {
			t.Errorf("looking left %v, %v", left, err)
		}
		s, err := other.Status(t.Context())
		if err != nil || s.Running || !strings.Contains(s.Detail, "another daemon") {
			t.Errorf("%+v, %v", s, err)
		}
		if err := other.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if s, err := n.Status(t.Context()); err != nil || !s.Running {
			t.Errorf("another node stopped it: %+v, %v", s, err)
		}
		if told, err := other.Standing(t.Context()); err != nil || told.Running || told.PID != 0 || told.Detail == "" || told.Address == "" {
			t.Errorf("Standing without a daemon = %+v, %v", told, err)
		}
	})
}

func TestProtocolSwitchEndsCalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.SwitchingServer(t, l)
	c := clientIn("", l.Addr().String())
	err = testenv.End(t, func() error { _, err := c.Info(t.Context()); return err })
	if !errors.Is(err, outbound.ErrSwitched) {
		t.Errorf("%v", err)
	}
}
