package supervisor_test

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/identity"
	"writ/supervisor/link"
)

// label changes the labels of a node.
func (s *site) label(node writ.NodeID, change identity.LabelChange) (link.StatementAnswer, error) {
	statement := s.statement("", "")
	change.Statement(statement, node)
	return s.Decide(s.t.Context(), s.sign(statement))
}

func TestALabelSaysWhereSomethingGoesUntilItIsTakenAway(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		s.join("n1")
		n2 := s.join("n2")
		asks := `import("volume").create("%s", {size_gib: 1}, {labels: {disk: "ssd", rack: "a1"}})`
		for i, change := range []identity.LabelChange{
			{Set: map[string]string{"disk": "hdd", "tier": "gold"}},
			{Set: map[string]string{"disk": "ssd", "rack": "a1"}, Remove: []string{"tier", "none"}},
		} {
			answer, err := s.label(n2.id, change)
			if want := []string{"node n2 has disk=hdd, tier=gold", "node n2 has disk=ssd, rack=a1"}[i]; err != nil || answer.Done != want {
				t.Fatalf("the answer is %q, %v, not %q", answer.Done, err, want)
			}
		}
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1].Node; last == nil || writ.LabelsText(last.Labels) != "disk=ssd, rack=a1" {
			t.Errorf("the last event is %+v", last)
		}

		s.halt()
		s.start()
		s.decide(n2.id, "cordon")
		s.decide(n2.id, "uncordon")
		if _, calls := s.wantState(s.submit(fmt.Sprintf(asks, "a")), writ.RunSucceeded); calls[0].NodeName != "n2" {
			t.Errorf("the volume went to %s", calls[0].NodeName)
		}

		if answer, err := s.label(n2.id, identity.LabelChange{Remove: []string{"disk", "rack"}}); err != nil || answer.Done != "node n2 has no labels" {
			t.Errorf("the answer is %q, %v", answer.Done, err)
		}
		run, _ := s.wantState(s.submit(fmt.Sprintf(asks, "b")), writ.RunFailed)
		if run.Failure.Code != writ.CodeNoCapacity || !strings.Contains(run.Failure.Message, ": n1, n2: has no label disk=ssd") {
			t.Errorf("failure = %+v", run.Failure)
		}
		if _, calls := s.wantState(s.submit(`import("volume").create("a", {size_gib: 2})`), writ.RunSucceeded); calls[0].NodeName != "n2" {
			t.Errorf("what was there already is made on %s", calls[0].NodeName)
		}
	})
}

func TestANodeHasNoMoreLabelsThanAScriptCanAskFor(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		n := s.join("n1")
		all := identity.LabelChange{Set: make(map[string]string)}
		for i := range identity.MaxLabels {
			all.Set[fmt.Sprintf("l%d", i)] = "x"
		}
		if _, err := s.label(n.id, all); err != nil {
			t.Fatal(err)
		}
		_, err := s.label(n.id, identity.LabelChange{Set: map[string]string{"more": "x"}})
		if writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("one more: %v", err)
		}
		if _, err := s.label(n.id, identity.LabelChange{Set: map[string]string{"more": "x"}, Remove: []string{"l0"}}); err != nil {
			t.Errorf("one instead of another: %v", err)
		}
		if _, err := s.label(writ.NodeID(writ.NewUUID()), all); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("of a node that is not there: %v", err)
		}
	})
}
