package runner_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner"
	"writ/supervisor/nodes"
)

// Promise: Commands and hosts: `writ node show`, `disks` and `nics` show system, image, kernel, restarts, hardware,
// disks and network cards of a node.
// How: Read without privileges from kernel files; a signed message on each change and every 10 minutes; no decision
// depends on it.
// Also: TestAnUnreadableMachineBlocksNoOtherWork, TestReportedFactsOfAMachineAreStored,
// TestRestartsOfAMachineAreCounted, TestRealRunnerReportsItsMachine, TestNodeShowsItsMachine,
// TestDisksAndNetworkCardsOfANodeAreListed, TestMachineIsShownAsItsNodeReports,
// TestAMachineIsReadFromTheFilesOfItsKernel.
func TestFactsOfAMachineAreReportedWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Pointer[writ.Host]
		began := time.Now().UTC()
		now.Store(&writ.Host{Kernel: "6.1.0", Booted: began, Disks: []writ.HostDisk{{Name: "vda", Bytes: 1 << 30}}})
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Host = func() writ.Host { return *now.Load() } })
		told := func(silent time.Duration) []nodes.HostReport {
			quiet(silent)
			n.mu.Lock()
			defer n.mu.Unlock()
			all := n.hosts
			n.hosts = nil
			return all
		}
		first := told(2 * time.Minute)
		if len(first) != 1 || first[0].Node != n.member.Node() || first[0].Count != 1 || len(first[0].Host.Disks) != 1 || !first[0].Host.Booted.Equal(began) {
			t.Fatalf("first reports = %+v", first)
		}
		now.Store(&writ.Host{Kernel: "6.1.0", Booted: began.Add(time.Second), Disks: []writ.HostDisk{{Name: "vda", Bytes: 1 << 30}}})
		if again := told(2 * time.Minute); len(again) != 0 {
			t.Errorf("reports after a small change of the clock = %+v, want none", again)
		}
		now.Store(&writ.Host{Kernel: "6.1.0", Booted: began})
		if news := told(time.Minute); len(news) != 1 || len(news[0].Host.Disks) != 0 || news[0].Count != 2 {
			t.Errorf("reports after a disk was removed = %+v", news)
		}
		n.tell(writ.Control{Epoch: 9})
		if later := told(time.Minute); len(later) != 1 || later[0].Epoch != 9 {
			t.Errorf("reports to the next supervisor = %+v", later)
		}
		if again := told(21 * time.Minute); len(again) != 2 {
			t.Errorf("%d reports within 21 minutes, want 2", len(again))
		}
	})
}

// Reading the speed of a network card with a stuck driver can block forever. All other work of the node continues.
func TestAnUnreadableMachineBlocksNoOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Host = func() writ.Host { <-stuck; return writ.Host{} } })
		quiet(3 * time.Minute)
		n.mu.Lock()
		reports, hosts := len(n.reports), len(n.hosts)
		n.mu.Unlock()
		if reports < 3 || hosts != 0 {
			t.Errorf("%d reports and %d reports about the machine, want at least 3 and 0", reports, hosts)
		}
		close(stuck)
		quiet(time.Minute)
	})
}
