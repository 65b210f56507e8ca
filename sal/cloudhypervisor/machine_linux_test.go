package cloudhypervisor

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/vmmstub"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// machineSpec is of a machine without anything that it need not have.
var machineSpec = map[string]any{"cpus": int64(1), "memory_mib": int64(256), "kernel": saltest.RefTo(writ.KindImage, "linux")}

// bench is a driver on a host of its own, with the stub.
type bench struct {
	testing.TB
	*Driver
	host string
	stage
	time time.Time // as the driver sees it
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOn(t, stage{program: vmmstub.Build(t), prepare: prepare})
}

// benches calls a test with a driver on the stub, and with one on the real cloud-hypervisor where that is on PATH.
func benches(t *testing.T, test func(t *testing.T, b *bench)) {
	stages(t, func(t *testing.T, s stage) { test(t, newBenchOn(t, s)) })
}

func newBenchOn(t testing.TB, s stage) *bench {
	t.Helper()
	host, err := os.MkdirTemp("", "w") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clear(t, host)
		if err := os.RemoveAll(host); err != nil {
			t.Error(err)
		}
	})
	s.prepare(t, host)
	b := &bench{TB: t, host: host, stage: s, time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.reopen(s.program)
	return b
}

// reopen opens the driver anew, as a runner does that was replaced.
func (b *bench) reopen(program string) {
	b.Driver = open(b.host, program, nil)
	b.Now = func() time.Time { return b.time }
}

func machine(name string) writ.ResourceID { return saltest.Resource(writ.KindMachine, name) }

// atOnce stops a machine whose guest does not mind its power button.
var atOnce = map[string]any{"grace_seconds": int64(0)}

// do carries out an operation on a machine, with a UID that follows from its name.
func (b *bench) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("there is no %s", operation)
	}
	if b.lame && operation == "machine.stop" && args == nil {
		args = atOnce
	}
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.Do(b.Context(), sal.Request{
		Operation: o, Resource: machine(name), UID: writ.UID("uid-" + name), Args: decoded, Key: "k", Progress: func(string) {},
	})
}

func (b *bench) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	o, err := b.do(operation, name, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return o.Values
}

// refuses carries out an operation that must fail with a code and words.
func (b *bench) refuses(operation, name string, args map[string]any, code writ.Code, words ...string) {
	b.Helper()
	_, err := b.do(operation, name, args)
	if writ.CodeOf(err) != code {
		b.Fatalf("%s: %s (%v), want %s", operation, writ.CodeOf(err), err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			b.Errorf("%s does not say %q: %v", operation, word, err)
		}
	}
}

func (b *bench) state(name string) string {
	b.Helper()
	seen, err := b.Observe(b.Context(), machine(name))
	if err != nil {
		b.Fatal(err)
	}
	return seen.State
}

func (b *bench) record(name string) *sal.Record[own] {
	b.Helper()
	r, err := b.records().Get(machine(name))
	if err != nil || r == nil {
		b.Fatalf("there is no record of %s: %v", name, err)
	}
	return r
}

// change rewrites a record, as nobody does but a test.
func (b *bench) change(name string, change func(o *own)) {
	b.Helper()
	r := b.record(name)
	change(&r.Own)
	if err := b.records().Put(r); err != nil {
		b.Fatal(err)
	}
}

