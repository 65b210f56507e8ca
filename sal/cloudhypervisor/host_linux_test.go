package cloudhypervisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/vmmstub"
	"writ/sal"
	"writ/sal/saltest"
)

func TestForeignSocketOwnerIsNamed(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		dir := b.dirOf(machine("web"))
		if err := sal.MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		foreign := exec.Command(b.Program, "--api-socket", "path="+filepath.Join(dir, socketName))
		if err := foreign.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = foreign.Wait() }()
		for pid := 0; pid == 0; time.Sleep(time.Millisecond) { // until it listens
			pid, _ = listener(filepath.Join(dir, socketName))
		}
		pid := strconv.Itoa(foreign.Process.Pid)
		b.refuses("machine.create", "web", machineSpec, writ.CodeResourceConflict, "process "+pid, "--api-socket")
		b.must("machine.delete", "web", nil)
		if got, err := listener(filepath.Join(dir, socketName)); err != nil || strconv.Itoa(got) != pid {
			t.Errorf("it is %d that listens now, %v", got, err)
		}
		orphans, err := b.Orphans(t.Context())
		of := machine("web").HostName()
		want := []sal.Orphan{{Kind: "process", Name: pid, Of: of, Remedy: "kill " + pid}, {Kind: "directory", Name: dir, Of: of, Remedy: "rm -r " + dir}}
		if diff := cmp.Diff(want, orphans); diff != "" || err != nil {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
	})
}

// Promise: Machines and the overlay: writ adopts or ends only a process that it started for this machine.
// How: Its number, start time, the host's boot and a random name identify it, held by a pidfd.
// Also: TestForeignSocketOwnerIsNamed.
func TestReusedNumberIsNotTakenForTheMachine(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		b.signal("web", unix.SIGKILL, true)
		other := exec.Command("sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { _ = other.Wait(); close(gone) }()
		defer func() { _ = other.Process.Kill(); <-gone }()
		b.change("web", func(o *own) { o.Process.PID = other.Process.Pid })
		if got := b.state("web"); got != string(stopped) {
			t.Errorf("it is %s", got)
		}
		b.must("machine.stop", "web", nil)
		b.change("web", func(o *own) { o.Process = &process{Boot: b.boot(), PID: other.Process.Pid, Started: 1} })
		b.must("machine.delete", "web", nil)
		if h, err := hold(other.Process.Pid); h == nil || err != nil {
			t.Errorf("the other process was ended: %v", err)
		} else {
			h.release()
		}
		b.empty()
	})
}

func (b *fixture) boot() string {
	b.Helper()
	id, err := thisBoot()
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func TestMachineWorksBelowALongPath(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.Dir = filepath.Join(b.Dir, strings.Repeat("x", 120))
		b.must("machine.create", "web", machineSpec)
		b.must("machine.stop", "web", nil)
		b.must("machine.start", "web", nil)
		b.must("machine.delete", "web", nil)
		b.empty()
	})
}

func TestStaleSocketIsReplaced(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		b.signal("web", unix.SIGKILL, true)
		socket := filepath.Join(b.dirOf(machine("web")), socketName)
		if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
			t.Fatalf("a killed process leaves its socket: %v", err)
		}
		b.must("machine.start", "web", nil)
		if got := b.state("web"); got != string(running) {
			t.Errorf("it is %s", got)
		}
	})
}

func TestTakenTapIsReported(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		nets := networks(t)
		if nets == nil {
			t.Skip("only root makes taps")
		}
		name := "wvt" + strconv.Itoa(os.Getpid())
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		ifreq, err := unix.NewIfreq(name)
		if err != nil {
			t.Fatal(err)
		}
		ifreq.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifreq); err != nil {
			t.Skipf("no tap can be made here: %v", err)
		}
		b.Networks.(*others).busy = name
		b.refuses("machine.create", "web", with(machineSpec, "networks", nets), writ.CodeDriverFailed, name, "busy")
		b.empty()
	})
}

func TestAddressesAndUsageAreThoseOfTheTaps(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		nets := networks(t)
		if nets == nil {
			t.Skip("only root makes taps")
		}
		made := b.must("machine.create", "web", with(machineSpec, "networks", nets, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		if made["address"] != "400:1:2:3:ff0f::2" || made["mac"] != "02:00:00:00:00:00" || made["ipv4"] != "10.0.0.2" {
			t.Errorf("it has %v", made)
		}
		used, err := b.Usage(t.Context(), machine("web"))
		if err != nil || used.CPUs != 100 || used.MemoryMiB != 256 {
			t.Errorf("it uses %+v, %v", used, err)
		}
		b.must("machine.delete", "web", nil)
		b.empty()
		if used, err := b.Usage(t.Context(), machine("web")); err != nil || used != (sal.Usage{}) {
			t.Errorf("deleted it uses %+v, %v", used, err)
		}
	})
}

// A recreated tap has the same name, but the process holds the old tap.
//
// Promise: Repair and usage: A machine with a removed tap is reported until it is restarted, also if a tap of that
// name returns.
// How: The record has the numbers of the taps of its process.
func TestLostTapIsReportedUntilRestart(t *testing.T) {
	nets := networks(t)
	if nets == nil {
		t.Skip("only root makes taps")
	}
	b := newFixture(t)
	b.must("machine.create", "web", with(machineSpec, "networks", nets))
	b.keeps("web", "", false)
	r, err := b.records().Get(machine("web"))
	if err != nil {
		t.Fatal(err)
	}
	device := r.Own.Ports[0].Device
	for _, args := range [][]string{{"link", "delete", device}, {"tuntap", "add", device, "mode", "tap", "user", "0", "group", "0"}} {
		if err := ip(args...); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		b.keeps("web", "its tap "+device, false)
	}
	b.must("machine.stop", "web", nil)
	b.must("machine.start", "web", nil)
	b.keeps("web", "", false)
	b.must("machine.delete", "web", nil)
	b.empty()
}

