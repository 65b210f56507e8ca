package cloudhypervisor

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/vmmstub"
)

// needGroups skips a test on hosts without all cgroup controllers.
func (b *fixture) needGroups() {
	b.Helper()
	if lacking, err := b.groups().Lacks(); len(lacking) > 0 {
		b.Skipf("no groups bound %v here: %v", lacking, err)
	}
}

func TestMachineProcessHasItsOwnCgroup(t *testing.T) {
	forEachFixture(t, func(t *testing.T, b *fixture) {
		b.needGroups()
		b.must("machine.create", "web", machineSpec)
		in := func() {
			t.Helper()
			r := b.record("web")
			if in, err := b.groups().Has(r.Resource.HostName(), r.Own.Process.PID); !in || err != nil {
				t.Errorf("its process is not in its group: %v", err)
			}
			if s := b.groups().Stat(r.Resource.HostName()); s.Memory == 0 || s.Memory > boundsOf(r.Own).Memory || s.Processes == 0 || s.OutOf+s.Refused > 0 {
				t.Errorf("stat of its group = %+v", s)
			}
		}
		in()
		b.signal("web", unix.SIGKILL, true)
		b.time = b.time.Add(time.Hour)
		b.keeps("web", "its process had died; it was restarted", true)
		in()
		if err := b.groups().Remove(t.Context(), machine("web").HostName()); err != nil { // ends the process, too
			t.Fatal(err)
		}
		b.time = b.time.Add(time.Hour)
		b.keeps("web", "its process had died; it was restarted", true)
		in()
		b.must("machine.delete", "web", nil)
		b.empty()
	})
}

// A runner of an earlier version started processes without cgroups.
func TestAProcessWithoutAGroupGetsIntoOne(t *testing.T) {
	b := newFixture(t)
	b.needGroups()
	groups := b.groups()
	none := *groupsOf(b.Dir)
	none.Root = t.TempDir() // a directory without cgroups
	b.cgroups = &none
	b.must("machine.create", "web", machineSpec)
	b.cgroups = groups
	b.keeps("web", "", true)
	if in, err := groups.Has(machine("web").HostName(), b.record("web").Own.Process.PID); !in || err != nil {
		t.Errorf("its process is in no group: %v", err)
	}
}

func TestOnlyTheOversizeProcessIsKilled(t *testing.T) {
	b := newFixture(t)
	b.needGroups()
	b.must("machine.create", "neighbour", machineSpec)
	b.must("machine.create", "web", machineSpec)
	vmmstub.Set(t, b.Program, vmmstub.Settings{Eat: []string{"vm.pause"}})
	b.refuses("machine.pause", "web", nil, writ.CodeQuotaExceeded, "at its memory limit")
	vmmstub.Set(t, b.Program, vmmstub.Settings{})
	b.time = b.time.Add(time.Hour)
	b.keeps("web", "killed by the kernel at its memory limit; it was restarted", true)
	for _, name := range []string{"web", "neighbour"} {
		if got := b.state(name); got != string(running) {
			t.Errorf("%s is %s", name, got)
		}
	}
	b.time = b.time.Add(time.Hour)
	b.signal("web", unix.SIGKILL, true)
	drift, err := b.Keep(t.Context(), machine("web"))
	if err != nil || len(drift) != 1 || strings.Contains(drift[0].What, "memory") {
		t.Errorf("drift of the next process = %+v, %v", drift, err)
	}
}
