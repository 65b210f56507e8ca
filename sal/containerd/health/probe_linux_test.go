package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/logfile"
)

// own is an address of the interfaces of a test's container.
const own = "10.9.8.7"

// guest is a container: a network namespace, in which a test runs servers.
type guest struct {
	testing.TB
	namespace string
	exec      func(ctx context.Context, command []string) (int64, string, error)
}

func newGuest(t testing.TB) *guest {
	t.Helper()
	g := &guest{TB: t, namespace: testenv.Netns(t)}
	g.ip("link set lo up", "address add "+own+"/32 dev lo", "address add fd00::7/128 dev lo nodad")
	return g
}

// ip runs commands of the program ip in the namespace.
func (g *guest) ip(lines ...string) {
	g.Helper()
	ip := testenv.Need(g, "ip")
	testenv.InNetns(g, g.namespace, func() error {
		for _, line := range lines {
			if said, err := exec.Command(ip, strings.Fields(line)...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %s: %w: %s", line, err, said)
			}
		}
		return nil
	})
}

func (g *guest) Ready(context.Context) error { return nil }

func (g *guest) Network(context.Context) (*os.File, error) { return os.Open(g.namespace) }

func (g *guest) Exec(ctx context.Context, command []string) (int64, string, error) {
	return g.exec(ctx, command)
}

func (g *guest) Report(error) {}

func (g *guest) Clean(text string, isCut bool) string {
	secrets := logfile.Secrets{"s3cr3t": "(secret)"}
	if isCut {
		return secrets.HidePart([]byte(text))
	}
	return secrets.Hide([]byte(text))
}

// serve answers each connection to an address in the namespace, until the test ends.
func (g *guest) serve(address string, answer func(net.Conn)) {
	g.Helper()
	var l net.Listener
	testenv.InNetns(g, g.namespace, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	g.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c)
			}()
		}
	}()
}

// says returns an answer that reads a request and then writes a text.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, text)
	}
}

func httpAt(port uint16) Check {
	return Check{HTTP: "/healthz?deep=1", Port: port, Timeout: 20 * time.Second, Interval: time.Minute, Retries: 1}
}

// failure returns the failure of a probe.
func (g *guest) failure(c Check) *Failure {
	g.Helper()
	err := Probe(g.Context(), g, c)
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		g.Fatalf("the probe returned %v", err)
	}
	return f
}

