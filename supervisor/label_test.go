package supervisor_test

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/supervisor/link"
)

// label signs and submits a change of a node's labels.
func (s *sim) label(node writ.NodeID, change identity.LabelChange) (link.StatementAnswer, error) {
	statement := s.statement("", "")
	change.Statement(statement, node)
	return s.Decide(s.t.Context(), s.sign(statement))
}

// Promise: Secrets: A signed label of a node directs placement, also after restarts, until it is removed; a node
// cannot label itself.
// How: A statement names the changed labels; the journal stores labels; a beat has no field for them.
// Also: TestEmptyLabelSelectsNodes, TestLinkedCallsAskForOneNode, TestLabelsOfNodeAreLimited,
// TestSchedulersOfNodesCanLabelThem, TestStatementWithoutDecisionIsRejected.
func TestLabelDirectsCallsUntilItsRemoval(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		n2 := s.join("n2")
		accountRequest := `import("volume").create("%s", {size_gib: 1}, {labels: {disk: "ssd", rack: "a1"}})`
		for i, change := range []identity.LabelChange{
			{Set: map[string]string{"disk": "hdd", "tier": "gold"}},
			{Set: map[string]string{"disk": "ssd", "rack": "a1"}, Remove: []string{"none"}},
		} {
			answer, err := s.label(n2.id, change)
			if want := []string{"disk=hdd, tier=gold", "disk=ssd, rack=a1, tier=gold"}[i]; err != nil || !testenv.Mentions(answer.Done, "n2", want) {
				t.Fatalf("answer = %q, %v, want %q", answer.Done, err, want)
			}
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1].Node; last == nil || writ.LabelsText(last.Labels) != "disk=ssd, rack=a1, tier=gold" {
			t.Errorf("node in the last event = %+v", last)
		}

		s.halt()
		s.start()
		s.decide(n2.id, "cordon")
		s.decide(n2.id, "uncordon")
		if _, calls := s.wantState(s.submit(fmt.Sprintf(accountRequest, "a")), writ.RunSucceeded); calls[0].NodeName != "n2" {
			t.Errorf("volume created on %s, want n2", calls[0].NodeName)
		}

		if answer, err := s.label(n2.id, identity.LabelChange{Remove: []string{"disk", "rack", "tier"}}); err != nil || !testenv.Mentions(answer.Done, "n2") || strings.Contains(answer.Done, "=") {
			t.Errorf("answer = %q, %v, want no labels", answer.Done, err)
		}
		run, _ := s.wantState(s.submit(fmt.Sprintf(accountRequest, "b")), writ.RunFailed)
		if run.Failure.Code != writ.CodeNoCapacity || !testenv.Mentions(run.Failure.Message, "n1", "n2", "disk=ssd") {
			t.Errorf("failure = %+v", run.Failure)
		}
		_, calls := s.wantState(s.submit(`
a := import("volume").create("a", {size_gib: 1}, {labels: {disk: "ssd"}})
import("machine").create("m", {cpus: 1, memory_mib: 64, disks: [a]})`), writ.RunSucceeded)
		if calls[0].NodeName != "n2" || calls[1].NodeName != "n2" {
			t.Errorf("existing volume and its new machine on %s, %s; want n2", calls[0].NodeName, calls[1].NodeName)
		}
	})
}

func TestEmptyLabelSelectsNodes(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for _, name := range []string{"n1", "n2", "n3"} {
			n := s.join(name)
			if name != "n2" {
				continue
			}
			if _, err := s.label(n.id, identity.LabelChange{Set: map[string]string{"power": ""}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 4 {
			id := s.submit(fmt.Sprintf(`import("volume").create("v%d", {size_gib: 1}, {labels: {power: ""}})`, i))
			if _, calls := s.wantState(id, writ.RunSucceeded); calls[0].NodeName != "n2" {
				t.Errorf("volume created on %s, want the labelled n2", calls[0].NodeName)
			}
		}
	})
}

func TestLinkedCallsAskForOneNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		nodes := make(map[string]writ.NodeID)
		for name, disk := range map[string]string{"n1": "hdd", "n2": "ssd"} {
			nodes[name] = s.join(name).id
			if _, err := s.label(nodes[name], identity.LabelChange{Set: map[string]string{"disk": disk}}); err != nil {
				t.Fatal(err)
			}
		}
		for i, tt := range []struct {
			one, other string
			names      []string // words of the error; nil if the run succeeds
		}{
			{`labels: {disk: "ssd"}`, `labels: {disk: "hdd"}`, []string{"disk=hdd", "disk=ssd"}},
			{`node: "n1"`, `node: "n2"`, []string{"n1", "n2"}},
			{`labels: {disk: "ssd"}`, `node: "n2"`, nil},
			{`node: "n1"`, `node: "` + string(nodes["n1"]) + `"`, nil},
		} {
			id := s.submit(fmt.Sprintf(`
a := import("volume").create("a%[1]d", {size_gib: 1}, {%[2]s})
import("machine").create("m%[1]d", {cpus: 1, memory_mib: 64, disks: [a]}, {%[3]s})`, i, tt.one, tt.other))
			if tt.names == nil {
				s.wantState(id, writ.RunSucceeded)
				continue
			}
			run, _ := s.wantState(id, writ.RunFailed)
			if f := run.Failure; f.Code != writ.CodeResourceConflict || !testenv.Mentions(f.Message, tt.names...) {
				t.Errorf("%s and %s: failure = %+v", tt.one, tt.other, f)
			}
		}
	})
}

func TestLabelsOfNodeAreLimited(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		all := identity.LabelChange{Set: make(map[string]string)}
		for i := range writ.MaxLabels {
			all.Set[fmt.Sprintf("l%d", i)] = "x"
		}
		if _, err := s.label(n.id, all); err != nil {
			t.Fatal(err)
		}
		_, err := s.label(n.id, identity.LabelChange{Set: map[string]string{"more": "x"}})
		if writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("one label over the limit: %v, want CONFLICT", err)
		}
		if _, err := s.label(n.id, identity.LabelChange{Set: map[string]string{"more": "x"}, Remove: []string{"l0"}}); err != nil {
			t.Errorf("replace one label at the limit: %v", err)
		}
		if _, err := s.label(writ.NodeID(writ.NewUUID()), all); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("label of an unknown node: %v, want NOT_FOUND", err)
		}
	})
}
