package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/simulated"
)

// TestALostNodesMachineRunsOnOneNodeAfterItsReturn kills a node that has one machine and is creating another, signs
// that it is lost, and starts it again.
func TestALostNodesMachineRunsOnOneNodeAfterItsReturn(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestReturningLostNodeStopsItsMachine of supervisor, in virtual time")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 2, Speed: "0"})
	text := "machine := import(\"machine\")\nmachine.create(\"slow-2-box\", {cpus: 1, memory_mib: 64}, {on_loss: \"replace\"})\n"
	s.Script("machine.tengo", text)
	s.Script("longer.tengo", strings.Replace(text, "slow-2-box", "slow-20-web", 1))
	s.Writ("node", "cordon", "dc1-n2")
	s.Succeeded(s.Follow(s.Submit("machine.tengo"), -1, func() {}))
	id := s.Submit("longer.tengo")
	s.Until("the machine is being made", func(context.Context) bool {
		return strings.Contains(s.Writ("run", "show", string(id)), string(writ.CallRunning))
	})
	s.Kill("dc1-n1")
	s.Writ("node", "uncordon", "dc1-n2")
	s.Says(0, []string{"turn its machine off first"}, "node", "lost", "--yes", "dc1-n1")
	s.Succeeded(s.Follow(id, -1, func() {}))
	s.Succeeded(s.Follow(s.Submit("machine.tengo"), -1, func() {}))
	s.Says(0, []string{"has sent nothing since"}, "node", "show", "dc1-n1")
	if said, code := s.RestartFails("dc1-n1"); code != writ.ExitRemoved {
		t.Errorf("the runner ended with %d:\n%s", code, said)
	}
	s.Says(0, []string{"has stopped all its resources", "superseded machine"}, "node", "show", "dc1-n1")
	for node, want := range map[string]string{"dc1-n1": "stopped", "dc1-n2": "running"} {
		d, err := simulated.Open(simulated.Config{Module: "machine", Dir: filepath.Join(s.Dir, node, "host", "simulated")})
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.List(t.Context())
		if err != nil || len(all) == 0 {
			t.Fatalf("%s has %v: %v", node, all, err)
		}
		for _, r := range all {
			var seen sal.Observation
			if seen, err = d.Observe(t.Context(), r); err != nil || seen.State != want {
				t.Errorf("on %s the %s is %s, want %s: %v", node, r, seen.State, want, err)
			}
		}
	}
}
