package cloudhypervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
	"writ/sal/saltest"
)

// guestGuard limits the wait for a guest, which boots in three seconds on an idle host.
const guestGuard = 150 * time.Second

// says waits until a machine has written text to its console.
func (b *fixture) says(name, text string) {
	b.Helper()
	for end := time.Now().Add(guestGuard); ; time.Sleep(50 * time.Millisecond) {
		said := b.must("machine.console", name, nil)["text"].(string)
		if strings.Contains(said, text) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("console of %s lacks %q:\n%s", name, text, said)
		}
	}
}

// The guest is real, with a Debian kernel in QEMU; only the program between guest and driver is a stub.
//
// Promise: Volumes and images: A guest finds its name, address and keys at its first boot and shuts itself down when
// it is stopped.
// How: A FAT image that Linux reads; the power button until the grace is over.
// Also: TestGuestRunsOnCloudHypervisor
//
// Promise: Volumes and images: A running guest accepts and releases volumes and continues from a snapshot of its
// memory.
// How: Hot-plug, and a VMM that reads the memory back.
// Also: TestGuestRunsOnCloudHypervisor.
func TestRealGuestReadsItsCloudInitDisk(t *testing.T) {
	qemu, ip, ping := testenv.Need(t, "qemu-system-x86_64"), testenv.Need(t, "ip"), testenv.Need(t, "ping")
	testenv.NeedTaps(t)
	g, ns := guest.Build(t), testenv.Netns(t)
	b := newFixture(t)
	vmmstub.Set(t, b.Program, vmmstub.Settings{QEMU: qemu})
	for name, path := range map[string]string{"guest": g.Kernel, "guest-initramfs": g.Initramfs} {
		if err := os.Symlink(path, filepath.Join(b.host, "images", name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) error {
		if said, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
		}
		return nil
	}
	tap := tapName(b.host, "uid-web", 0)
	testenv.InNetns(t, ns, func() error {
		err := errors.Join(run(ip, "tuntap", "add", tap, "mode", "tap"), run(ip, "address", "add", "400:1:2:3:ff0f::1/96", "dev", tap, "nodad"))
		if err == nil {
			_, err = b.do("machine.create", "web", map[string]any{
				"cpus": int64(1), "memory_mib": int64(192), "kernel": "guest", "initramfs": "guest-initramfs", "cmdline": guest.Cmdline,
				"networks": []any{saltest.RefTo(writ.KindNetwork, "front")}, "disks": []any{saltest.RefTo(writ.KindVolume, "root")},
			})
		}
		return err
	})
	b.says("web", "web "+guest.UpText) // both name and address come from the cloud-init disk
	answers := func() {
		t.Helper()
		testenv.InNetns(t, ns, func() error { return run(ping, "-6", "-c", "1", "-w", "60", "400:1:2:3:ff0f::2") })
	}
	answers()

	data := map[string]any{"volume": saltest.RefTo(writ.KindVolume, "data")}
	b.must("machine.attach", "web", data)
	b.says("web", fmt.Sprintf("guest: disk vdc %d", 1<<30))
	b.must("machine.detach", "web", data)
	b.says("web", "guest: disk vdc is gone")

	b.must("machine.snapshot", "web", map[string]any{"snapshot": "before"})
	answers()
	testenv.InNetns(t, ns, func() error {
		_, err := b.do("machine.restore", "web", map[string]any{"snapshot": "before"})
		return err
	})
	answers()
	if used, err := b.Usage(t.Context(), machine("web")); err != nil || used.CPUs != 100 {
		t.Errorf("it uses %+v, %v", used, err)
	}
	b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(guestGuard / time.Second)})
	b.says("web", "the power button was pressed")
	b.must("machine.delete", "web", nil)
	b.empty()
}
