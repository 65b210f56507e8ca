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

// decideFor decides about a subject for a reason.
func (s *sim) decideFor(subject, decision, reason string) {
	s.t.Helper()
	statement := s.statement(subject, decision)
	statement.Reason = reason
	if _, err := s.Decide(s.t.Context(), s.sign(statement)); err != nil {
		s.t.Fatal(err)
	}
}

// Who decided what about a node, when and why, is kept and told with it.
//
// Promise: Operation: A decision about a node or run is stored with person, time and reason, and logged by the
// supervisor.
// How: It is part of an authenticated record; the last five are kept.
// Also: TestTheReasonOfADecisionIsKeptWithItsRun, TestTheReasonOfEachDecisionIsLogged, TestScripts/refused,
// TestAFailedRunIsResumed, TestNodeShowsItsDecisions.
func TestTheReasonOfADecisionIsKeptWithItsNode(t *testing.T) {
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

// A run that goes on waits for nothing any more, and who let it go on is known all the same; also after a restart, and from its end on.
func TestTheReasonOfADecisionIsKeptWithItsRun(t *testing.T) {
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
				t.Errorf("it was decided at %s", d.Time)
			}
		}
		want := []string{"resume by alice: the disk was replaced", "resume by alice: ", "resume by alice: once more", "cancel by alice: it does no good"}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("kept is (-want +got):\n%s", diff)
		}
		events := s.eventsOf("run")
		if diff := cmp.Diff(run.Decided, events[len(events)-1].Run.Decided); diff != "" {
			t.Errorf("told is (-want +got):\n%s", diff)
		}
	})
}

// What keeps no reason, as a secret, has it in the log.
func TestTheReasonOfEachDecisionIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		s.level = slog.LevelInfo
		s.start()
		set := s.change("named", 1, canary)
		set.Reason = "it was in a chat \u202e"
		if _, err := s.Decide(t.Context(), s.sign(set)); err != nil {
			t.Fatal(err)
		}
		const want = `caller=alice subject=secret/named decision=set reason="it was in a chat \\u202e"`
		if said := s.logs.String(); strings.Count(said, want) != 1 {
			t.Errorf("its log does not say %q once:\n%s", want, said)
		}
	})
}
