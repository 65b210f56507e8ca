package main

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// The IPv6-only network of a test.
const (
	boot6Router = "fe80::1"
	boot6Host   = "fd77::1"
	boot6Net    = "fd77::/64"
	boot6Node   = "fd77::5054:ff:fe77:50/64" // derived from the address of its card
)

// advertiseIPv6 makes this host act as a router on the bridge until the test ends.
func advertiseIPv6(t *testing.T) {
	t.Helper()
	lan, err := net.InterfaceByName("lan")
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := ndp.Listen(lan, boot6Router)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.JoinGroup(netip.IPv6LinkLocalAllRouters()); err != nil {
		t.Fatal(err)
	}
	network := netip.MustParsePrefix(boot6Net)
	says := &ndp.RouterAdvertisement{RouterLifetime: time.Hour, Options: []ndp.Option{&ndp.PrefixInformation{
		PrefixLength: uint8(network.Bits()), Prefix: network.Addr(), OnLink: true, AutonomousAddressConfiguration: true, ValidLifetime: time.Hour, PreferredLifetime: time.Hour,
	}}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			asks, _, _, err := conn.ReadFrom()
			if err != nil {
				return
			}
			if asks.Type() != ipv6.ICMPTypeRouterSolicitation {
				continue
			}
			if err := conn.WriteTo(says, nil, netip.IPv6LinkLocalAllNodes()); err != nil {
				t.Errorf("advertise: %v", err)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
}

// A machine starts in a network with only IPv6 and a router, joins with a token and executes a signed job.
func TestAMachineJoinsInANetworkWithIPv6Only(t *testing.T) {
	testenv.Nightly(t, "TestACardFollowsItsRouter of package efi/boot has such a network, and TestTheFirstProcessPreparesAMachine a machine with IPv6 besides")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	testenv.Unpacked(t, testenv.FirmwareCode)
	if !testcluster.Alone(t, "") {
		return
	}
	tap := newBridge(t, boot6Router+"/64 nodad", boot6Host+"/64 nodad")
	advertiseIPv6(t)
	s := testcluster.New(t, "WRIT_REDIS_LISTEN=["+boot6Host+"]:6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: "[" + boot6Host + "]:7441"})
	s.Script("ping.tengo", `
node := import("node")
run := import("run")
node.ping({}, {node: "six"})
run.output({said: "pong"})
`)
	image := filepath.Join(t.TempDir(), "node.efi")
	s.Writ("efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t), "--image", image)
	token := strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
	v := startVM(t, tap, "-kernel", image, "-append", bootWords+"writ.name=six writ.join="+token+" writ.supervisor=https://["+boot6Host+"]:7441 writ.redis=rediss://["+boot6Host+"]:6379/0")
	v.await("eth0 " + boot6Node + ", gateway " + boot6Router + ", advertised by a router for ")
	v.await("This machine serves as a node.")
	v.await("has " + boot6Node)
	s.Until("the node is in the list", func(context.Context) bool { return strings.Contains(s.Writ("node", "list"), "six") })
	if said := s.Writ("submit", "ping.tengo"); !strings.Contains(said, "pong") {
		t.Errorf("output of the run = %s", said)
	}
	v.pressPower()
	if strings.Contains(v.said(), "error:") {
		t.Error("a stage failed")
	}
	t.Logf("the machine said:\n%s", v.said())
}
