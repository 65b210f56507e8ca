package supervisor_test

import (
	"testing"
	"time"

	"writ"
	"writ/identity"
)

func TestAProjectWithLittleWorkDoesNotWaitForOneWithMuch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		const other = writ.ProjectID("01920000-0000-7000-8000-000000000003")
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Projects = append(next.Projects, identity.Project{ID: other, Name: "lab"})
		s.adopt(next)
		s.start()
		s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 2 })
		time.Sleep(2 * time.Second)
		many := s.submit(`
node := import("node")
for i := 0; i < 60; i++ { node.ping() }
`)
		s.awaitCall(many, 1, writ.CallRunning)
		more := s.submit(`
node := import("node")
for i := 0; i < 60; i++ { node.ping() }
`)
		few := s.payload(`
node := import("node")
for i := 0; i < 6; i++ { node.ping() }
`)
		few.Project, few.ProjectName = other, "lab"
		run, err := s.Submit(t.Context(), s.signPayload(few))
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunSucceeded)
		ended := 0
		_, calls := s.look(many)
		for _, c := range calls {
			if c.State.Ended() {
				ended++
			}
		}
		if least, most := 4, 14; ended < least || ended > most { // what was out before, and one for one
			t.Errorf("%d calls of the project with many ended before the 6 of the other, want %d to %d", ended, least, most)
		}
		s.wantState(many, writ.RunSucceeded)
		s.wantState(more, writ.RunSucceeded)
		s.wantEffects(126)
	})
}
