package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// loadOf requests the load of a resource, with its samples.
func (s *sim) loadOf(node writ.NodeID, uid writ.UID) *link.Load {
	s.t.Helper()
	answer, err := s.Ask(s.t.Context(), link.VerbLoads, link.Loads{Of: []link.LoadOf{{Node: node, UID: uid}}, Samples: true})
	if err != nil {
		s.t.Fatal(err)
	}
	list := answer.(link.LoadList)
	if len(list.Loads) == 0 {
		return nil
	}
	return &list.Loads[0]
}

// Promise: Nodes and Redis: A node reports the load of its own resources only, and a false report affects only what is
// shown.
// How: The report is signed and has a number; the reader of a load names the node that has the resource.
// Also: TestHostileNodeIsLimited, TestReportsThatAreNotNewAreIgnored, TestUselessMessagesBlockNode.
func TestLoadsComeFromTheirNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, other := s.join("n1"), s.join("n2")
		const uid = "0192f6c2-0000-7000-8000-0000000000aa"
		send := func(n *testNode, r nodes.LoadReport, milliCPUs int64) {
			t.Helper()
			r.Incarnation, r.Loads = max(r.Incarnation, 1), []nodes.Load{{UID: uid, Running: true, MilliCPUs: milliCPUs, Memory: 1 << 20, Restarts: 2}}
			if r.Node == "" {
				r.Node = n.id
			}
			if r.Epoch == 0 {
				r.Epoch = s.Epoch()
			}
			n.send(envelope.Load, r)
			time.Sleep(30 * time.Second)
			synctest.Wait()
		}
		want := func(what string, milliCPUs int64) {
			t.Helper()
			l := s.loadOf(n.id, uid)
			if l == nil || l.MilliCPUs != milliCPUs || l.MemoryBytes != 1<<20 || l.Restarts != 2 || !l.Running || len(l.Samples) == 0 || time.Since(l.At) > time.Minute {
				t.Errorf("load %s = %+v", what, l)
			}
		}
		if l := s.loadOf(n.id, uid); l != nil {
			t.Errorf("load before the first report = %+v, want none", l)
		}
		send(n, nodes.LoadReport{Count: 5}, 250)
		want("after a report", 250)
		send(n, nodes.LoadReport{Count: 6}, 300)
		send(n, nodes.LoadReport{Count: 5}, 1)                 // replayed by Redis
		send(n, nodes.LoadReport{Count: 7, Epoch: 1}, 2)       // sent to an earlier supervisor
		send(other, nodes.LoadReport{Node: n.id, Count: 8}, 3) // sent by another node
		send(other, nodes.LoadReport{Count: 1}, 4)             // about a resource of another node
		l := s.loadOf(n.id, uid)
		if l == nil || l.MilliCPUs != 300 {
			t.Errorf("load after ignored reports = %+v", l)
		}
		if l := s.loadOf(other.id, uid); l == nil || l.MilliCPUs != 4 {
			t.Errorf("load as reported by the other node = %+v", l)
		}
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		if l := s.loadOf(n.id, uid); l != nil {
			t.Errorf("load after a restart = %+v, want none", l)
		}
		send(n, nodes.LoadReport{Count: 9}, 70)
		want("after a report to the next supervisor", 70)
	})
}

// A runner with simulated drivers measures a container and reports its load.
func TestRealRunnerReportsLoads(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		s.wantState(s.submit(`
image := import("image")
container := import("container")
i := image.fetch("web", {url: "https://images.example/web.tar", sha256: "0000000000000000000000000000000000000000000000000000000000000000", format: "oci"})
container.create("web", {image: i, cpus: 2, memory_mib: 64})
`), writ.RunSucceeded)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		var resources []*journal.Resource
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) (err error) {
			resources, err = tx.Resources()
			return err
		})
		if err != nil || len(resources) != 2 {
			t.Fatalf("got %d resources, %v; want 2", len(resources), err)
		}
		for _, r := range resources {
			l := s.loadOf(n.id(), r.UID)
			switch {
			case r.Kind != writ.KindContainer && l != nil:
				t.Errorf("load of the %s = %+v, want none", r.Kind, l)
			case r.Kind == writ.KindContainer && (l == nil || !l.Running || l.MilliCPUs != 200 || l.MemoryBytes != 32<<20 || len(l.Samples) == 0):
				t.Errorf("load of the container = %+v", l)
			}
		}
	})
}
