package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/catalog"
	"writ/sal/containerd/device"
)

// newDisk returns the path of a new disk that begins with a text, and of the file with its content.
func newDisk(t testing.TB, text string) (path, content string) {
	t.Helper()
	testenv.NeedRoot(t)
	content = filepath.Join(testenv.Home(t, "disk"), "content")
	if err := os.WriteFile(content, []byte(text+strings.Repeat("\n", 1<<20-len(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return testenv.Attach(t, content), content
}

// offer makes the driver offer devices.
func (b *fixture) offer(texts ...string) {
	b.Helper()
	var err error
	if b.driver.Devices, err = device.ParseList(texts); err != nil {
		b.Fatal(err)
	}
}

// Promise: Networks and containers: A container can use exactly the devices of its call, among those that the operator
// offers, with the access that the operator chose. It cannot make device nodes.
// How: The node makes the device nodes, and cgroups permit exactly their numbers.
// Also: TestOtherDeviceIsRefused, TestRestartUsesThePresentDevice, TestLinksLeadOnlyToDevicesOfTheHost.
func TestContainerUsesItsDevices(t *testing.T) {
	shared := withSettings(t)
	for _, users := range []string{"of its own", "of the host"} {
		t.Run("users "+users, func(t *testing.T) {
			host := t.TempDir()
			b := &fixture{t, open(t, shared.daemon, host), shared.daemon, host}
			b.driver.Images = shared.driver.Images
			if users == "of the host" {
				b.driver.IDs, b.driver.IDsAsked = nil, false
			}
			disk, content := newDisk(t, "hello")
			other, _ := newDisk(t, "other")
			b.offer("disk="+disk, "other="+other+":r")
			args := map[string]any{
				"image": "busybox", "memory_mib": int64(64), "command": waits, "devices": []any{"disk"}, "read_only": true,
			}
			b.must("container.create", "one", args)
			args["user"] = "0"
			b.must("container.create", "root", args)
			refused := func(name, line string) {
				t.Helper()
				if got := b.sh(name, "("+line+") 2>/dev/null && echo done || echo refused"); got != "refused\n" {
					t.Errorf("%s: %s: %s", name, line, got)
				}
			}
			for _, name := range []string{"one", "root"} { // two containers have the device
				if got := b.sh(name, "head -c 5 "+disk); got != "hello" {
					t.Errorf("%s reads %q", name, got)
				}
				b.sh(name, "echo "+name+" | dd of="+disk+" conv=notrunc,fsync 2>/dev/null")
				if got, err := os.ReadFile(content); err != nil || !strings.HasPrefix(string(got), name+"\n") {
					t.Errorf("%s wrote %.10q, %v", name, got, err)
				}
				b.sh(name, "echo hello | dd of="+disk+" conv=notrunc,fsync 2>/dev/null")
				if got := b.sh(name, "ls -d /dev/loop*"); got != disk+"\n" {
					t.Errorf("%s has %s", name, got)
				}
				refused(name, "mknod /dev/mine c 1 3")
				refused(name, "mknod /dev/mine b 7 "+strings.TrimPrefix(other, "/dev/loop"))
			}
			args["devices"] = []any{"other"}
			b.must("container.create", "root", args)
			if got := b.sh("root", "head -c 5 "+other); got != "other" {
				t.Errorf("after a change, it reads %q", got)
			}
			refused("root", "echo x >"+other)
			refused("root", "chmod 666 "+other+"; echo x >"+other)
			refused("root", "head -c 5 "+disk)
			got := b.must("container.run", "job", map[string]any{
				"image": "busybox", "memory_mib": int64(64), "devices": []any{"other", "disk"},
				"command": []any{"sh", "-c", fmt.Sprintf("head -c 5 %s; head -c 5 %s", disk, other)},
			})
			if got["stdout"] != "helloother" {
				t.Errorf("a program reads %q", got["stdout"])
			}
			for _, name := range []string{"one", "root"} {
				b.must("container.delete", name, nil)
			}
			b.leftNothing("after the deletions")
		})
	}
}

func TestOtherDeviceIsRefused(t *testing.T) {
	b := newFixture(t, "")
	disk, _ := newDisk(t, "hello")
	b.offer("disk="+disk, "gone=/dev/writ-missing")
	for name, code := range map[string]writ.Code{"other": writ.CodeDeviceForbidden, "gone": writ.CodeDriverRefused} {
		for _, operation := range []string{"container.create", "container.run"} {
			_, err := b.do(operation, "web", map[string]any{
				"image": "busybox", "memory_mib": int64(64), "command": waits, "devices": []any{"disk", name},
			})
			if e := writ.AsError(err); e == nil || e.Code != code || e.Retryable() || e.Hint == "" || !strings.Contains(e.Message, name) {
				t.Errorf("%s with %s: %v", operation, name, err)
			}
		}
	}
	b.leftNothing("after the refusals")
	if got := b.driver.Describe().Devices; len(got) != 1 || got[0] != "disk" {
		t.Errorf("the node reports %v", got)
	}
	for _, need := range b.driver.Needs() {
		if need.Name != "the devices named" {
			continue
		}
		if _, err := need.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "/dev/writ-missing") {
			t.Errorf("the doctor finds %v", err)
		}
	}
}

// A device may have another number after a reboot, and the operator may withdraw it.
func TestRestartUsesThePresentDevice(t *testing.T) {
	shared := newFixture(t, "")
	for _, users := range []string{"of its own", "of the host"} {
		t.Run("users "+users, func(t *testing.T) {
			host := t.TempDir()
			b := &fixture{t, open(t, shared.daemon, host), shared.daemon, host}
			if users == "of the host" {
				b.driver.IDs, b.driver.IDsAsked = nil, false
			}
			link := filepath.Join(t.TempDir(), "link")
			lead := func(to string) {
				t.Helper()
				_ = os.Remove(link)
				if err := os.Symlink(to, link); err != nil {
					t.Fatal(err)
				}
			}
			first, _ := newDisk(t, "first")
			second, _ := newDisk(t, "second")
			lead(first)
			b.driver.Devices = device.List{{Name: "disk", Path: link, Access: "rw"}}
			args := map[string]any{"image": "busybox", "memory_mib": int64(64), "command": waits, "devices": []any{"disk"}}
			b.must("container.create", "web", args)
			restart := func() error {
				t.Helper()
				b.must("container.stop", "web", map[string]any{"grace_seconds": int64(20)})
				_, err := b.do("container.start", "web", nil)
				return err
			}
			reads := func(path, want string) {
				t.Helper()
				if got := b.sh("web", "head -n 1 "+path); got != want+"\n" {
					t.Errorf("it reads %q, want %q", got, want)
				}
			}
			reads(link, "first")
			lead(second)
			if err := restart(); err != nil {
				t.Fatal(err)
			}
			reads(link, "second")
			b.driver.Devices[0].Path = first
			if err := restart(); err != nil {
				t.Fatal(err)
			}
			reads(first, "first")
			b.driver.Devices[0].Access = "r"
			if err := restart(); err != nil {
				t.Fatal(err)
			}
			if got := b.sh("web", "echo x 2>/dev/null >"+first+" || echo refused"); got != "refused\n" {
				t.Errorf("it writes: %q", got)
			}
			lead("/dev/writ-missing")
			b.driver.Devices[0].Path = link
			if e := writ.AsError(restart()); e == nil || e.Code != writ.CodeDriverRefused || e.Retryable() {
				t.Errorf("with a missing device it starts: %v", e)
			}
			b.driver.Devices = nil
			_, err := b.do("container.start", "web", nil)
			if e := writ.AsError(err); e == nil || e.Code != writ.CodeDeviceForbidden || e.Retryable() {
				t.Errorf("with a withdrawn device it starts: %v", err)
			}
			b.must("container.delete", "web", nil)
			b.leftNothing("after the deletion")
		})
	}
}

// The program of a replaced container may use a device exclusively.
func TestContainerWithDevicesIsReplacedWithAGap(t *testing.T) {
	t.Parallel()
	publish := catalog.ContainerCreate{Publish: []catalog.Publish{{Port: 80, To: 80}}}
	device := publish
	device.Devices = []string{"kvm"}
	if !canHandOver(&publish, &publish) || canHandOver(&device, &publish) || canHandOver(&publish, &device) {
		t.Error("a container with a device is handed over, or one without is not")
	}
}

// A runner that is killed while device nodes exist leaves a container that the repeated call completes.
func TestInterruptedDeviceNodesAreRemoved(t *testing.T) {
	shared := newFixture(t, "")
	disk, _ := newDisk(t, "hello")
	for _, users := range []string{"of its own", "of the host"} {
		t.Run("users "+users, func(t *testing.T) {
			host := t.TempDir()
			b := &fixture{t, open(t, shared.daemon, host), shared.daemon, host}
			prepare := func() {
				b.offer("disk=" + disk)
				if users == "of the host" {
					b.driver.IDs, b.driver.IDsAsked = nil, false
				}
			}
			args := map[string]any{"image": "busybox", "memory_mib": int64(64), "command": waits, "devices": []any{"disk"}}
			for _, step := range []string{"make the process", "start the process"} {
				prepare()
				b.interrupted(b.request("container.create", "web", args, nil), step)
				prepare()
				b.must("container.create", "web", args)
				if got := b.sh("web", "head -c 5 "+disk); got != "hello" {
					t.Errorf("interrupted before %s, it reads %q", step, got)
				}
				prepare()
				b.must("container.delete", "web", nil)
				b.leftNothing("after the deletion")
			}
		})
	}
}
