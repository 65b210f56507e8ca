package supervisor_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

func (s *sim) decideNode(node writ.NodeID, decision, reason string) {
	s.t.Helper()
	s.decideFor("node/"+string(node), decision, reason)
}

// decideFor signs a decision about subject with a reason, and submits it.
func (s *sim) decideFor(subject, decision, reason string) {
	s.t.Helper()
	statement := s.statement(subject, decision)
	statement.Reason = reason
	if _, err := s.Decide(s.t.Context(), s.sign(statement)); err != nil {
		s.t.Fatal(err)
	}
}

// A decision about a node is stored and reported with its signer, time and reason.
//
// Promise: Operation: A decision about a node or run is stored with person, time and reason, and logged by the
// supervisor.
// How: It is part of an authenticated record; the last five are kept.
// Also: TestDecisionReasonIsStoredWithRun, TestDecisionReasonIsLogged, TestScripts/refused,
// TestAFailedRunIsResumed, TestNodeShowsItsDecisions.
func TestDecisionReasonIsStoredWithNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
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
			t.Errorf("stored decisions = %+v", kept)
		}
		last := kept[len(kept)-1]
		if last.Decision != "drain" || last.Reason != hostile || last.Signer != "alice" || s.clock.now().Sub(last.Time) > time.Minute {
			t.Errorf("last decision = %+v", last)
		}
		events := s.eventsOf("node")
		if diff := cmp.Diff(kept, events[len(events)-1].Node.Decided); diff != "" {
			t.Errorf("decisions in the event (-want +got):\n%s", diff)
		}
	})
}

// A resumed run has no wait reason, but the signer of the resume is still stored: after a restart and after the run has
// ended.
func TestDecisionReasonIsStoredWithRun(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", newBreaking(map[string]int{"v": -1}).join)
		id := s.submit(oneVolume)
		subject := "run/" + string(id)
		for _, reason := range []string{"the disk was replaced", ""} {
			s.wantRest(id, writ.RunFailed)
			time.Sleep(time.Second)
			s.decideFor(subject, "resume", reason)
		}
		s.wantRest(id, writ.RunFailed)
		s.nodes[0].setSilent(true)
		time.Sleep(10 * time.Second)
		s.decideFor(subject, "resume", "once more")
		s.halt()
		s.start()
		s.decideFor(subject, "cancel", "it does no good")
		run, _ := s.wantRest(id, writ.RunCancelled)
		var kept []string
		for _, d := range run.Decided {
			kept = append(kept, d.Decision+" by "+d.Signer+": "+d.Reason)
			if d.Time.Before(run.Accepted) || d.Time.After(s.clock.now()) {
				t.Errorf("time of the decision = %s", d.Time)
			}
		}
		want := []string{"resume by alice: the disk was replaced", "resume by alice: ", "resume by alice: once more", "cancel by alice: it does no good"}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("stored decisions (-want +got):\n%s", diff)
		}
		events := s.eventsOf("run")
		if diff := cmp.Diff(run.Decided, events[len(events)-1].Run.Decided); diff != "" {
			t.Errorf("decisions in the event (-want +got):\n%s", diff)
		}
	})
}

// The log has the reason of each decision, also if no record stores it, as for a secret.
func TestDecisionReasonIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		s.level = slog.LevelInfo
		s.start()
		set := s.change("named", 1, canary)
		set.Reason = "it was in a chat \u202e"
		if _, err := s.Decide(t.Context(), s.sign(set)); err != nil {
			t.Fatal(err)
		}
		const want = `caller=alice subject=secret/named decision=set reason="it was in a chat \\u202e"`
		if logs := s.logs.String(); strings.Count(logs, want) != 1 {
			t.Errorf("log does not contain %q exactly once:\n%s", want, logs)
		}
	})
}
