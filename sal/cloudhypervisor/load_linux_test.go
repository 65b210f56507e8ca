package cloudhypervisor

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/sal"
)

func TestLoadIsThatOfTheProcess(t *testing.T) {
	b := newFixture(t)
	load := func() sal.Load {
		t.Helper()
		l, err := b.Load(t.Context(), machine("web"))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := load(); l != (sal.Load{}) {
		t.Errorf("a missing machine has the load %+v", l)
	}
	b.must("machine.create", "web", machineSpec)
	first := load()
	if !first.Running || first.UID != "uid-web" || first.Memory < 1<<20 || first.Restarts != 0 {
		t.Errorf("its load is %+v", first)
	}
	b.time = b.time.Add(time.Hour)
	b.signal("web", unix.SIGKILL, true)
	if l := load(); l.Running || l.CPU != 0 || l.Memory != 0 || l.UID != "uid-web" {
		t.Errorf("killed it has the load %+v", l)
	}
	b.keeps("web", "restarted (restart 1)", true)
	if l := load(); !l.Running || l.Restarts != 1 {
		t.Errorf("after a restart it has the load %+v", l)
	}
	b.must("machine.delete", "web", nil)
	if l := load(); l != (sal.Load{}) {
		t.Errorf("deleted it has the load %+v", l)
	}
}
