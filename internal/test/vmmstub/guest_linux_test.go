package vmmstub_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
)

// guestGuard limits the wait for a guest, which boots in three seconds on an idle host.
const guestGuard = 150 * time.Second

// console returns the output of the guest.
func (p *process) console() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "serial"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(text)
}

// says waits until the guest has written text.
func (p *process) says(text string) {
	p.t.Helper()
	for end := time.Now().Add(guestGuard); !strings.Contains(p.console(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("the guest's output lacks %q:\n%s\noutput of its program:\n%s", text, p.console(), p.stderr)
		}
	}
}

// real returns the configuration of a machine with a real guest.
func (p *process) real(g guest.Guest, cmdline, more string) string {
	return `{"cpus":{"boot_vcpus":1,"max_vcpus":1},"memory":{"size":201326592},"payload":{"kernel":"` + g.Kernel + `","initramfs":"` + g.Initramfs +
		`","cmdline":"` + guest.Cmdline + " " + cmdline + `"},"console":{"mode":"Off"},"serial":{"mode":"File","file":"` + filepath.Join(p.dir, "serial") + `"}` + more + `}`
}

func TestRealGuestRebootsAndEndsWithItsVMM(t *testing.T) {
	testenv.Nightly(t, "the real guest of package sal/cloudhypervisor")
	qemu, g, p := testenv.Need(t, "qemu-system-x86_64"), guest.Build(t), newProcess(t)
	vmmstub.Set(t, p.path, vmmstub.Settings{QEMU: qemu})
	p.start()
	p.must("vm.create", p.real(g, "writ.act=reboot", ""))
	p.must("vm.boot", "")
	p.event("vm", "rebooted")
	p.kill() // must end its guest in any state
	for end := time.Now().Add(guard); p.gone("QEMU") != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(p.gone("QEMU"))
		}
	}
}

func TestARealGuestLivesAsAMachineDoes(t *testing.T) {
	testenv.Nightly(t, "the real guest of package sal/cloudhypervisor")
	qemu, ip, ping := testenv.Need(t, "qemu-system-x86_64"), testenv.Need(t, "ip"), testenv.Need(t, "ping")
	g := guest.Build(t)
	ns := testenv.Netns(t)
	p := newProcess(t)
	vmmstub.Set(t, p.path, vmmstub.Settings{QEMU: qemu})
	run := func(name string, args ...string) error {
		said, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return errors.New(name + " " + strings.Join(args, " ") + ": " + string(said))
		}
		return nil
	}
	testenv.InNetns(t, ns, func() error {
		err := errors.Join(run(ip, "tuntap", "add", "tap0", "mode", "tap"), run(ip, "address", "add", "fd77::1/64", "dev", "tap0", "nodad"))
		p.start() // in this namespace
		return err
	})
	p.must("vm.create", p.real(g, "writ.address=fd77::2/64", `,"disks":[{"id":"data","path":"`+p.disk("disk")+`"}],"net":[{"id":"net","tap":"tap0","mac":"02:00:00:00:00:07"}]`))
	p.must("vm.boot", "")
	p.says("guest: guest " + guest.UpText)
	p.says("guest: disk vda 1048576")
	if diff := cmp.Diff(map[string]string{"id": "data"}, p.event("virtio-device", "activated")); diff != "" {
		t.Error(diff)
	}
	testenv.InNetns(t, ns, func() error { return run(ping, "-6", "-c", "1", "-w", "60", "fd77::2") })

	p.must("vm.resize-disk", `{"id":"data","desired_size":2097152}`)
	p.says("guest: disk vda 2097152")
	p.must("vm.add-disk", `{"id":"more","path":"`+p.disk("other")+`"}`)
	p.says("guest: disk vdb 1048576")
	p.must("vm.remove-device", `{"id":"more"}`)
	p.event("vm", "device-removed")
	p.says("guest: disk vdb is gone")
	if _, counters := p.do("GET", "vm.counters", ""); !strings.Contains(counters, `"net":{`) || strings.Contains(counters, `"tx_bytes":0`) {
		t.Errorf("vm.counters = %s", counters)
	}

	p.must("vm.pause", "")
	p.must("vm.snapshot", `{"destination_url":"file://`+p.dir+`"}`)
	p.must("vm.delete", "")
	testenv.InNetns(t, ns, func() error {
		if run(ping, "-6", "-c", "1", "-W", "1", "fd77::2") == nil {
			return errors.New("a guest that was deleted answers")
		}
		return nil
	})
	p.must("vm.restore", `{"source_url":"file://`+p.dir+`","resume":true}`)
	testenv.InNetns(t, ns, func() error { return run(ping, "-6", "-c", "1", "-w", "60", "fd77::2") })

	p.must("vm.power-button", "")
	if code := p.code(); code != 0 {
		t.Errorf("it ended with code %d", code)
	}
	if !strings.Contains(p.console(), "guest: the power button was pressed") {
		t.Errorf("the guest did not notice:\n%s", p.console())
	}
	if err := p.gone("QEMU"); err != nil {
		t.Error(err)
	}
}
