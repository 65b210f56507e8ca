package vmmstub_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
)

func TestStubIdentifiesItself(t *testing.T) {
	for _, release := range vmmstub.Releases {
		t.Run(release.String(), func(t *testing.T) { saysWhatItIs(t, prepare(t, stub(t, release))) })
	}
}

func saysWhatItIs(t *testing.T, p *process) {
	if said, err := exec.Command(p.path, "--version").Output(); err != nil || !strings.HasPrefix(string(said), "cloud-hypervisor "+p.release.String()+"\n") {
		t.Errorf("--version = %q, %v", said, err)
	}
	if said, err := exec.Command(p.path, "--help").Output(); err != nil || !strings.Contains(string(said), "THIS IS NOT A HYPERVISOR") {
		t.Errorf("--help = %q, %v", said, err)
	}
	log := filepath.Join(p.dir, "log")
	p.start("--log-file", log)
	p.boot("")
	for _, file := range []string{log, filepath.Join(p.dir, "serial")} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "not a hypervisor") {
			t.Errorf("%s = %q, %v", file, text, err)
		}
	}
	p.spawn("--of-tomorrow")
	if code := p.code(); code != 2 || !strings.Contains(p.stderr.String(), "unexpected argument '--of-tomorrow' found") {
		t.Errorf("an unknown argument: code %d, %s", code, p.stderr)
	}
}

func TestEveryEndHasItsCodeAndItsEvents(t *testing.T) {
	both(t, everyEnd)
}

func everyEnd(t *testing.T, program program) {
	before := []string{"vmm/starting", "vm/booting", "vm/booted"}
	down := []string{"vm/shutdown", "vm/deleted", "vmm/shutdown"}
	for _, tt := range []struct {
		name   string
		args   []string
		guest  guest.Act // action of the real program's guest, which acts on its own
		end    func(p *process)
		code   int
		events []string
		socket bool // the socket file is left
	}{
		{"the guest by itself", nil, guest.PowerOff, func(p *process) { p.act(vmmstub.GuestPowersOff) }, 0, down, false},
		{"by a request", nil, guest.Wait, func(p *process) { p.must("vmm.shutdown", "") }, 0, down, false},
		{"SIGTERM", nil, guest.Wait, func(p *process) { p.signal(syscall.SIGTERM) }, 0, down, false},
		{"SIGINT", nil, guest.Wait, func(p *process) { p.signal(syscall.SIGINT) }, 0, down, false},
		{"SIGHUP", nil, guest.Wait, func(p *process) { p.signal(syscall.SIGHUP) }, -1, nil, true},
		{"SIGKILL", nil, guest.Wait, func(p *process) { p.signal(syscall.SIGKILL) }, -1, nil, true},
		{"after a reboot", nil, guest.Reboot, func(p *process) {
			p.act(vmmstub.GuestReboots)
			p.event("vm", "rebooted")
			p.signal(syscall.SIGTERM)
		}, 0, append([]string{"vm/rebooting", "vm/rebooted"}, down...), false},
		{"it outlives the guest", []string{"--no-shutdown"}, guest.PowerOff, func(p *process) {
			p.act(vmmstub.GuestPowersOff)
			p.event("vm", "shutdown")
			if got := p.info().State; got != "Created" {
				p.t.Errorf("after the guest: %s", got)
			}
			p.must("vmm.shutdown", "")
		}, 0, down, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := prepare(t, program)
			p.kernel = guest.Tiny(t, tt.guest)
			p.start(tt.args...)
			p.boot("")
			p.event("vm", "booted") // the event is written a moment later
			tt.end(p)
			if code := p.code(); code != tt.code {
				t.Errorf("code %d, want %d\n%s", code, tt.code, p.stderr)
			}
			told := p.names()
			// The guest keeps rebooting.
			for i := len(before) + 2; i+1 < len(told) && tt.guest == guest.Reboot && told[i] == "vm/rebooting"; {
				told = slices.Delete(told, i, i+2)
			}
			if diff := cmp.Diff(p.withoutLost(slices.Concat(before, tt.events), told), told); diff != "" {
				t.Errorf("events: %s", diff)
			}
			if _, err := os.Stat(p.socket); (err == nil) != tt.socket {
				t.Errorf("the socket: %v", err)
			}
		})
	}
}

func TestTheButtonEndsTheProgram(t *testing.T) {
	p := play(t)
	p.boot("")
	p.must("vm.power-button", "")
	if code := p.code(); code != 0 {
		t.Errorf("code %d", code)
	}
}

