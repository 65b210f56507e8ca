package containerd

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/netns"
	"writ/internal/opening"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/netdev"
	"writ/sal/saltest"
)

// publishing is a fixture whose containers can publish ports 8080 to 8089 of loopback in a network namespace.
type publishing struct {
	*fixture
	node     string // file of the network namespace
	networks *netdev.Driver
}

func newPublishing(t *testing.T) publishing {
	t.Helper()
	b := publishing{fixture: newFixture(t, ""), node: testenv.Netns(t)}
	open, err := opening.ParseList([]string{"127.0.0.1:8080-8089"})
	if err != nil {
		t.Fatal(err)
	}
	b.networks = &netdev.Driver{ // without an overlay
		Dir: filepath.Join(b.host, "networks"), Netns: b.node, Namespaces: filepath.Join(b.host, "namespaces"), Open: open,
	}
	ip := testenv.Need(t, "ip")
	testenv.InNetns(t, b.node, func() error { return exec.Command(ip, "link", "set", "lo", "up").Run() })
	b.driver.Networks = b.networks
	return b
}

// named returns the arguments of a container with a web server that answers with a name.
func named(name string, ports ...int64) map[string]any {
	var publish []any
	for _, port := range ports {
		publish = append(publish, map[string]any{"port": port, "to": int64(80), "protocol": "tcp"})
	}
	return map[string]any{
		"image": "busybox", "command": []any{"sh", "-c", "mkdir -p /www; echo " + name + " > /www/name; exec httpd -f -p 80 -h /www"}, "publish": publish,
	}
}

// dial connects to a published port. Only this thread enters the network namespace, until the connection is open.
func (b publishing) dial(port int) (c net.Conn, err error) {
	leave, err := netns.Enter(b.node)
	if err != nil {
		return nil, err
	}
	defer leave()
	return net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
}

// ask returns the answer of a web server at a published port.
func (b publishing) ask(port int) (text string, err error) {
	c, err := b.dial(port)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, "GET /name HTTP/1.0\r\n\r\n")
	all, err := io.ReadAll(c)
	return string(all), err
}

// answers is ask without an error.
func (b publishing) answers(port int) string {
	text, _ := b.ask(port)
	return text
}

// Promise: Networks and containers: A container without networks can publish ports of its node. They follow changes of
// its spec and a reboot, survive a failed change, and end with it.
// How: The container gets a network namespace with a link of its own; a change of ports alone does not replace it.
func TestPublishedPortLeadsToItsContainer(t *testing.T) {
	t.Parallel()
	b := newPublishing(t)
	node, networks, with, answers := b.node, b.networks, named, b.answers
	serves := func(name string, port int) {
		t.Helper()
		b.eventually(fmt.Sprintf("%s answers on port %d", name, port), func() bool {
			return strings.HasSuffix(answers(port), "\r\n\r\n"+name+"\n")
		})
	}
	id := func(name string) string {
		t.Helper()
		r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, name))
		if err != nil {
			t.Fatal(err)
		}
		return r.Own.Container
	}

	web := b.must("container.create", "web", with("web", 8080))
	serves("web", 8080)
	if got := fmt.Sprint(web["published"]); got != "[map[address:127.0.0.1 port:8080 protocol:tcp to:80]]" {
		t.Errorf("published are %s", got)
	}
	if _, err := b.do("container.create", "other", with("other", 8080)); writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), "container web publishes it") {
		t.Errorf("another container publishes the port: %v", err)
	}
	if owners, err := networks.Owners(t.Context()); len(owners) != 1 || err != nil {
		t.Errorf("owners are %v, %v", owners, err)
	}

	first := id("web")
	b.must("container.create", "web", with("web", 8081, 8082))
	serves("web", 8081)
	serves("web", 8082)
	if id("web") != first || answers(8080) != "" {
		t.Errorf("the container was replaced by %s, and port 8080 answers %q", id("web"), answers(8080))
	}

	b.must("container.create", "bare", with("bare"))
	broken := with("web", 8084)
	broken["command"] = []any{"/missing"}
	for _, name := range []string{"web", "bare"} {
		if _, err := b.do("container.create", name, broken); err == nil {
			t.Errorf("%s runs a program that is missing", name)
		}
		if drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, name)); err != nil || len(drift) > 0 {
			t.Errorf("%s has drifted after a failed change: %v, %v", name, drift, err)
		}
	}
	serves("web", 8081)
	if answers(8084) != "" {
		t.Error("a failed change publishes its port")
	}
	if owners, err := networks.Owners(t.Context()); len(owners) != 1 || err != nil {
		t.Errorf("owners are %v, %v", owners, err)
	}
	b.must("container.create", "bare", with("bare", 8085))
	serves("bare", 8085)
	b.must("container.stop", "bare", nil)
	b.must("container.start", "bare", nil)
	serves("bare", 8085)

	// As after a reboot: no process, no namespace, no link.
	resource := saltest.Resource(writ.KindContainer, "web")
	record, err := recordsIn(b.driver.Dir).Get(resource)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: resource, Progress: func(string) {}}}
	if err := j.end(b.driver.in(t.Context()), record, record.Own.Container, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(record.Own.Namespace, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	nft := testenv.Need(t, "nft")
	testenv.InNetns(t, node, func() error { return exec.Command(nft, "flush", "ruleset").Run() })
	b.mends(resource, "its process was gone; it was restarted")
	serves("web", 8081)
	testenv.InNetns(t, node, func() error { return exec.Command(nft, "flush", "ruleset").Run() })
	if drift, err := b.driver.Keep(t.Context(), resource); err != nil || len(drift) == 0 {
		t.Errorf("drift is %v, %v", drift, err)
	}
	serves("web", 8081)

	b.must("container.create", "web", with("web"))
	if answers(8081) != "" {
		t.Error("a port answers that is published no longer")
	}
	for _, name := range []string{"web", "bare"} {
		b.must("container.delete", name, nil)
	}
	if owners, err := networks.Owners(t.Context()); len(owners) > 0 || err != nil {
		t.Errorf("left are %v, %v", owners, err)
	}
}

// The port of an HTTP check is the port to which published ports lead.
func TestHealthPortFollowsPublishedPort(t *testing.T) {
	b := newPublishing(t)
	with := func(to ...int64) map[string]any {
		args := named("web")
		var ports []any
		for i, port := range to {
			ports = append(ports, map[string]any{"port": int64(8080 + i), "to": port, "protocol": "tcp"})
		}
		args["publish"], args["health"] = ports, quick(map[string]any{"http": "/name"})
		return args
	}
	if v := b.must("container.create", "web", with(80)); v["health"] != "healthy" {
		t.Errorf("it is %v", v["health"])
	}
	if e := b.unhealthy("container.create", "web", with(81)); !strings.Contains(e.Message, "connection refused at port 81") {
		t.Error(e)
	}
	if got := b.answers(8080); !strings.HasSuffix(got, "web\n") {
		t.Errorf("after the failed change, the port answers %q", got)
	}
	for name, to := range map[string][]int64{"no port": nil, "two ports": {80, 81}} {
		for _, of := range []string{"web", "new"} {
			if _, err := b.do("container.create", of, with(to...)); writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), "health.http needs health.port") {
				t.Errorf("%s of %s: %v", name, of, err)
			}
		}
	}
	if drift := b.drift("web"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	b.must("container.delete", "web", nil)
}
