package cloudhypervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/vmmstub"
)

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
	events := filepath.Join(b.dirOf(r.Resource), eventsName(r.Own.Process.Launch))
	for h := (heard{}); h.Reboots == 0 && t.Context().Err() == nil; {
		time.Sleep(time.Millisecond) // the process tells nobody but its file
		var err error
		if h, err = h.hear(events); err != nil {
			t.Fatal(err)
		}
	}
	b.keeps("web", "started itself anew, 1 times", true)
	b.keeps("web", "", false)
	f, err := os.OpenFile(events, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(`{"timestamp":{"secs":1,"nanos":2},"source":"vm","event":"rebooted","properties":null}`+"\n\n", 2*maxEvents/80)
	if _, err := f.WriteString(many + `{"source": "vm", "eve`); err != nil {
		t.Fatal(err)
	}
	b.keeps("web", fmt.Sprintf("started itself anew, %d times", 1+2*maxEvents/80), true)
	if info, err := f.Stat(); err != nil || occupied(info) > 64<<10 {
		t.Errorf("what was heard occupies %d bytes still, %v", occupied(info), err)
	}
	if _, err := f.WriteString(`nt": "rebooted"}`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.keeps("web", fmt.Sprintf("started itself anew, %d times", 2+2*maxEvents/80), true)
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