// signal sends a signal to the process of a machine and, if it is to end, waits for that.
func (b *bench) signal(name string, s syscall.Signal, ends bool) {
	b.Helper()
	v, err := b.attend(b.record(name))
	if err != nil || v == nil {
		b.Fatalf("%s has no process: %v", name, err)
	}
	defer v.release()
	if err := v.signal(s); err != nil {
		b.Fatal(err)
	}
	if !ends {
		return
	}
	if err := v.wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// keeps holds a machine against its record, which must find one thing, or nothing for "".
func (b *bench) keeps(name, what string, mended bool) {
	b.Helper()
	drift, err := b.Keep(b.Context(), machine(name))
	switch {
	case err != nil:
		b.Fatal(err)
	case what == "" && len(drift) == 0:
	case what == "" || len(drift) != 1 || !strings.Contains(drift[0].What, what) || drift[0].Mended != mended:
		b.Errorf("it found %+v, want %q, mended: %v", drift, what, mended)
	}
}

// empty makes sure that nothing is left of any machine.
func (b *bench) empty() {
	b.Helper()
	if left := traces(b, b.host); len(left) > 0 {
		b.Errorf("there are %q", left)
	}
	for _, dir := range []string{b.machines(), filepath.Join(b.Dir, "records")} {
		if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil && !os.IsNotExist(err) {
			b.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

func TestForeignProcessAtOurSocketIsNamedAndLeftAlone(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
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
		want := []sal.Orphan{{Kind: "process", Name: pid}, {Kind: "directory", Name: dir}}
		if diff := cmp.Diff(want, orphans); diff != "" || err != nil {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
	})
}

func TestReusedNumberIsNotTakenForTheMachine(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
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

func (b *bench) boot() string {
	b.Helper()
	id, err := thisBoot()
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func TestStaleSocketIsReplaced(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
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

func TestTapThatIsTakenIsSaid(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
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
		ifreq.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifreq); err != nil {
			t.Skipf("no tap can be made here: %v", err)
		}
		b.Networks.(*others).busy = name
		b.refuses("machine.create", "web", with(machineSpec, "networks", nets), writ.CodeDriverFailed, "boot the machine", "busy")
		b.empty()
	})
}

func TestAddressesAndUsageAreThoseOfTheTaps(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		nets := networks(t)
		if nets == nil {
			t.Skip("only root makes taps")
		}
		made := b.must("machine.create", "web", with(machineSpec, "networks", nets))
		if made["address"] != "400:1:2:3:ff0f::2" || made["mac"] != "02:00:00:00:00:00" {
			t.Errorf("it has %v", made)
		}
		used, err := b.Usage(t.Context(), machine("web"))
		if err != nil || used.CPUs != 1 || used.MemoryMiB != 256 {
			t.Errorf("it uses %+v, %v", used, err)
		}
		b.must("machine.delete", "web", nil)
		b.empty()
		if used, err := b.Usage(t.Context(), machine("web")); err != nil || used != (sal.Usage{}) {
			t.Errorf("deleted it uses %+v, %v", used, err)
		}
	})
}

func TestWhatFailsWhileAMachineIsMadeLeavesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		set   vmmstub.Settings
		code  writ.Code
		words []string
	}{
		"it dies before it answers": {vmmstub.Settings{DieEarly: true}, writ.CodeDriverFailed, []string{"ended", "dies early"}},
		"it does not boot":          {vmmstub.Settings{Fail: map[string]string{"vm.boot": "no luck"}}, writ.CodeDriverFailed, []string{"boot", "no luck"}},
		"it dies while it boots":    {vmmstub.Settings{DieBefore: []string{"vm.boot"}}, writ.CodeDriverFailed, []string{"boot", "ended"}},
		"it dies when it is up":     {vmmstub.Settings{DieAfter: []string{"vm.boot"}}, writ.CodeDriverFailed, []string{"ended"}},
		"it takes no description":   {vmmstub.Settings{Fail: map[string]string{"vm.create": "no"}}, writ.CodeDriverFailed, []string{"describe"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			vmmstub.Set(t, b.Program, tt.set)
			b.refuses("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}), tt.code, tt.words...)
			b.empty()
			vmmstub.Set(t, b.Program, vmmstub.Settings{})
			b.must("machine.create", "web", machineSpec)
		})
	}
}