// act makes the stub's guest act. The guest of the real program acts on its own.
func (p *process) act(what syscall.Signal) {
	if !p.genuine {
		p.signal(what)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func TestOnlyStaleSocketIsReplaced(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := start(t, program)
		other := *p
		other.spawn("--api-socket", "path="+p.socket)
		if code := other.code(); code != 1 || !strings.Contains(other.stderr.String(), "is already in use by another running instance") {
			t.Errorf("a second one: code %d, %s", code, other.stderr)
		}
		if status, _ := p.do("GET", "vmm.ping", ""); status != 200 {
			t.Errorf("the first one answers %d", status)
		}
		p.kill()
		if _, err := os.Stat(p.socket); err != nil {
			t.Fatal(err)
		}
		p.start()
		if status, _ := p.do("GET", "vmm.ping", ""); status != 200 {
			t.Errorf("after SIGKILL: %d", status)
		}
		if _, err := os.Stat(p.socket + ".lock"); err != nil {
			t.Error(err)
		}
	})
}

func TestASocketIsInherited(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := prepare(t, program)
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		file, err := listener.File()
		if err = errors.Join(err, listener.Close()); err != nil {
			t.Fatal(err)
		}
		events, err := os.Create(p.events)
		if err != nil {
			t.Fatal(err)
		}
		p.cmd = exec.Command(p.path, "--api-socket", "fd=3", "--event-monitor", "fd=4")
		p.cmd.ExtraFiles = []*os.File{file, events}
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(file.Close(), events.Close()); err != nil {
			t.Fatal(err)
		}
		// The socket accepts connections before the program runs.
		if status, _ := p.do("GET", "vmm.ping", ""); status != 200 {
			t.Errorf("vmm.ping = %d", status)
		}
		p.must("vmm.shutdown", "")
		if code := p.code(); code != 0 {
			t.Errorf("code %d", code)
		}
		if _, err := os.Stat(p.socket); err != nil {
			t.Errorf("a socket that it did not make: %v", err)
		}
		told := p.names()
		if diff := cmp.Diff(p.withoutLost([]string{"vmm/starting", "vmm/shutdown"}, told), told); diff != "" {
			t.Errorf("events: %s", diff)
		}
	})
}

func TestEleventhConnectionIsRejected(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p := start(t, program)
		dial := func() net.Conn {
			conn, err := net.Dial("unix", p.socket)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		ping := func(conn net.Conn) *http.Response {
			if _, err := io.WriteString(conn, "GET /api/v1/vmm.ping HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		var open []net.Conn
		for range 10 {
			conn := dial()
			if answer := ping(conn); answer.StatusCode != 200 || answer.Header.Get("Server") != "Cloud Hypervisor API" {
				t.Fatalf("%d of %q", answer.StatusCode, answer.Header.Get("Server"))
			}
			open = append(open, conn)
		}
		text, err := io.ReadAll(dial())
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 503\r\n") {
			t.Errorf("answer to the eleventh connection = %q, %v", text, err)
		}
		if answer := ping(open[0]); answer.StatusCode != 200 {
			t.Errorf("status of the first connection = %d", answer.StatusCode)
		}
	})
}

func TestSlowActionBlocksAllRequests(t *testing.T) {
	p := newProcess(t)
	gate := vmmstub.NewGate(t)
	vmmstub.Set(t, p.path, vmmstub.Settings{Hold: map[string]string{"vm.boot": gate.Path}})
	p.start()
	p.must("vm.create", p.config(""))
	booted := make(chan int, 1)
	go func() {
		status, _, _ := p.try("PUT", "/api/v1/vm.boot", "")
		booted <- status
	}()
	gate.Reached()
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/v1/vmm.ping HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// A program that answers does so at once.
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("vmm.ping is answered while vm.boot takes its time: %d bytes, %v", n, err)
	}
	gate.Open()
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != 200 {
		t.Errorf("vmm.ping afterwards: %v, %v", answer, err)
	}
	if status := <-booted; status != 204 {
		t.Errorf("vm.boot = %d", status)
	}
}

