package admission

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

func pendingFor(n int) journal.Node {
	key := make([]byte, 32)
	copy(key, fmt.Sprint(n))
	return journal.Node{Node: writ.Node{ID: nodeIDOf("dc", key), Name: "web1"}, PublicKey: key}
}

// A stranger with one network makes any number of nodes that wait: it displaces its own, and the honest ones stay.
//
// Promise: Admission of nodes: Unknown machines that request admission fill no journal, ledger or log and displace no
// waiting node of another network.
// How: At most 100 nodes wait, in memory; one more displaces the oldest of the largest network.
// Also: TestPendingNodesKeepIdsOutsideTheJournal, TestStrangersCannotFillTheJournalWithNodes,
// TestFewPendingNodesAreLogged, TestSilentJoinerIsForgotten.
func TestJoinFloodDisplacesOnlyItsNetwork(t *testing.T) {
	p, now := NewPending(), time.Now()
	honest := []journal.Node{pendingFor(-1), pendingFor(-2)}
	for i, n := range honest {
		p.Ask(n, fmt.Sprintf("10.0.0.%d/32", i), now)
	}
	warnings := 0
	for n := range 100 * maxPending {
		if _, _, crowded := p.Ask(pendingFor(n), "192.0.2.1/32", now.Add(time.Duration(n))); crowded {
			warnings++
		}
	}
	if len(p.nodes) > maxPending || warnings != 1 {
		t.Errorf("%d pending nodes, want at most %d; %d warnings, want 1", len(p.nodes), maxPending, warnings)
	}
	for _, n := range honest {
		if p.Get(n.ID) == nil {
			t.Errorf("%s was displaced", n.ID)
		}
	}
	if p.Get(pendingFor(100*maxPending-1).ID) == nil {
		t.Error("the newest does not wait")
	}
}

func TestSilentJoinerIsForgotten(t *testing.T) {
	p, now := NewPending(), time.Now()
	p.Ask(pendingFor(1), "", now)
	p.Ask(pendingFor(2), "", now)
	p.Ask(pendingFor(2), "", now.Add(pendingLife))
	p.Ask(pendingFor(3), "", now.Add(pendingLife+time.Second))
	if len(p.nodes) != 2 || p.nodes[pendingFor(1).ID] != nil {
		t.Errorf("%d nodes wait", len(p.nodes))
	}
}

func TestFewPendingNodesAreLogged(t *testing.T) {
	p, now := NewPending(), time.Now()
	logged := 0
	for i := range 1000 {
		if p.mayLog(now.Add(time.Duration(i) * time.Millisecond)) {
			logged++
		}
	}
	if logged != maxPendingLogged || !p.mayLog(now.Add(2*time.Minute)) {
		t.Errorf("%d of 1000 were logged within a second", logged)
	}
}