func TestWhatIsMissingIsSaidBeforeAnythingIsMade(t *testing.T) {
	b := newBench(t)
	volume := func(name string) []any { return []any{saltest.RefTo(writ.KindVolume, name)} }
	for what, tt := range map[string]struct {
		spec map[string]any
		code writ.Code
	}{
		"kernel":            {with(machineSpec, "kernel", "none"), writ.CodeResourceUnknown},
		"kernel that is no": {with(machineSpec, "kernel", "qcow2"), writ.CodeArgumentsInvalid},
		"volume":            {with(machineSpec, "disks", volume("none")), writ.CodeResourceUnknown},
		"volume twice":      {with(machineSpec, "disks", append(volume("root"), volume("root")...)), writ.CodeArgumentsInvalid},
	} {
		if _, err := b.do("machine.create", "web", tt.spec); writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want %s", what, err, tt.code)
		}
	}
	b.Firmware = ""
	b.refuses("machine.create", "web", map[string]any{"cpus": int64(1), "memory_mib": int64(256)}, writ.CodeDriverMissing, "firmware")
	b.Program = filepath.Join(b.host, "none")
	b.refuses("machine.create", "web", machineSpec, writ.CodeDriverMissing, "cloud-hypervisor")
	b.empty()
}

func TestOnlyVersionsWhoseAnswersCanBeToldApartAreTaken(t *testing.T) {
	for version, ok := range map[string]bool{"v53.0": true, "v53.0-dirty": true, "54.1.0": true, "v52.0": false, "v9.0": false, "": false, "hello": false} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
	b := newBench(t)
	if version, err := b.Probe(t.Context()); version != "v53.0" || err != nil {
		t.Errorf("%q, %v", version, err)
	}
}

func TestMachineSurvivesItsRunner(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", machineSpec)
		pid := b.record("web").Own.Process.PID
		b.reopen(b.Program)
		b.keeps("web", "", false)
		b.must("machine.pause", "web", nil)
		b.must("machine.resume", "web", nil)
		if got := b.record("web").Own.Process.PID; got != pid || b.state("web") != string(running) {
			t.Errorf("its process is %d, not %d, and it is %s", got, pid, b.state("web"))
		}
		session, err := unix.Getsid(pid)
		if err != nil || session != pid {
			t.Errorf("its session is %d, %v", session, err)
		}
	})
}

func TestProcessThatWasJustStartedIsFoundAgain(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", machineSpec)
		pid := b.record("web").Own.Process.PID
		b.change("web", func(o *own) { o.Process.PID, o.Process.Started = 0, 0 }) // a crash came between
		if b.state("web") != string(running) {
			t.Error("it is not found")
		}
		b.must("machine.delete", "web", nil)
		if h, err := hold(pid); h != nil || err != nil {
			t.Errorf("it lives: %v", err)
		}
		b.empty()
	})
}

func TestKilledMachineIsStartedAgainWithGrowingPauses(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	b.time = b.time.Add(time.Hour)
	b.signal("web", unix.SIGKILL, true)
	if got := b.state("web"); got != string(stopped) {
		t.Errorf("killed it is %s", got)
	}
	b.keeps("web", "started again, the 1. time", true)
	b.keeps("web", "", false)

	b.signal("web", unix.SIGKILL, true)
	b.time = b.time.Add(shortest)
	b.keeps("web", "died again; it is started at", false)
	b.time = b.time.Add(shortest)
	b.keeps("web", "the 2. time", true)
	if b.state("web") != string(running) {
		t.Error("it does not run")
	}

	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.boot": "no luck"}})
	b.signal("web", unix.SIGKILL, true)
	b.time = b.time.Add(steady)
	b.keeps("web", "no luck", false)
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.time = b.time.Add(steady)
	b.keeps("web", "the 4. time", true)
}