// A runner that ended before it recorded a start does not have the taps of the process. The taps of the previous start
// disappeared with the reboot of the host.
func TestTapsOfAnEarlierStartAreNotLost(t *testing.T) {
	nets := networks(t)
	if nets == nil {
		t.Skip("only root makes taps")
	}
	b := newFixture(t)
	b.must("machine.create", "web", with(machineSpec, "networks", nets))
	device := b.record("web").Own.Ports[0].Device
	b.signal("web", unix.SIGKILL, true)
	if err := ip("link", "delete", device); err != nil {
		t.Fatal(err)
	}
	b.change("web", func(o *own) { o.Process.Boot = "the one before" })
	var written own // at the boot of the guest
	b.Step = func(name string) {
		if name == "boot the machine" {
			written = b.record("web").Own
		}
	}
	b.keeps("web", "the host rebooted", true)
	b.Step = nil
	b.change("web", func(o *own) { *o = written })
	b.keeps("web", "", false)
	if got := b.state("web"); got != string(running) {
		t.Errorf("it is %s", got)
	}
	b.must("machine.delete", "web", nil)
	b.empty()
}

// Promise: Volumes and images: A failed creation of a machine leaves no part of it.
// How: All parts are removed before the error is returned.
func TestAFailedCreateOfAMachineLeavesNoTrace(t *testing.T) {
	for name, tt := range map[string]struct {
		set   vmmstub.Settings
		code  writ.Code
		words []string
	}{
		"it dies before it answers": {vmmstub.Settings{DieEarly: true}, writ.CodeDriverFailed, []string{"ended", "exits early"}},
		"it does not boot":          {vmmstub.Settings{Fail: map[string]string{"vm.boot": "no luck"}}, writ.CodeDriverFailed, []string{"boot", "no luck"}},
		"it dies while it boots":    {vmmstub.Settings{DieBefore: []string{"vm.boot"}}, writ.CodeDriverFailed, []string{"boot", "ended"}},
		"it dies when it is up":     {vmmstub.Settings{DieAfter: []string{"vm.boot"}}, writ.CodeDriverFailed, []string{"ended"}},
		"it takes no description":   {vmmstub.Settings{Fail: map[string]string{"vm.create": "no"}}, writ.CodeDriverFailed, []string{"describe"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			vmmstub.Set(t, b.Program, tt.set)
			b.refuses("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}), tt.code, tt.words...)
			b.empty()
			vmmstub.Set(t, b.Program, vmmstub.Settings{})
			b.must("machine.create", "web", machineSpec)
		})
	}
}

// Promise: Machines and the overlay: An unbootable machine is refused at once: an image without a kernel, an
// initramfs larger than memory, a command line outside ASCII.
// How: Headers and sizes are read before a process starts.
// Also: TestKernelsAreKnownByTheirHeaders.
func TestMissingToolsAreReportedBeforeACreate(t *testing.T) {
	b := newFixture(t)
	big := filepath.Join(b.host, "images", "root")
	if err := errors.Join(os.WriteFile(big, nil, 0o600), os.Truncate(big, 256<<20)); err != nil {
		t.Fatal(err)
	}
	volume := func(name string) []any { return []any{saltest.RefTo(writ.KindVolume, name)} }
	for what, tt := range map[string]struct {
		spec map[string]any
		code writ.Code
	}{
		"kernel":            {with(machineSpec, "kernel", "none"), writ.CodeResourceUnknown},
		"kernel that is no": {with(machineSpec, "kernel", "qcow2"), writ.CodeArgumentsInvalid},
		"volume":            {with(machineSpec, "disks", volume("none")), writ.CodeResourceUnknown},
		"kernel of text":    {with(machineSpec, "kernel", "initramfs"), writ.CodeArgumentsInvalid},
		"big initramfs":     {with(machineSpec, "initramfs", "root"), writ.CodeArgumentsInvalid},
		"foreign alphabet":  {with(machineSpec, "cmdline", "root=größe"), writ.CodeArgumentsInvalid},
		"volume twice":      {with(machineSpec, "disks", append(volume("root"), volume("root")...)), writ.CodeArgumentsInvalid},
	} {
		if _, err := b.do("machine.create", "web", tt.spec); writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want %s", what, err, tt.code)
		}
	}
	noKernel := map[string]any{"cpus": int64(1), "memory_mib": int64(256)}
	b.Firmware = filepath.Join(b.host, "images", "initramfs")
	b.refuses("machine.create", "web", noKernel, writ.CodeDriverMissing, "is not bootable firmware")
	if _, err := inspectFirmware(b.Firmware)(t.Context()); err == nil {
		t.Error("it is offered")
	}
	b.Firmware = ""
	b.refuses("machine.create", "web", noKernel, writ.CodeDriverMissing, "firmware")
	b.Program = filepath.Join(b.host, "none")
	b.refuses("machine.create", "web", machineSpec, writ.CodeDriverMissing, "cloud-hypervisor")
	b.empty()
}

func TestOldVersionsAreRejected(t *testing.T) {
	for version, ok := range map[string]bool{"v53.0": true, "v53.0-dirty": true, "54.1.0": true, "v52.0": false, "v9.0": false, "": false, "hello": false} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
	for _, release := range vmmstub.Releases {
		b := newFixtureOn(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
		if version, err := program(b.Driver.Program).version(t.Context()); version != release.String() || err != nil {
			t.Errorf("%s is %q, %v", release, version, err)
		}
	}
}
