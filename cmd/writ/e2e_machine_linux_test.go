package main

import (
	"context"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/runner/hardware"
)

// TestMachineIsShownAsItsNodeReports makes a runner report this machine through Redis, a supervisor and a coordinator.
func TestMachineIsShownAsItsNodeReports(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	here := hardware.Here().Host()
	s.Until("the machine is shown", func(context.Context) bool {
		return strings.Contains(s.Writ("node", "show", "dc1-n1"), "kernel "+here.Kernel)
	})
	s.Says(0, []string{"machine: up for ", ", 0 restarts seen; boot id "}, "node", "show", "dc1-n1")
	for _, d := range here.Disks {
		s.Says(0, []string{d.Name}, "node", "disks", "dc1-n1")
	}
	for _, n := range here.NICs {
		s.Says(0, []string{n.Name, n.MAC}, "node", "nics", "dc1-n1")
	}
	s.Says(0, []string{here.Kernel}, "node", "list", "-o", "wide")
}