func TestProbeTriesAllOwnAddresses(t *testing.T) {
	g := newGuest(t)
	for i, host := range []string{"0.0.0.0", own, "127.0.0.1", "[::1]", "[fd00::7]", "[::]"} {
		port := uint16(8000 + i)
		g.serve(fmt.Sprintf("%s:%d", host, port), says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
		c := httpAt(port)
		if err := Probe(t.Context(), g, c); err != nil {
			t.Errorf("http at %s: %v", host, err)
		}
		c.HTTP, c.TCP = "", true
		if err := Probe(t.Context(), g, c); err != nil {
			t.Errorf("tcp at %s: %v", host, err)
		}
	}
	if f := g.failure(httpAt(9999)); f.Cause != "connection refused at port 9999" || f.Detail != "" {
		t.Errorf("without a listener: %v", f)
	}
}

// The kernel refuses an IPv6 address until it has found no duplicate of it. Without a carrier, that lasts.
func TestUnusableAddressIsSkipped(t *testing.T) {
	g := newGuest(t)
	g.ip("link add lan type veth peer name far", "address add fd00::8/64 dev lan", "link set lan up")
	g.serve("127.0.0.1:80", says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	if err := Probe(t.Context(), g, httpAt(80)); err != nil {
		t.Error(err)
	}
	if f := g.failure(httpAt(81)); f.Cause != "connection refused at port 81" {
		t.Error(f)
	}
}

// Clients of a container use the addresses of its networks.
func TestInterfacePrecedesLoopback(t *testing.T) {
	g := newGuest(t)
	g.serve(own+":80", says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	g.serve("127.0.0.1:80", says("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
	if err := Probe(t.Context(), g, httpAt(80)); err != nil {
		t.Error(err)
	}
}

// Without a listener, a socket can connect to itself if the kernel chooses the same port for both of its ends.
func TestSocketIsNotItsOwnServer(t *testing.T) {
	g := newGuest(t)
	testenv.InNetns(t, g.namespace, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40000"), 0o644)
	})
	if f := g.failure(Check{TCP: true, Port: 40000, Timeout: 20 * time.Second}); f.Cause != "connection refused at port 40000" {
		t.Error(f)
	}
}

func TestHostIsNeverProbed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := Check{TCP: true, Port: uint16(l.Addr().(*net.TCPAddr).Port), Timeout: 20 * time.Second}
	if f := newGuest(t).failure(c); !strings.Contains(f.Cause, "refused") {
		t.Errorf("a port of the host: %v", f)
	}
	if f := (&guest{TB: t, namespace: "/proc/self/ns/net"}).failure(c); !strings.Contains(f.Error(), "network of the host") {
		t.Errorf("the namespace of the host: %v", f)
	}
}

func TestStatusDecides(t *testing.T) {
	g := newGuest(t)
	var elsewhere atomic.Int64
	g.serve(own+":81", func(net.Conn) { elsewhere.Add(1) })
	for i, c := range []struct {
		answer, cause, detail string
	}{
		{"HTTP/1.1 200 OK\r\n\r\n", "", ""},
		{"HTTP/1.1 204 No Content\r\n\r\n", "", ""},
		{"HTTP/1.0 399 Odd\r\n\r\n", "", ""},
		{"HTTP/1.1 302 Found\r\nLocation: http://" + own + ":81/\r\n\r\n", "", ""},
		{"HTTP/1.1 307 Moved\r\nLocation: http://169.254.169.254/latest/\r\n\r\n", "", ""},
		{"HTTP/1.1 400 Bad\r\n\r\n", "status 400", ""},
		{"HTTP/1.1 503 Away\r\n\r\nno s3cr3t\r\ndatabase\x1b[31m", "status 503", "no (secret); database [31m"},
		{"HTTP/1.1 500 No\r\nContent-Length: 5000\r\n\r\nshort", "status 500", "short"},
		{"SSH-2.0-OpenSSH_10\r\n", "no HTTP answer", "malformed HTTP response"},
		{"", "no HTTP answer", "EOF"},
	} {
		port := uint16(9000 + i)
		g.serve(fmt.Sprintf("0.0.0.0:%d", port), says(c.answer))
		if c.cause == "" {
			if err := Probe(t.Context(), g, httpAt(port)); err != nil {
				t.Errorf("%.40q: %v", c.answer, err)
			}
			continue
		}
		if f := g.failure(httpAt(port)); !strings.HasPrefix(f.Cause, c.cause) || !strings.HasSuffix(f.Cause, fmt.Sprintf(" /healthz?deep=1 on port %d", port)) || !strings.HasPrefix(f.Detail, c.detail) || (c.detail == "") != (f.Detail == "") {
			t.Errorf("%.40q: cause %q, detail %q", c.answer, f.Cause, f.Detail)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestRequestNamesPathAndAddress(t *testing.T) {
	g := newGuest(t)
	got := make(chan string, 1)
	g.serve("0.0.0.0:8080", func(c net.Conn) {
		text := make([]byte, 4096)
		n, _ := c.Read(text)
		got <- string(text[:n])
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	})
	if err := Probe(t.Context(), g, httpAt(8080)); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.HasPrefix(text, "GET /healthz?deep=1 HTTP/1.1\r\nHost: "+own+":8080\r\nUser-Agent: writ-health\r\n") {
		t.Errorf("the request is %q", text)
	}
}

// Promise: Networks and containers: A hostile program cannot make a health check follow redirects, read endless answers
// or exceed its timeout.
// How: A probe makes one request, reads at most 16 KiB of header and 1 KiB of body, and ends at its deadline.
// Also: TestStatusDecides, TestHostIsNeverProbed.
func TestHostileServerIsCutOff(t *testing.T) {
	const most = 9 << 20 // the buffers of both sockets, with a margin; the default limit of a header is 10 MiB
	for name, c := range map[string]struct {
		answer string // before the flood
		flood  string // repeated until the connection breaks; "" for silence
		cause  string
		waits  bool // until the timeout
	}{
		"endless header":        {"HTTP/1.1 200 OK\r\n", "X-Filler: " + strings.Repeat("x", 1000) + "\r\n", "no HTTP answer", false},
		"endless header line":   {"HTTP/1.1 200 OK\r\nX-Filler: ", strings.Repeat("x", 1000), "no HTTP answer", false},
		"endless status line":   {"HTTP/1.1 200 ", strings.Repeat("x", 1000), "no HTTP answer", false},
		"endless early answers": {"", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", "no HTTP answer", false},
		"endless body":          {"HTTP/1.1 500 No\r\n\r\n", strings.Repeat("x", 1000), "status 500", false},
		"silence":               {"", "", "no answer to", true},
		"silence in the header": {"HTTP/1.1 200 OK\r\nX-", "", "no answer to", true},
		"silence in the body":   {"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n", "", "status 500", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuest(t)
			var connections, sent atomic.Int64
			broken := make(chan struct{})
			g.serve("0.0.0.0:80", func(conn net.Conn) {
				defer close(broken)
				connections.Add(1)
				says(c.answer)(conn)
				for c.flood != "" && sent.Load() < 2*most {
					n, err := io.WriteString(conn, c.flood)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
				if c.flood == "" {
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			check := httpAt(80)
			if c.waits {
				check.Timeout = 300 * time.Millisecond
			}
			if f := g.failure(check); !strings.HasPrefix(f.Cause, c.cause) || len(f.Detail) > 2*maxDetail {
				t.Errorf("it fails with %q and %d bytes of detail", f.Cause, len(f.Detail))
			}
			select {
			case <-broken:
			case <-time.After(20 * time.Second):
				t.Error("the connection is still open")
			}
			if connections.Load() != 1 || sent.Load() >= most {
				t.Errorf("it accepted %d connections and %d bytes", connections.Load(), sent.Load())
			}
		})
	}
}

func TestFullBacklogTimesOut(t *testing.T) {
	g := newGuest(t)
	testenv.InNetns(t, g.namespace, func() error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { syscall.Close(fd) })
		if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: 80}); err != nil {
			return err
		}
		return syscall.Listen(fd, 0) // no program accepts connections
	})
	c := Check{TCP: true, Port: 80, Timeout: 300 * time.Millisecond}
	for range 10 { // the kernel accepts the first one or two
		ctx, cancel := context.WithTimeout(t.Context(), c.Timeout)
		conn, err := dial(ctx, open(t, g), 80)
		if cancel(); err != nil {
			break
		}
		defer conn.Close()
	}
	if f := g.failure(c); f.Cause != "no connection to port 80 within 300ms" {
		t.Errorf("the probe returned %v", f)
	}
}

func open(t testing.TB, g *guest) *os.File {
	t.Helper()
	f, err := g.Network(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// switches answers a request with a switch of protocols, and then sends nothing.
func switches(c net.Conn) {
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	_, _ = c.Read(make([]byte, 1)) // until the probe closes the connection
}

// A probe ends after its timeout, also if the program switches protocols. Otherwise the operations that interrupt it
// would never end.
func TestProbeEndsAfterSwitchOfProtocols(t *testing.T) {
	g := newGuest(t)
	g.serve("0.0.0.0:8000", switches)
	if f := g.failure(httpAt(8000)); !strings.HasPrefix(f.Error(), "status 101 for ") {
		t.Errorf("the probe failed with %v", f)
	}
	long := httpAt(8000)
	long.Timeout = time.Hour
	var b Book
	running, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(running, func(ctx context.Context, s Subject) error {
			begun <- struct{}{}
			return Probe(ctx, g, s.Check)
		}, func(context.Context, Subject) {})
	}()
	web := writ.ResourceID{Project: "p", Kind: writ.KindContainer, Name: "web"}
	b.Watch(Subject{Resource: web, Container: "web-1", Check: long}, nil)
	<-begun
	b.Interrupt(web)
	cancel()
	<-ended
}

// A probe reads only the beginning of an answer, which may end inside a secret.
func TestDetailHasNoPartOfASecret(t *testing.T) {
	g := newGuest(t)
	body := strings.Repeat("x", maxBody-4) + "s3cr3t and more"
	g.serve("0.0.0.0:8000", says("HTTP/1.1 500 x\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body))
	if f := g.failure(httpAt(8000)); !strings.HasSuffix(f.Detail, "x") {
		t.Errorf("the detail ends with a part of the secret: %q", f.Detail)
	}
}
