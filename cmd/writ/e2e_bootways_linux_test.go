package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// A machine without a token starts in each of four ways: from a USB stick, from a CD, with iPXE over HTTP, and from a
// kernel without firmware. It waits for its approval and then continues without a restart.
//
// Promise: Machines from an image: A machine without a token starts from a USB stick, a CD, iPXE over HTTP or a bare
// kernel, and is ready after approval.
// How: One image, with its settings on a disk, in a script or on a command line; approval needs no further start.
func TestAMachineWithoutATokenStartsInEachWay(t *testing.T) {
	testenv.Nightly(t, "TestAMachineThatWaitsShowsHowToApproveIt of package efi/boot has the page, and TestTheFirstProcessPreparesAMachine there starts a machine from a kernel")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	needIPXE(t)
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	testenv.Unpacked(t, testenv.FirmwareCode)
	if !testcluster.Alone(t, "") {
		return
	}
	const script = "http://" + bootHost + ":8080/boot/ipxe"
	tap := newLAN(t, dhcpv4.WithOption(dhcpv4.OptBootFileName(script)), func(m *dhcpv4.DHCPv4) { m.BootFileName = script })
	s := testcluster.New(t, "WRIT_REDIS_LISTEN="+bootHost+":6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: bootHost + ":7441"})
	token := strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "node.efi"), filepath.Join(dir, "node.img")
	settings := []string{"--cluster", strings.Split(token, ".")[3], "--supervisor", "https://" + bootHost + ":7441", "--redis", "rediss://" + bootHost + ":6379/0"}
	s.Writ("efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t), "--image", image)
	s.Writ(append([]string{"efi", "disk", "--image", image, "--disk", disk}, settings...)...)
	boots := serveBoot(t, append([]string{"--listen", bootHost + ":8080", "--image", image}, settings...)...)
	defer boots.stop()

	drive := []string{"-drive", "if=none,id=d0,format=raw,readonly=on,file=" + disk}
	words := bootWords + "writ.cluster=" + settings[1] + " writ.supervisor=" + settings[3] + " writ.redis=" + settings[5]
	for _, way := range []struct {
		name  string
		start func() *vm
	}{
		{"USB stick", func() *vm {
			return startVM(t, tap, append(drive, "-device", "qemu-xhci", "-device", "usb-storage,drive=d0,bootindex=1")...)
		}},
		{"CD", func() *vm { return startVM(t, tap, append(drive, "-device", "ide-cd,drive=d0,bootindex=1")...) }},
		{"iPXE over HTTP", func() *vm {
			return startFirmware(t, "-netdev", "tap,id=n0,script=no,downscript=no,ifname="+tap, "-device", "virtio-net-pci,netdev=n0,mac="+bootMAC+",romfile="+ipxeROM)
		}},
		{"kernel", func() *vm {
			return startQEMU(t, "-kernel", kernel.Image, "-initrd", initrdOf(t, image), "-append", words,
				"-netdev", "tap,id=n0,script=no,downscript=no,ifname="+tap, "-device", "virtio-net-pci,netdev=n0,romfile=,mac="+bootMAC)
		}},
	} {
		v := way.start()
		v.await("This machine waits for approval as a node.")
		name, fingerprint := v.awaitApproval()
		waits := time.Since(v.began)
		if said := s.Writ("node", "list"); !strings.Contains(said, "pending") {
			t.Errorf("%s: the nodes are\n%s", way.name, said)
		}
		s.Writ("node", "approve", name, fingerprint)
		approved := time.Now()
		v.await("msg=serving")
		serves := time.Since(approved)
		v.await("This machine serves as a node.")
		s.Until(way.name+": the node is ready", func(_ context.Context) bool { return strings.Contains(s.Writ("node", "list"), "ready") })
		t.Logf("%s: pending %.1f s after power on, serving %.1f s after it was approved, ready %.1f s after power on\n%s",
			way.name, waits.Seconds(), serves.Seconds(), time.Since(v.began).Seconds(), v.said())
		v.pressPower()
		s.Writ("node", "remove", "--yes", name, "--reason", "it forgets who it is")
	}
}
