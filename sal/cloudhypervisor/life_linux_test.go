package cloudhypervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/test/vmmstub"
	"writ/internal/unixsocket"
	"writ/sal/catalog"
)

// Promise: Machines and the overlay: A machine survives its runner and is unchanged for the next one.
// How: It has its own session; the socket is inherited and stays.
// Also: TestProcessThatWasJustStartedIsFoundAgain.
func TestMachineSurvivesItsRunner(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
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
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		pid := b.record("web").Own.Process.PID
		// Simulates a crash between start and record.
		b.change("web", func(o *own) { o.Process.PID, o.Process.Started = 0, 0 })
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

// Promise: Machines and the overlay: A machine that died unexpectedly is restarted with growing pauses, also after a
// reboot; a guest that shut down stays off.
// How: The runner compares record, process and the events of the process.
// Also: TestMachineReturnsAfterHostReboot, TestPoweredOffGuestStaysOff.
func TestKilledMachineRestartsWithBackoff(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	b.time = b.time.Add(time.Hour)
	b.signal("web", unix.SIGKILL, true)
	if got := b.state("web"); got != string(stopped) {
		t.Errorf("killed it is %s", got)
	}
	b.keeps("web", "restarted (restart 1)", true)
	b.keeps("web", "", false)

	b.signal("web", unix.SIGKILL, true)
	b.time = b.time.Add(shortest)
	b.keeps("web", "died again; the next start is at", false)
	b.time = b.time.Add(shortest)
	b.keeps("web", "(restart 2)", true)
	if b.state("web") != string(running) {
		t.Error("it does not run")
	}

	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.boot": "no luck"}})
	b.signal("web", unix.SIGKILL, true)
	b.time = b.time.Add(steady)
	b.keeps("web", "no luck", false)
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.time = b.time.Add(steady)
	b.keeps("web", "(restart 4)", true)
}

func TestMachineReturnsAfterHostReboot(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		b.must("machine.create", "off", machineSpec)
		b.must("machine.stop", "off", nil)
		b.must("machine.create", "paused", machineSpec)
		b.must("machine.pause", "paused", nil)
		for _, name := range []string{"web", "paused"} {
			b.signal(name, unix.SIGKILL, true)
			b.change(name, func(o *own) { o.Process.Boot = "another boot" })
		}
		b.keeps("web", "the host rebooted", true)
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

// request sends a request to the process of a machine, as another program on the host could.
func (b *fixture) request(name, what string) {
	b.Helper()
	v, err := b.openProcess(b.record(name))
	if err != nil || v == nil {
		b.Fatalf("%s has no process: %v", name, err)
	}
	defer v.release()
	dial := func(context.Context, string, string) (net.Conn, error) {
		return unixsocket.Dial(b.Context(), filepath.Join(b.dirOf(machine(name)), socketName))
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPut, "http://localhost/api/v1/"+what, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		b.Fatalf("%s: %s", what, response.Status)
	}
}

// A paused machine that another program removed must not run: its memory is lost, and nobody asked for a start.
func TestRemovedPausedMachineStaysDown(t *testing.T) {
	for _, what := range []string{"vm.shutdown", "vm.delete"} {
		t.Run(what, func(t *testing.T) {
			b := newFixture(t)
			b.must("machine.create", "web", machineSpec)
			b.must("machine.pause", "web", nil)
			b.request("web", what)
			for range 2 {
				b.keeps("web", "memory of the paused machine is lost", false)
			}
			if got := b.state("web"); got != string(stopped) {
				t.Errorf("it is %s", got)
			}
			b.must("machine.start", "web", nil)
			b.keeps("web", "", false)
			if got := b.state("web"); got != string(running) {
				t.Errorf("after the start it is %s", got)
			}
		})
	}
}

// turnsOff makes the guest of a machine on the stub turn itself off.
func (b *fixture) turnsOff(name string) {
	b.Helper()
	b.signal(name, vmmstub.GuestPowersOff, false)
	for b.state(name) != string(stopped) && b.Context().Err() == nil {
		time.Sleep(time.Millisecond) // the process only writes an event to its file
	}
}

func TestPoweredOffGuestStaysOff(t *testing.T) {
	for _, release := range vmmstub.Releases {
		t.Run(release.String(), func(t *testing.T) {
			b := newFixtureOn(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
			b.must("machine.create", "web", machineSpec)
			b.turnsOff("web")
			for range 2 {
				b.keeps("web", "turned itself off", false)
			}
			if left := processes(t, b.host); len(left) > 0 || b.state("web") != string(stopped) {
				t.Errorf("state = %s, with processes %v", b.state("web"), left)
			}
			b.must("machine.start", "web", nil)
			b.keeps("web", "", false)
			b.turnsOff("web")
			b.signal("web", unix.SIGKILL, true) // its process dies after the guest turned itself off
			b.keeps("web", "turned itself off", false)
			b.must("machine.start", "web", nil)
			b.turnsOff("web")
			b.must("machine.stop", "web", nil)
			b.keeps("web", "", false)
		})
	}
}

// The process may also end with a clean shutdown: only the guest itself turns the machine off.
//
// Promise: Machines and the overlay: Only its guest shuts down a machine; a machine whose process ends by a signal or
// fault is restarted and the reason is reported.
// How: The process stays when its guest shuts down, and removes its machine when it ends for another reason.
// Also: TestPoweredOffGuestStaysOff, TestGuestOffBeforeProcessEndStaysOff.
func TestMachineRestartsAfterItsProcessEnds(t *testing.T) {
	fail := "VCPU generated error: VcpuRun"
	for _, release := range vmmstub.Releases {
		for name, tt := range map[string]struct {
			end   func(b *fixture)
			words string
		}{
			"by a signal":                   {func(b *fixture) { b.signal("web", unix.SIGTERM, true) }, "a normal shutdown"},
			"by a failure of its processor": {func(b *fixture) { b.signal("web", vmmstub.GuestFails, true) }, fail},
		} {
			t.Run(release.String()+" "+name, func(t *testing.T) {
				b := newFixtureOn(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
				b.must("machine.create", "web", machineSpec)
				tt.end(b)
				b.time = b.time.Add(time.Hour)
				drift, err := b.Keep(t.Context(), machine("web"))
				if err != nil || len(drift) != 1 || !drift[0].Mended || !strings.Contains(drift[0].What, tt.words) || !strings.Contains(drift[0].What, "restarted (restart 1)") {
					t.Errorf("drift = %+v, %v", drift, err)
				}
				if strings.Contains(drift[0].What, "\n") {
					t.Errorf("drift has several lines: %q", drift[0].What)
				}
				if got := b.state("web"); got != string(running) {
					t.Errorf("it is %s", got)
				}
			})
		}
	}
}

func TestTerminatedMachineIsRestarted(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.must("machine.create", "web", machineSpec)
		b.signal("web", unix.SIGTERM, true)
		b.time = b.time.Add(time.Hour)
		b.keeps("web", "restarted (restart 1)", true)
		b.keeps("web", "", false)
	})
}

// A process that was started by an earlier version ends with its guest for any reason, so the promise of that version
// applies.
func TestOldProcessThatEndsCleanlyStaysOff(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	b.change("web", func(o *own) { o.Process.Stays = false })
	b.signal("web", unix.SIGTERM, true)
	b.keeps("web", "turned itself off", false)
	b.must("machine.start", "web", nil)
	b.keeps("web", "", false)
}

// Processes of earlier versions are identified by the argument with the events file, and not by their name.
func TestAProcessOfAnEarlierVersionIsKnown(t *testing.T) {
	const path = "/var/lib/machines/m1/events-12.json"
	old := []string{"cloud-hypervisor", "--api-socket", "fd=3", "--event-monitor", "path=" + path}
	now := []string{"/usr/bin/cloud-hypervisor path=" + path, "--api-socket", "fd=3", "--event-monitor", "fd=4"}
	for _, args := range [][]string{old, now} {
		if got := eventsOf(args); got != path || !isLaunch("/var/lib/machines/m1", "12")(args) || !below("/var/lib/machines")(args) {
			t.Errorf("%q: %q", args, got)
		}
	}
	for _, args := range [][]string{nil, {"tail", "-f", path}, {"cloud-hypervisor", "--event-monitor"}} {
		if eventsOf(args) != "" || below("/var/lib/machines")(args) {
			t.Errorf("%q is taken for a machine's", args)
		}
	}
}

// The report comes before and after the failure of the guest.
//
// Promise: Machines and the overlay: A kernel that fails within two seconds fails its call with cloud-hypervisor's
// message, and a silent guest is reported after 20 s.
// How: writ reads the console and the events of the process.
func TestUnbootableKernelIsReported(t *testing.T) {
	b := newFixture(t)
	// Seen during the shutdown of its machine.
	vmmstub.Set(t, b.Program, vmmstub.Settings{Mute: true, AfterBoot: "fail", Linger: 50})
	b.refuses("machine.create", "web", machineSpec, writ.CodeDriverFailed, "VcpuRun", "InternalError")
	b.empty()
	_, err := b.do("machine.create", "web", machineSpec)
	if e := writ.AsError(err); e == nil || strings.Contains(e.Hint, logName) || strings.Contains(e.Message, "\n") {
		t.Errorf("it names a log that is gone, or has several lines: %q, hint %q", e.Message, e.Hint)
	}
	vmmstub.Set(t, b.Program, vmmstub.Settings{Mute: true})
	b.must("machine.create", "web", machineSpec)
	b.keeps("web", "", false)
	b.time = b.time.Add(silenceLimit)
	b.keeps("web", "no sign of life since it was started 20s ago", false)
	log, err := os.OpenFile(filepath.Join(b.dirOf(b.record("web").Resource), logName), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = log.WriteString("cloud-hypervisor: 20.1s: <vcpu0> ERROR:vmm/src/cpu.rs:1 -- it spins\n")
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.keeps("web", "cpu.rs:1 -- it spins", false)
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(0)})
	b.must("machine.start", "web", nil)
	b.time = b.time.Add(silenceLimit)
	b.keeps("web", "", false)
}

func TestGuestRebootIsReportedOnce(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	b.signal("web", vmmstub.GuestReboots, false)
	r := b.record("web")
	events := filepath.Join(b.dirOf(r.Resource), eventsName(r.Own.Process.Launch))
	for h := (heard{}); h.Reboots == 0 && t.Context().Err() == nil; {
		time.Sleep(time.Millisecond) // the process only writes an event to its file
		var err error
		if h, err = h.readEvents(events); err != nil {
			t.Fatal(err)
		}
	}
	b.keeps("web", "rebooted, 1 times", true)
	b.keeps("web", "", false)
	f, err := os.OpenFile(events, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(`{"timestamp":{"secs":1,"nanos":2},"source":"vm","event":"rebooted","properties":null}`+"\n\n", 2*maxEvents/80)
	if _, err := f.WriteString(many + `{"source": "vm", "eve`); err != nil {
		t.Fatal(err)
	}
	b.keeps("web", fmt.Sprintf("rebooted, %d times", 1+2*maxEvents/80), true)
	if info, err := f.Stat(); err != nil || diskspace.Occupied(info) > 64<<10 {
		t.Errorf("events still occupy %d bytes, %v", diskspace.Occupied(info), err)
	}
	if _, err := f.WriteString(`nt": "rebooted"}`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.keeps("web", fmt.Sprintf("rebooted, %d times", 2+2*maxEvents/80), true)
	b.keeps("web", "", false)
	if got := b.state("web"); got != string(running) {
		t.Errorf("it is %s", got)
	}
}

// Killing silent processes would kill machines that work.
//
// Promise: Machines and the overlay: A machine with an unresponsive process does not count as dead.
// How: Only the kernel reports the end of a process.
func TestSilenceIsNotDeath(t *testing.T) {
	b := newFixture(t)
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
		t.Errorf("usage without counters = %+v, want an error", used)
	}
}

// The runner dies during a stop. The repeated stop reports how the guest ended.
func TestRepeatedStopReportsTheEnd(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	for _, ended := range []string{catalog.EndedByForce, catalog.EndedByItself} {
		vmmstub.Set(t, b.Program, vmmstub.Settings{Deaf: ended == catalog.EndedByForce})
		grace := map[string]any{"grace_seconds": int64(1)}
		before := b.record("web").Own.Process
		b.must("machine.stop", "web", grace)
		b.change("web", func(o *own) { o.Process = before })
		if got := b.must("machine.stop", "web", grace)["ended"]; got != ended {
			t.Errorf("ended: %v, want %s", got, ended)
		}
		b.must("machine.start", "web", nil)
	}
}

func TestDeafGuestIsCutOffWhenTheGraceIsOver(t *testing.T) {
	b := newFixture(t)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Deaf: true})
	b.must("machine.create", "web", machineSpec)
	if ended := b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(1)})["ended"]; ended != catalog.EndedByForce {
		t.Errorf("ended: %v", ended)
	}
	b.must("machine.start", "web", nil)
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	if ended := b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(30)})["ended"]; ended != catalog.EndedByItself {
		t.Errorf("ended: %v", ended)
	}
	vmmstub.Set(t, b.Program, vmmstub.Settings{Deaf: true})
	b.must("machine.start", "web", nil)
	b.must("machine.pause", "web", nil)
	b.must("machine.stop", "web", map[string]any{"grace_seconds": int64(0)})
	if left := processes(t, b.host); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
}

func TestAnUnresponsiveProcessIsKilled(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Fail: map[string]string{"vm.shutdown": "no", "vmm.shutdown": "no"}})
	b.must("machine.delete", "web", nil)
	b.empty()

	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.must("machine.create", "web", machineSpec)
	b.signal("web", unix.SIGSTOP, false)
	v, err := b.openProcess(b.record("web"))
	if err != nil || v == nil {
		t.Fatal(err)
	}
	defer v.release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := v.end(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("end of a stuck process = %v, want DeadlineExceeded", err)
	}
	if err := v.kill(); err != nil {
		t.Error(err)
	}
	b.must("machine.delete", "web", nil)
	b.empty()
}
