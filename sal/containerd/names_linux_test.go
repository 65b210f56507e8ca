package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/netdev"
	"writ/sal/saltest"
)

// A nameserver outside of the node is queried through a network that admits no incoming traffic, and its answer
// arrives.
//
// Promise: Databases: Members of a network receive exactly the nameservers that answer there.
// How: Ports list them by range; a container gets a read-only file, a machine cloud-init data; answers pass although
// other traffic is blocked.
// Also: TestNetworksGetReachableNameservers, TestHostNameserversAreRead, TestAMachineGetsTheNameserversOfItsNetworks.
func TestContainerUsesTheNodesNameservers(t *testing.T) {
	b := newFixture(t, "")
	program := testenv.Need(t, "ip")
	node, outside := testenv.Netns(t), testenv.Netns(t)
	ip := func(netns, line string) {
		t.Helper()
		testenv.InNetns(t, netns, func() error {
			if said, err := exec.Command(program, strings.Fields(line)...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %s: %w: %s", line, err, said)
			}
			return nil
		})
	}
	ip(node, "link add uplink type veth peer name uplink netns "+outside)
	for i, netns := range []string{node, outside} {
		ip(netns, fmt.Sprintf("address add 192.0.2.%d/24 dev uplink", i+1))
		ip(netns, "link set uplink up")
	}
	asked := serveNames(t, outside, "192.0.2.2:53", map[string]string{"shop.example.org": "203.0.113.7"})

	networks := &netdev.Driver{
		Dir: filepath.Join(b.host, "networks"), Overlay: overlay{}, Netns: node, Namespaces: filepath.Join(b.host, "namespaces"),
	}
	// The first is the node itself, which does not answer.
	servers := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	networks.Nameservers = func() []netip.Addr { return servers }
	spec := map[string]any{"image": "busybox"}
	r := b.request("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"}, nil)
	r.Resource.Kind = writ.KindNetwork
	if _, err := networks.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	spec["networks"] = []any{map[string]any{"kind": "network", "name": "front", "uid": string(r.UID)}}
	b.driver.Networks = networks
	b.must("container.create", "web", spec)
	if said := b.sh("web", "nslookup shop.example.org"); !strings.Contains(said, "203.0.113.7") {
		t.Errorf("it finds %q", said)
	}
	if asked.Load() == 0 {
		t.Error("nobody asked")
	}
	if has := b.sh("web", "cat /etc/resolv.conf"); has != "nameserver 192.0.2.2\n" {
		t.Errorf("its resolv.conf is %q", has)
	}
	b.sh("web", "! echo nameserver 203.0.113.1 2>/dev/null >/etc/resolv.conf")

	// Unsolicited traffic does not come in, even from the same nameserver.
	ip(outside, "route add 10.77.0.0/24 via 192.0.2.1")
	address := strings.TrimSpace(b.sh("web", "ip -4 -o address show dev eth0 | sed 's/.*inet //; s,/.*,,'"))
	testenv.InNetns(t, outside, func() error {
		conn, err := net.Dial("udp", address+":5353")
		if err == nil {
			_, err = conn.Write([]byte("x"))
			err = errors.Join(err, conn.Close())
		}
		return err
	})
	b.eventually("the packet is dropped", func() bool {
		state, err := networks.Network(t.Context())
		return err == nil && state.Denied > 0
	})

	// The host changes its nameserver. A container gets the new one at its next start.
	servers = []netip.Addr{netip.MustParseAddr("192.0.2.3")}
	b.must("container.stop", "web", nil)
	b.must("container.start", "web", nil)
	if has := b.sh("web", "cat /etc/resolv.conf"); has != "nameserver 192.0.2.3\n" {
		t.Errorf("after a change its resolv.conf is %q", has)
	}
	servers = nil
	b.must("container.stop", "web", nil)
	b.must("container.start", "web", nil)
	if has := b.sh("web", "cat /etc/resolv.conf"); has != "" {
		t.Errorf("when there are none any more its resolv.conf is %q", has)
	}

	place := placeOf(b.driver.Dir, saltest.Resource(writ.KindContainer, "web"))
	if _, err := os.Stat(filepath.Join(place, "resolv.conf")); err != nil {
		t.Error(err)
	}
	b.must("container.delete", "web", nil)
	if _, err := os.Stat(place); !os.IsNotExist(err) {
		t.Errorf("its files are still there: %v", err)
	}
}

// serveNames answers DNS queries for IPv4 addresses in a network namespace, and counts the queries.
func serveNames(t *testing.T, netns, address string, names map[string]string) *atomic.Int64 {
	t.Helper()
	var conn net.PacketConn
	testenv.InNetns(t, netns, func() (err error) {
		conn, err = net.ListenPacket("udp", address)
		return err
	})
	asked, done := new(atomic.Int64), make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for buffer := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return // closed
			}
			asked.Add(1)
			if answer := answerTo(buffer[:n], names); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return asked
}

// answerTo returns the answer to a DNS question (RFC 1035), or nil for another message: the address of a name, or an
// empty answer.
func answerTo(question []byte, names map[string]string) []byte {
	const header, typeA = 12, 1
	var labels []string
	at := header
	for at < len(question) && question[at] != 0 {
		end := at + 1 + int(question[at])
		if end >= len(question) {
			return nil
		}
		labels, at = append(labels, string(question[at+1:end])), end
	}
	end := at + 5 // end of the name, plus type and class
	if end > len(question) {
		return nil
	}
	answer := bytes.Clone(question[:end])
	// A response of a recursive server to one question.
	copy(answer[2:header], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	address, known := names[strings.Join(labels, ".")]
	switch {
	case !known:
		answer[3] |= 3 // NXDOMAIN
	case question[end-3] == typeA:
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 60, 0, 4)
		answer = append(answer, netip.MustParseAddr(address).AsSlice()...)
	}
	return answer
}
