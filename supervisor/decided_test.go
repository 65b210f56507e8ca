package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

func (s *site) decideNode(node writ.NodeID, decision, reason string) {
	s.t.Helper()
	statement := s.statement("node/"+string(node), decision)
	statement.Reason = reason
	if _, err := s.Decide(s.t.Context(), s.sign(statement)); err != nil {
		s.t.Fatal(err)
	}
}

// Who decided what about a node, when and why, is kept and told with it.
func TestTheReasonOfADecisionIsKeptWithItsNode(t *testing.T) {
	inSite(t, func(t *testing.T, s *site) {
		n := s.join("n1")
		const hostile = "<img src=x> the disk is failing"
		for i := range writ.MaxDecisions {
			s.decideNode(n.id, "cordon", fmt.Sprint("reason ", i))
			s.decideNode(n.id, "uncordon", "")
		}
		s.decideNode(n.id, "drain", hostile)
		var kept []writ.Decision
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			node, err := tx.Node(n.id)
			kept = node.Decided
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(kept) != writ.MaxDecisions || kept[0].Decision != "cordon" || kept[0].Reason == "" {
			t.Errorf("kept are %+v", kept)
		}
		last := kept[len(kept)-1]
		if last.Decision != "drain" || last.Reason != hostile || last.Signer != "alice" || s.clock.now().Sub(last.Time) > time.Minute {
			t.Errorf("the last one is %+v", last)
		}
		events := s.eventsOf("node")
		if diff := cmp.Diff(kept, events[len(events)-1].Node.Decided); diff != "" {
			t.Errorf("told is (-want +got):\n%s", diff)
		}
	})
}