func TestMachineIsBackAfterTheHostStartedAnew(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", machineSpec)
		b.must("machine.create", "off", machineSpec)
		b.must("machine.stop", "off", nil)
		b.must("machine.create", "paused", machineSpec)
		b.must("machine.pause", "paused", nil)
		for _, name := range []string{"web", "paused"} {
			b.signal(name, unix.SIGKILL, true)
			b.change(name, func(o *own) { o.Process.Boot = "another boot" })
		}
		b.keeps("web", "the host was started anew", true)
		b.keeps("off", "", false)
		b.keeps("paused", "memory of the paused machine is lost", false)
		b.must("machine.start", "paused", nil)
		b.keeps("paused", "", false)
		for name, want := range map[string]power{"web": running, "off": stopped, "paused": running} {
			if got := b.state(name); got != string(want) {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}

func TestGuestThatTurnsItselfOffStaysOff(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	b.signal("web", vmmstub.GuestPowersOff, true)
	for range 2 {
		b.keeps("web", "turned itself off", false)
	}
	if got := b.state("web"); got != string(stopped) {
		t.Errorf("it is %s", got)
	}
	b.must("machine.start", "web", nil)
	b.keeps("web", "", false)
	b.signal("web", vmmstub.GuestPowersOff, true)
	b.must("machine.stop", "web", nil)
	b.keeps("web", "", false)
}

func TestGuestThatStartsItselfAnewIsReportedOnce(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	b.signal("web", vmmstub.GuestReboots, false)
	r := b.record("web")
	k := &keeping{job: b.job(sal.Request{Resource: r.Resource}), r: r}
	for k.events("vm", "rebooted") == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond) // the process tells nobody but its file
	}
	b.keeps("web", "started itself anew, 1 times", true)
	b.keeps("web", "", false)
	if got := b.state("web"); got != string(running) {
		t.Errorf("it is %s", got)
	}
}

// Whoever takes silence for death kills machines that work.
func TestSilenceIsNotDeath(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	pid := b.record("web").Own.Process.PID
	vmmstub.Set(t, b.Program, vmmstub.Settings{Slow: map[string]int64{"vm.info": (patience + time.Second).Milliseconds()}})
	b.keeps("web", "does not answer", false)
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.keeps("web", "", false)
	if got := b.record("web").Own.Process.PID; got != pid {
		t.Errorf("its process is %d, not %d", got, pid)
	}
	vmmstub.Set(t, b.Program, vmmstub.Settings{Slow: map[string]int64{"vm.counters": (patience + time.Second).Milliseconds()}})
	if used, err := b.Usage(t.Context(), machine("web")); err == nil {
		t.Errorf("what it cannot tell is %+v", used)
	}
}

func TestDeafGuestIsCutOffWhenTheGraceIsOver(t *testing.T) {
	b := newBench(t)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Deaf: true})
	b.must("machine.create", "web", machineSpec)
	b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(1)})
	b.must("machine.start", "web", nil)
	b.must("machine.pause", "web", nil)
	b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(0)})
	if left := processes(t, b.host); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
}

func TestProcessThatHearsNothingIsKilled(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.shutdown": "no", "vmm.shutdown": "no"}})
	b.must("machine.delete", "web", nil)
	b.empty()

	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.must("machine.create", "web", machineSpec)
	b.signal("web", unix.SIGSTOP, false)
	v, err := b.attend(b.record("web"))
	if err != nil || v == nil {
		t.Fatal(err)
	}
	defer v.release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := v.end(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that stands still ended with %v", err)
	}
	if err := v.kill(); err != nil {
		t.Error(err)
	}
	b.must("machine.delete", "web", nil)
	b.empty()
}

func TestVolumeIsForOneMachineAtATime(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		root := []any{saltest.RefTo(writ.KindVolume, "root")}
		b.must("machine.create", "web", with(machineSpec, "disks", root))
		b.must("machine.stop", "web", nil)
		b.refuses("machine.create", "other", with(machineSpec, "disks", root), writ.CodeResourceConflict, "machine web")
		b.must("machine.create", "other", machineSpec)
		b.refuses("machine.attach", "other", map[string]any{"volume": root[0]}, writ.CodeResourceConflict, "machine web")
		b.refuses("machine.detach", "web", map[string]any{"volume": root[0]}, writ.CodeResourceConflict, "boots from")
		users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "root").UID)
		if diff := cmp.Diff([]sal.User{{Owner: sal.Owner{Resource: machine("web"), UID: "uid-web"}}}, users); diff != "" || err != nil {
			t.Errorf("users: %v\n%s", err, diff)
		}
		for _, verb := range []string{"start", "pause"} {
			b.must("machine."+verb, "web", nil)
			if users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "root").UID); err != nil || len(users) != 1 || !users[0].Running {
				t.Errorf("after %s the users are %+v, %v", verb, users, err)
			}
		}
		b.must("machine.delete", "web", nil)
		b.must("machine.attach", "other", map[string]any{"volume": root[0]})
		if info, err := os.Stat(filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil || info.Size() != 1<<30 || occupied(info) > 1<<20 {
			t.Errorf("the disk is %+v, %v", info, err)
		}
	})
}

