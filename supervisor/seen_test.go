package supervisor_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/supervisor/journal"
)

// A decision counts only for the subject as its signer saw it. The datacenter compares with its own records, whatever a
// coordinator showed.
func TestDecisionBindsToSeenState(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1, n2 := s.join("n1"), s.join("n2")
		failed := s.submit(`import("run").fail("enough")`)
		s.wantState(failed, writ.RunFailed)
		if _, err := s.Decide(t.Context(), s.sign(s.change("named", 1, canary))); err != nil {
			t.Fatal(err)
		}
		label := s.statement("", "")
		identity.LabelChange{Set: map[string]string{"disk": "ssd"}}.Statement(label, n1.id)
		key := sshsig.Fingerprint(n2.key.Public().(ed25519.PublicKey))
		for name, tt := range map[string]struct {
			statement *identity.Statement
			change    func(*identity.Statement)
		}{
			"cordon under another's id":          {s.statement("node/"+string(n2.id), "cordon"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"cordon of another key":              {s.statement("node/"+string(n1.id), "cordon"), func(st *identity.Statement) { st.Seen.Fingerprint = key }},
			"cordon at an earlier revision":      {s.statement("node/"+string(n1.id), "cordon"), func(st *identity.Statement) { st.Seen.Revision += 3 }},
			"uncordon under another's id":        {s.statement("node/"+string(n2.id), "uncordon"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"drain under another's id":           {s.statement("node/"+string(n2.id), "drain"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"remove under another's id":          {s.statement("node/"+string(n2.id), "remove"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"approve under another's id":         {s.statement("node/"+string(n2.id), "approve"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"reject under another's id":          {s.statement("node/"+string(n2.id), "reject"), func(st *identity.Statement) { st.Seen.Name = "n1" }},
			"label of another key":               {label, func(st *identity.Statement) { st.Seen.Fingerprint = key }},
			"cancel of another script":           {s.statement("run/"+string(failed), "cancel"), func(st *identity.Statement) { st.Seen.Name = "other.tengo" }},
			"resume of another script":           {s.statement("run/"+string(failed), "resume"), func(st *identity.Statement) { st.Seen.Name = "other.tengo" }},
			"resume after another end":           {s.statement("run/"+string(failed), "resume"), func(st *identity.Statement) { st.Seen.Revision-- }},
			"resume of an open run":              {s.statement("run/"+string(failed), "resume"), func(st *identity.Statement) { st.Seen.Revision = 0 }},
			"another project":                    {s.statement("run/"+string(failed), "cancel"), func(st *identity.Statement) { st.Seen.ProjectName = "other" }},
			"another datacenter":                 {s.statement("node/"+string(n1.id), "cordon"), func(st *identity.Statement) { st.DatacenterName = "other" }},
			"setting an unseen secret":           {s.change("named", 2, canary), func(st *identity.Statement) { st.Seen.Revision = 0 }},
			"removing an unseen version":         {s.change("named", 1, ""), func(st *identity.Statement) { st.Seen.Revision = 0 }},
			"removing fewer versions than exist": {s.change("named", 1, ""), func(st *identity.Statement) { st.Seen.Revision = 2 }},
		} {
			s.see(tt.statement)
			tt.change(tt.statement)
			_, err := s.Decide(t.Context(), s.sign(tt.statement))
			if writ.CodeOf(err) != writ.CodeConflict || writ.AsError(err).Hint == "" {
				t.Errorf("%s: %v, want CONFLICT with a hint", name, err)
			}
		}
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			for _, id := range []writ.NodeID{n1.id, n2.id} {
				n, err := tx.Node(id)
				if err != nil || n.Scheduling != writ.SchedulingOpen || n.Admission != writ.AdmissionApproved || len(n.Labels) > 0 {
					t.Errorf("node = %+v, %v", n, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A decision that is delayed until after another decision about the same node has no effect.
func TestOutdatedDecisionIsRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		keep := func(decision string) []byte {
			if decision != identity.DecisionLabel {
				return s.sign(s.statement("node/"+string(n.id), decision))
			}
			label := s.statement("", "")
			identity.LabelChange{Set: map[string]string{"disk": "ssd"}}.Statement(label, n.id)
			return s.sign(label)
		}
		refused := func(decision string, kept []byte) {
			t.Helper()
			if answer, err := s.Decide(t.Context(), kept); writ.CodeOf(err) != writ.CodeConflict {
				t.Errorf("%s, after a later decision: %q, %v, want CONFLICT", decision, answer.Done, err)
			}
		}
		every := []string{"approve", "reject", "cordon", "uncordon", "drain", identity.DecisionLabel, "remove", identity.DecisionLost}
		for _, later := range []string{"cordon", "uncordon", identity.DecisionLabel, "approve", "drain", "drain"} {
			kept := map[string][]byte{}
			for _, decision := range every {
				kept[decision] = keep(decision)
			}
			if _, err := s.Decide(t.Context(), keep(later)); err != nil {
				t.Fatalf("%s: %v", later, err)
			}
			for _, decision := range every {
				refused(decision+" before "+later, kept[decision])
			}
		}
		s.decide(n.id, "uncordon")
		s.decide(n.id, "drain")
		draining := keep("uncordon")
		time.Sleep(time.Minute) // until it is drained, which needs no decision
		if _, err := s.Decide(t.Context(), draining); err != nil {
			t.Errorf("uncordon before the node was drained: %v", err)
		}
	})
}
