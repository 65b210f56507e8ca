package nested

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"writ/internal/test/vmmstub/guest"
)

// useMachine takes a machine through its life cycle and checks each step from within the guest.
func useMachine(t *testing.T) {
	n := startNode(t)
	t.Logf("machines are made by %s", strings.TrimSpace(n.run("cloud-hypervisor", "--version")))
	address := n.create()
	n.says("vm " + guest.UpText)
	n.answers(address)
	for kind, found := range n.traces() {
		if len(found) != 1 {
			t.Errorf("a running machine has one %s on its host, not %q", kind, found)
		}
	}
	n.plug()
	n.submit("machine.pause, machine.resume", "machine.pause(\"vm\")\nmachine.resume(\"vm\")\n")
	n.answers(address)
	n.goBack(address)
	said := n.submit("machine.stop", `run.output({ended: machine.stop("vm", {grace_seconds: 200}).ended})`)
	if !strings.Contains(said, "exited") || !strings.Contains(n.console(), "the power button was pressed") {
		t.Errorf("the guest did not end at its power button:\n%s\n%s", said, n.console())
	}
	n.submit("machine.delete", `machine.delete("vm")`)
	for kind, found := range n.traces() {
		if len(found) != 0 {
			t.Errorf("a deleted machine left the %s %q", kind, found)
		}
	}
}

// create creates a machine with a disk and a network, and an additional volume. It returns the machine's address.
func (n *node) create() (address string) {
	n.Helper()
	said := n.submit("machine.create with a network, images and a volume", fmt.Sprintf(`
kernel := image.fetch("kernel", {url: "file://%s", sha256: %q})
initramfs := image.fetch("initramfs", {url: "file://%s", sha256: %q})
volume.create("data", {size_gib: 1})
vm := machine.create("vm", {
	cpus: 1, memory_mib: 192, kernel: kernel, initramfs: initramfs, cmdline: %q,
	networks: [network.create("lan")], disks: [volume.create("root", {size_gib: 1})]
})
run.output({address: vm.address})
`, kernelFile, n.digest(kernelFile), initramfsFile, n.digest(initramfsFile), guest.Cmdline))
	found := regexp.MustCompile(`(?m)^address:\s+(\S+)$`).FindStringSubmatch(said)
	if found == nil {
		n.Fatalf("the machine has no address:\n%s", said)
	}
	return found[1]
}

// plug adds a disk, a CPU and memory to the running machine, and removes the disk and the CPU.
func (n *node) plug() {
	n.Helper()
	n.submit("machine.attach", `machine.attach("vm", {volume: volume.get("data")})`)
	n.says(fmt.Sprintf("disk vdc %d", 1<<30))
	n.submit("machine.detach", `machine.detach("vm", {volume: volume.get("data")})`)
	n.says("disk vdc is gone")
	n.says("1 CPUs and 256 MiB online") // 192 MiB, in blocks of 128 MiB
	n.submit("machine.resize to more", `machine.resize("vm", {cpus: 2, memory_mib: 320})`)
	n.says("2 CPUs and 384 MiB online")
	n.submit("machine.resize to less", `machine.resize("vm", {cpus: 1})`)
	n.says("1 CPUs and 384 MiB online")
}

// goBack restores the running machine from a snapshot. The guest continues without a boot.
func (n *node) goBack(address string) {
	n.Helper()
	n.submit("machine.snapshot", `machine.snapshot("vm", {snapshot: "before"})`)
	n.answers(address)
	n.submit("machine.restore", `machine.restore("vm", {snapshot: "before"})`)
	n.answers(address)
	n.submit("machine.attach", `machine.attach("vm", {volume: volume.get("data")})`)
	n.says(fmt.Sprintf("disk vdc %d", 1<<30))
	if said := n.console(); strings.Contains(said, guest.UpText) {
		n.Errorf("the guest booted instead of going on:\n%s", said)
	}
}