// user has one volume.
type user struct{ volume writ.UID }

func (u user) Users(_ context.Context, volume writ.UID) ([]sal.User, error) {
	if volume != u.volume {
		return nil, nil
	}
	return []sal.User{{Owner: sal.Owner{Resource: saltest.Resource(writ.KindContainer, "box"), UID: "uid-box"}}}, nil
}

// Whoever writes in a volume could lead a machine to any file of the host, by a link in the place of its disk.
func TestVolumeThatAContainerHasIsForNoMachine(t *testing.T) {
	b := newBench(t)
	data := saltest.RefTo(writ.KindVolume, "data")
	b.Others = []sal.Users{user{data.UID}}
	b.refuses("machine.create", "web", with(machineSpec, "disks", []any{data}), writ.CodeResourceBusy, "container box")
	b.empty()
	b.must("machine.create", "web", machineSpec)
	b.refuses("machine.attach", "web", map[string]any{"volume": data}, writ.CodeResourceBusy, "container box")
	if users, err := b.Users(t.Context(), data.UID); err != nil || len(users) > 0 {
		t.Errorf("it was refused, and %v have it, %v", users, err)
	}
	b.Others = nil
	secret := filepath.Join(b.host, "secret")
	if err := os.Symlink(secret, filepath.Join(b.host, "volumes/data", sal.DiskName)); err != nil {
		t.Fatal(err)
	}
	if err := growTo(filepath.Join(b.host, "volumes/data", sal.DiskName), 1); err == nil {
		t.Error("a link was followed")
	}
}

func TestDisksGrowWithTheirVolumes(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		b.keeps("web", "", false)
		if err := os.WriteFile(filepath.Join(b.host, "volumes/root/grown"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.keeps("web", "had grown", true)
		b.keeps("web", "", false)
		disk := filepath.Join(b.host, "volumes/root", sal.DiskName)
		if err := os.Truncate(disk, 3<<30); err != nil { // as drivers of volumes do that let disks grow themselves
			t.Fatal(err)
		}
		b.keeps("web", "had grown", true)
		b.keeps("web", "", false)
		if err := os.Truncate(disk, 2<<30); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(b.host, "volumes/root", sal.DiskName)); err != nil || info.Size() != 2<<30 {
			t.Errorf("the disk is %+v, %v", info, err)
		}
	})
}

func TestRestoreBringsBackWhatWasOnTheDisks(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		if b.forgets {
			t.Skip("memory of machines cannot be kept here")
		}
		path := filepath.Join(b.host, "volumes/root", sal.DiskName)
		write := func(text string) {
			t.Helper()
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte(text), 4096)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func() string {
			t.Helper()
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			text := make([]byte, 3)
			if _, err := f.ReadAt(text, 4096); err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		write("old")
		b.must("machine.snapshot", "web", before)
		b.must("machine.stop", "web", nil)
		write("off")
		b.must("machine.snapshot", "web", map[string]any{"snapshot": "off"})
		write("new")
		for name, want := range map[string]struct {
			power power
			text  string
		}{"before": {running, "old"}, "off": {stopped, "off"}} {
			got := b.must("machine.restore", "web", map[string]any{"snapshot": name})
			if got["state"] != string(want.power) || read() != want.text {
				t.Errorf("%s: it is %v and has %q", name, got["state"], read())
			}
			b.keeps("web", "", false)
		}
		b.refuses("machine.restore", "web", map[string]any{"snapshot": "none"}, writ.CodeResourceUnknown)
		b.change("web", func(o *own) {
			k := o.Kept["before"]
			k.Version = "v99.0"
			o.Kept["before"] = k
		})
		b.refuses("machine.restore", "web", before, writ.CodeResourceConflict, "v99.0")
	})
}

