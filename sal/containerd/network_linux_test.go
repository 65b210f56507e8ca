package containerd

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/netdev"
	"writ/sal/saltest"
)

// overlay is an overlay without other nodes.
type overlay struct{}

func (overlay) Subnet(context.Context) (netip.Prefix, error) {
	return netip.MustParsePrefix("400:aaaa:1:1::/64"), nil
}

func (overlay) Address(context.Context) (netip.Addr, error) {
	return netip.MustParseAddr("400:aaaa:1:1::1"), nil
}

// Promise: Networks and containers: Containers reach each other on their network under the same addresses after a
// reboot.
// How: The namespace is recreated from the id of its owner.
func TestContainersReachEachOtherOnTheirNetwork(t *testing.T) {
	b := newFixture(t, "")
	networks := &netdev.Driver{
		Dir: filepath.Join(b.host, "networks"), Overlay: overlay{}, Netns: testenv.Netns(t), Namespaces: filepath.Join(b.host, "namespaces"),
	}
	r := b.request("network.create", "lan", map[string]any{"ipv4": "10.77.0.0/24"}, nil)
	r.Resource.Kind = writ.KindNetwork
	if _, err := networks.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.driver.Networks = networks
	spec := map[string]any{"image": "busybox", "networks": []any{map[string]any{"kind": "network", "name": "lan", "uid": string(r.UID)}}}
	web, db := b.must("container.create", "web", spec), b.must("container.create", "db", spec)
	reaches := func(from string, to map[string]any) {
		t.Helper()
		address := netip.MustParseAddr(to["address"].(string))
		if !netip.MustParsePrefix("400:aaaa:1:1:ff0f::/80").Contains(address) {
			t.Errorf("%v has the address %s", to["name"], address)
		}
		b.sh(from, fmt.Sprintf("ping -6 -c 1 -w 20 %s", address))
	}
	reaches("web", db)
	reaches("db", web)
	if got := b.sh("web", "cat /etc/hosts"); !strings.Contains(got, web["address"].(string)+" web\n") {
		t.Errorf("it does not know its own name: %q", got)
	}
	ipv4, _ := web["ipv4"].(string)
	if a, err := netip.ParseAddr(ipv4); err != nil || !netip.MustParsePrefix("10.77.0.0/24").Contains(a) {
		t.Errorf("its IPv4 address is %q, %v", ipv4, web["ipv4_addresses"])
	}
	if got := b.sh("web", "cat /etc/hosts"); !strings.HasSuffix(got, "\n"+ipv4+" web\n") {
		t.Errorf("it does not know its own name by IPv4: %q", got)
	}
	b.sh("db", "ping -4 -c 1 -w 20 "+ipv4)
	used, err := b.driver.Usage(t.Context(), saltest.Resource(writ.KindContainer, "web"))
	if err != nil || used.Received == 0 || used.Sent == 0 || used.CPUs != 100 || used.MemoryMiB != 512 {
		t.Errorf("it uses %+v, %v", used, err)
	}

	// As after a reboot: no process and no namespace.
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
	b.mends(resource, "its process was gone; it was restarted")
	reaches("db", web)

	// An administrator deletes the namespace, but the process stays in it.
	if err := unix.Unmount(record.Own.Namespace, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if _, err := networks.Keep(t.Context(), r.Resource); err != nil {
		t.Fatal(err)
	}
	b.mends(resource, "its process was in another network namespace, and it was restarted")
	reaches("db", web)

	for _, name := range []string{"web", "db"} {
		b.must("container.delete", name, nil)
	}
	if owners, err := networks.Owners(t.Context()); len(owners) > 0 || err != nil {
		t.Errorf("something is still held: %v, %v", owners, err)
	}
}

// A program may listen on an address of its network alone, or on loopback alone.
func TestProbeReachesEachAddressOfItsContainer(t *testing.T) {
	b := newFixture(t, "")
	networks := &netdev.Driver{
		Dir: filepath.Join(b.host, "networks"), Overlay: overlay{}, Netns: testenv.Netns(t), Namespaces: filepath.Join(b.host, "namespaces"),
	}
	r := b.request("network.create", "lan", map[string]any{"ipv4": "10.77.0.0/24"}, nil)
	r.Resource.Kind = writ.KindNetwork
	if _, err := networks.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.driver.Networks = networks
	b.write("ok", "fine")
	lan := []any{map[string]any{"kind": "network", "name": "lan", "uid": string(r.UID)}}
	const own = `grep ' web$' /etc/hosts | cut -d ' ' -f 1`
	for name, listen := range map[string]string{
		"IPv6":          `"[$(` + own + ` | grep :)]:80"`,
		"IPv4":          `"$(` + own + ` | grep -v :):80"`,
		"IPv4 loopback": `127.0.0.1:80`,
		"IPv6 loopback": `"[::1]:80"`,
		"all":           `80`,
	} {
		args := checked("exec httpd -f -h /www -p "+listen, page("ok"))
		args["networks"] = lan
		args["health"].(map[string]any)["start_seconds"] = int64(20)
		if v := b.must("container.create", "web", args); v["health"] != "healthy" {
			t.Errorf("%s: it is %v", name, v["health"])
		}
		b.must("container.delete", "web", nil)
	}

	// Another container of the network has no part in a probe.
	args := checked(webServer, page("ok"))
	args["networks"] = lan
	b.must("container.create", "web", args)
	args = checked("sleep 1000", page("ok"))
	args["networks"] = lan
	if e := b.unhealthy("container.create", "silent", args); !strings.Contains(e.Message, "connection refused at port 80") {
		t.Error(e)
	}
	b.must("container.delete", "web", nil)
	if owners, err := networks.Owners(t.Context()); len(owners) > 0 || err != nil {
		t.Errorf("something is still held: %v, %v", owners, err)
	}
}