func TestADiskIsLockedWhileTheMachineRuns(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		p, other := start(t, program), start(t, program)
		disks := `,"disks":[{"id":"a","path":"` + p.disk("disk") + `"}]`
		p.boot(disks)
		if !p.locked(p.disk("disk")) {
			t.Error("the disk is not locked")
		}
		other.must("vm.create", other.config(disks))
		locked := `["Error from API","The VM could not boot","Error locking disk images: Another instance likely holds a lock","Cannot lock images of all block devices",`
		if status, body := other.do("PUT", "vm.boot", ""); status != 500 || !strings.HasPrefix(body, locked) {
			t.Errorf("a second machine with the disk = %d %s", status, body)
		}
		p.must("vm.shutdown", "")
		if p.locked(p.disk("disk")) {
			t.Error("the disk is locked after shutdown")
		}
		// The machine was built and waits for its shutdown.
		if status, body := other.do("PUT", "vm.boot", ""); status != 500 || !strings.Contains(body, "VM is already created") || other.info().State != "Created" {
			t.Errorf("second boot = %d %s", status, body)
		}
		other.must("vm.shutdown", "")
		other.must("vm.boot", "")
		other.kill()
		if p.locked(p.disk("disk")) {
			t.Error("the disk is locked after SIGKILL")
		}
		read := `,"disks":[{"id":"a","path":"` + p.disk("disk") + `","readonly":true}]`
		p.must("vm.delete", "")
		p.boot(read)
		other = start(t, program)
		other.boot(read)
	})
}

func TestRemovedDeviceIsGoneAfterTheGuestConfirms(t *testing.T) {
	for _, release := range vmmstub.Releases {
		t.Run(release.String(), func(t *testing.T) { removedDevice(t, start(t, stub(t, release))) })
	}
}

func removedDevice(t *testing.T, p *process) {
	p.boot(`,"disks":[{"id":"a","path":"` + p.disk("disk") + `"},{"id":"b","path":"` + p.disk("other") + `"}]`)
	p.must("vm.remove-device", `{"id":"b"}`)
	if diff := cmp.Diff(map[string]string{"id": "b", "bdf": "0000:00:02.0"}, p.event("vm", "device-removed")); diff != "" {
		t.Error(diff)
	}
	if p.locked(p.disk("other")) {
		t.Error("its lock stays")
	}
	vmmstub.Set(t, p.path, vmmstub.Settings{Stuck: true})
	p.must("vm.remove-device", `{"id":"a"}`)
	want := map[vmmstub.Release]int{53: 500, 54: 204}[p.release]
	if status, _ := p.do("PUT", "vm.remove-device", `{"id":"a"}`); status != want {
		t.Errorf("a second time = %d", status)
	}
	if in := p.info(); len(in.Config.Disks) != 0 || !strings.Contains(in.raw, "_virtio-pci-a") {
		t.Errorf("not out of the configuration, or off the bus: %s", in.raw)
	}
}

func TestARestoredMachineIsPausedAsItWas(t *testing.T) {
	p := play(t)
	p.boot(`,"disks":[{"path":"` + p.disk("disk") + `"}]`)
	p.must("vm.resize", `{"desired_vcpus":2}`)
	p.must("vm.pause", "")
	p.must("vm.snapshot", `{"destination_url":"file://`+p.dir+`"}`)
	if memory, err := os.Stat(filepath.Join(p.dir, "memory-ranges")); err != nil || memory.Size() != p.info().Memory {
		t.Errorf("the file of its memory: %v, %v", memory, err)
	}
	for _, name := range []string{"config.json", "state.json", "memory-ranges"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
			t.Error(err)
		}
	}
	p.must("vm.delete", "")
	p.must("vm.restore", `{"source_url":"file://`+p.dir+`"}`)
	if in := p.info(); in.State != "Paused" || in.Config.CPUs["boot_vcpus"] != 2.0 || in.Config.Disks[0]["id"] != "_disk0" {
		t.Errorf("restored: %s", in.raw)
	}
	p.must("vm.resume", "")
	p.must("vm.delete", "")
	p.must("vm.restore", `{"source_url":"file://`+p.dir+`","resume":true}`)
	if got := p.info().State; got != "Running" {
		t.Errorf("restored to run: %s", got)
	}
	p.must("vm.delete", "")
	if err := os.Remove(p.disk("disk")); err != nil {
		t.Fatal(err)
	}
	if status, body := p.do("PUT", "vm.restore", `{"source_url":"file://`+p.dir+`"}`); status != 500 {
		t.Errorf("restore without its disk = %d %s", status, body)
	}
	if status, _ := p.do("GET", "vm.info", ""); status != 404 {
		t.Errorf("a failed restore leaves a machine: vm.info = %d", status)
	}
}