func TestMemoryThatCannotBePutBackLeavesAMachineThatCanBeStarted(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	b.must("machine.snapshot", "web", before)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.restore": "no luck"}})
	b.refuses("machine.restore", "web", before, writ.CodeDriverFailed, "no luck")
	if got := b.state("web"); got != string(stopped) {
		t.Errorf("it is %s", got)
	}
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.keeps("web", "", false)
	b.must("machine.start", "web", nil)
	b.must("machine.restore", "web", before)
}

func TestSnapshotThatFailsLeavesTheMachineRunning(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.snapshot": "no room"}})
	b.refuses("machine.snapshot", "web", before, writ.CodeDriverFailed, "no room")
	b.keeps("web", "", false)
	if got := b.state("web"); got != string(running) {
		t.Errorf("it is %s", got)
	}
}

func TestWhatARunningMachineCannotTakeIsRefused(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", machineSpec)
		for _, size := range []map[string]any{{"cpus": int64(9)}, {"memory_mib": int64(128)}, {"memory_mib": int64(300)}, {"memory_mib": int64(4096)}} {
			b.refuses("machine.resize", "web", size, writ.CodeResourceConflict)
		}
		b.must("machine.resize", "web", map[string]any{"cpus": int64(8), "memory_mib": int64(512)})
		b.must("machine.stop", "web", nil)
		got := b.must("machine.resize", "web", map[string]any{"cpus": int64(3), "memory_mib": int64(300)})
		if got["cpus"] != int64(3) || got["memory_mib"] != int64(300) {
			t.Errorf("it has %v", got)
		}
		b.must("machine.start", "web", nil)
		b.keeps("web", "", false)
	})
}

func TestChangeOfSizeThatWasInterruptedIsFinished(t *testing.T) {
	for finish, how := range map[string]func(b *bench){
		"by the operation": func(b *bench) { b.must("machine.create", "web", with(machineSpec, "cpus", int64(2))) },
		"by the runner":    func(b *bench) { b.keeps("web", "it had other CPUs", true) },
	} {
		t.Run(finish, func(t *testing.T) {
			b := newBench(t)
			b.must("machine.create", "web", machineSpec)
			b.change("web", func(o *own) { o.CPUs = 2 }) // a crash came after this and before the machine was told
			how(b)
			b.keeps("web", "", false)
			b.must("machine.create", "web", with(machineSpec, "cpus", int64(2)))
			v, err := b.attend(b.record("web"))
			if err != nil || v == nil {
				t.Fatal(err)
			}
			defer v.release()
			if info, err := v.Info(t.Context()); err != nil || info.Config.CPUs.BootVcpus != 2 {
				t.Errorf("it has %+v, %v", info.Config.CPUs, err)
			}
		})
	}
}

func TestSizeThatIsRefusedStaysRefused(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.resize": "no luck"}})
	for range 2 { // the first one must not have been written down
		b.refuses("machine.create", "web", with(machineSpec, "cpus", int64(2)), writ.CodeDriverFailed, "no luck")
	}
	b.keeps("web", "", false)
}

