package cloudhypervisor

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcessOfMachineIsWaitedFor(t *testing.T) {
	b := newFixture(t)
	b.must("machine.create", "web", machineSpec)
	p, err := b.Process(t.Context(), machine("web"))
	if err != nil || p == nil {
		t.Fatalf("of a machine that runs: %v, %v", p, err)
	}
	defer p.Close()
	b.signal("web", unix.SIGKILL, false)
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if p, err := b.Process(t.Context(), machine("web")); p != nil || err != nil {
		t.Errorf("Process of a dead machine = %v, %v", p, err)
	}
	b.keeps("web", "its process had died; it was restarted", true)
	b.must("machine.delete", "web", nil)
	if p, err := b.Process(t.Context(), machine("web")); p != nil || err != nil {
		t.Errorf("Process of a deleted machine = %v, %v", p, err)
	}
}