func TestItMisbehavesAsConfigured(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings vmmstub.Settings
		try      func(p *process)
	}{
		{"it dies before it listens", vmmstub.Settings{DieEarly: true}, func(p *process) {
			p.spawn("--api-socket", "path="+p.socket)
			if code := p.code(); code != 1 || !strings.Contains(p.stderr.String(), "Error: Cloud Hypervisor exited with the following chain of errors:\n  0: ") {
				p.t.Errorf("code %d: %s", code, p.stderr)
			}
		}},
		{"it dies instead of an action", vmmstub.Settings{DieBefore: []string{"vm.boot"}}, func(p *process) {
			p.start()
			p.must("vm.create", p.config(""))
			if _, _, err := p.try("PUT", "/api/v1/vm.boot", ""); err == nil || p.code() != -1 {
				p.t.Errorf("it lives: %v", err)
			}
		}},
		{"it dies after an action", vmmstub.Settings{DieAfter: []string{"vm.boot"}}, func(p *process) {
			p.start()
			p.must("vm.create", p.config(""))
			if _, _, err := p.try("PUT", "/api/v1/vm.boot", ""); err == nil || p.code() != -1 {
				p.t.Errorf("it lives: %v", err)
			}
			p.event("vm", "booted")
		}},
		{"an action fails", vmmstub.Settings{Fail: map[string]string{"vm.boot": "of a fault"}}, func(p *process) {
			p.start()
			p.must("vm.create", p.config(""))
			if _, body := p.do("PUT", "vm.boot", ""); body != `["Error from API","The VM could not boot","of a fault"]` {
				p.t.Error(body)
			}
		}},
		{"the guest ignores its button", vmmstub.Settings{Deaf: true}, func(p *process) {
			p.start()
			p.boot("")
			p.must("vm.power-button", "")
			vmmstub.Set(p.t, p.path, vmmstub.Settings{})
			p.must("vm.power-button", "")
			p.event("vmm", "shutdown")
		}},
		{"the guest powers off at once", vmmstub.Settings{AfterBoot: "poweroff"}, func(p *process) {
			p.start()
			p.boot("")
			if code := p.code(); code != 0 {
				p.t.Errorf("code %d", code)
			}
		}},
		{"the guest panics", vmmstub.Settings{AfterBoot: "panic"}, func(p *process) {
			p.start()
			p.boot(`,"pvpanic":true`)
			p.event("guest", "panic")
		}},
		{"the guest's processor fails", vmmstub.Settings{AfterBoot: "fail"}, func(p *process) {
			p.start("--no-shutdown")
			p.boot("")
			if code := p.code(); code != 0 || !strings.Contains(p.stderr.String(), "VcpuRun") {
				p.t.Errorf("code %d: %s", code, p.stderr)
			}
			if diff := cmp.Diff([]string{"vmm/starting", "vm/booting", "vm/booted", "vm/shutdown", "vm/deleted", "vmm/shutdown"}, p.names()); diff != "" {
				p.t.Errorf("events: %s", diff)
			}
		}},
		{"the guest gives no sign of life", vmmstub.Settings{Mute: true}, func(p *process) {
			p.start()
			p.boot(`,"disks":[{"path":"` + p.disk("disk") + `"}]`)
			p.must("vm.pause", "")
			if text, err := os.ReadFile(filepath.Join(p.dir, "serial")); err != nil || len(text) > 0 {
				p.t.Errorf("its console has %q, %v", text, err)
			}
			if told := p.told(); slices.ContainsFunc(told, func(e event) bool { return e.Event == "activated" }) {
				p.t.Errorf("events: %v", told)
			}
		}},
		{"the guest takes all with it", vmmstub.Settings{AfterBoot: "crash"}, func(p *process) {
			p.start()
			p.must("vm.create", p.config(""))
			_, _, _ = p.try("PUT", "/api/v1/vm.boot", "") // it may crash before or after the answer
			if code := p.code(); code != -1 {
				p.t.Errorf("code %d", code)
			}
		}},
		{"the guest keeps its CPUs", vmmstub.Settings{StuckCPUs: true}, func(p *process) {
			p.start()
			p.boot("")
			p.must("vm.resize", `{"desired_vcpus":3}`)
			p.must("vm.resize", `{"desired_vcpus":2}`)
			if status, body := p.do("PUT", "vm.resize", `{"desired_vcpus":1}`); status != 429 || body != `["Too Many Requests"]` {
				p.t.Errorf("%d %s", status, body)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t)
			vmmstub.Set(t, p.path, tt.settings)
			tt.try(p)
		})
	}
}

// A path with a separator of options is rejected. A descriptor avoids that.
func TestEventPathRejectsSeparators(t *testing.T) {
	both(t, func(t *testing.T, program program) {
		for _, name := range []string{"a,b", `a"b`, "a[b"} {
			p := prepare(t, program)
			p.spawn("--api-socket", "path="+p.socket, "--event-monitor", "path="+filepath.Join(p.dir, name))
			if code := p.code(); code == 0 {
				t.Errorf("%s: code %d", name, code)
			}
		}
	})
}