func TestGuestThatDoesNotLetGoKeepsItsDisk(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	b.must("machine.attach", "web", data)
	b.refuses("machine.attach", "web", with(data, "read_only", true), writ.CodeResourceConflict, "another form")
	vmmstub.Set(t, b.Program, vmmstub.Settings{Stuck: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o, _ := catalog.Lookup("machine.detach")
	args, err := o.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Do(ctx, sal.Request{Operation: o, Resource: machine("web"), UID: "uid-web", Args: args, Progress: func(string) {}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if users, err := b.Users(t.Context(), saltest.RefTo(writ.KindVolume, "data").UID); err != nil || len(users) != 1 {
		t.Errorf("users: %v, %v", users, err)
	}
}

// What cloud-hypervisor does with what is left out changes from version to version.
func TestNothingIsLeftToDefaults(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
		v, err := b.attend(b.record("web"))
		if err != nil || v == nil {
			t.Fatal(err)
		}
		defer v.release()
		info, err := v.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := info.Config
		for _, d := range c.Disks {
			if d.ID == "" || d.ImageType != "Raw" || d.Readonly != (d.ID == seedID) {
				t.Errorf("it has the disk %+v", d)
			}
		}
		if len(c.Disks) != 2 || c.CPUs.Nested || c.Console.Mode != "Off" || c.Serial.Mode != "File" || c.Payload.Cmdline != "console=ttyS0 reboot=k panic=1 root=/dev/vda rw" {
			t.Errorf("it is %+v", c)
		}
	})
}

func TestConsoleKeepsWhatWasBeforeTheLastStartAndHasBounds(t *testing.T) {
	b := newBench(t)
	b.must("machine.create", "web", machineSpec)
	said := func() string {
		return b.must("machine.console", "web", map[string]any{"lines": int64(2)})["text"].(string)
	}
	if text := said(); !strings.Contains(text, "vmmstub") {
		t.Errorf("it says %q", text)
	}
	path := filepath.Join(b.dirOf(machine("web")), consoleName)
	if err := os.WriteFile(path, []byte("one\ntwo\xff\nthree"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.must("machine.stop", "web", nil)
	if diff := cmp.Diff("two?\nthree", said()); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("a line that is not short\n", (maxConsole+1<<20)/25)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.job(sal.Request{Resource: machine("web")}).trim(consoleName); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || occupied(info) > keepConsole+1<<20 || info.Size() < maxConsole {
		t.Errorf("trimmed it occupies %d of %d bytes, %v", occupied(info), info.Size(), err)
	}
	if text := said(); !strings.HasPrefix(text, "a line that is not short\n") {
		t.Errorf("trimmed it says %q", text)
	}
}

func TestTailIsBoundedAndForgivesMissingFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("\x00\x00a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{1: "b\n", 2: "a\nb\n", 100: "a\nb\n"} {
		if got := tail([]string{filepath.Join(dir, "none"), path}, lines); got != want {
			t.Errorf("%d lines: %q", lines, got)
		}
	}
}

func TestOnlyWhatIsLeftIsAnOrphan(t *testing.T) {
	benches(t, func(t *testing.T, b *bench) {
		b.must("machine.create", "web", machineSpec)
		if orphans, err := b.Orphans(t.Context()); err != nil || len(orphans) > 0 {
			t.Errorf("orphans: %v, %v", orphans, err)
		}
		r := b.record("web")
		if err := b.records().Remove(r.Resource); err != nil {
			t.Fatal(err)
		}
		reader := exec.Command("tail", "-f", filepath.Join(b.dirOf(machine("web")), eventsName(r.Own.Process.Launch)))
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = reader.Process.Kill(), reader.Wait() }()
		orphans, err := b.Orphans(t.Context())
		want := []sal.Orphan{{Kind: "process", Name: strconv.Itoa(r.Own.Process.PID)}, {Kind: "directory", Name: b.dirOf(machine("web"))}}
		if diff := cmp.Diff(want, orphans); diff != "" || err != nil {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
	})
}

// A socket that nobody listens at is what a crash leaves; one that somebody listens at is not ours to take.
func TestListenerIsWhoListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if pid, err := listener(path); pid != 0 || err != nil {
		t.Errorf("nobody: %d, %v", pid, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if pid, err := listener(path); pid != 0 || err != nil {
		t.Errorf("nobody any more: %d, %v", pid, err)
	}
	if pid, err := listener(t.TempDir()); err == nil && pid != 0 {
		t.Errorf("a directory: %d, %v", pid, err)
	}
}
