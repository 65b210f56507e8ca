package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

// inProjects runs a test in virtual time with that many projects beside the one that all sites have.
func inProjects(t *testing.T, n int, test func(t *testing.T, s *site, projects []identity.Project)) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			id := writ.ProjectID(fmt.Sprintf("01920000-0000-7000-8000-0000000001%02d", i))
			next.Projects = append(next.Projects, identity.Project{ID: id, Name: fmt.Sprintf("lab%d", i)})
		}
		s.adopt(next)
		s.start()
		test(t, s, next.Projects[1:])
	})
}

// submitTo is submit to another project.
func (s *site) submitTo(p identity.Project, script string) writ.RunID {
	s.t.Helper()
	payload := s.payload(script)
	payload.Project, payload.ProjectName = p.ID, p.Name
	run, err := s.Submit(s.t.Context(), s.signPayload(payload))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// pings is a script that pings its node so often at once.
func pings(n int) string {
	return fmt.Sprintf("node := import(\"node\")\nfor i := 0; i < %d; i++ { node.ping() }\n", n)
}

// endedCalls is how many calls of a run have ended.
func (s *site) endedCalls(id writ.RunID) (n int) {
	s.t.Helper()
	_, calls := s.look(id)
	for _, c := range calls {
		if c.State.Ended() {
			n++
		}
	}
	return n
}

func TestAProjectWithLittleWorkDoesNotWaitForOneWithMuch(t *testing.T) {
	inProjects(t, 1, func(t *testing.T, s *site, projects []identity.Project) {
		s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 2 })
		time.Sleep(2 * time.Second)
		many := s.submit(pings(60))
		s.awaitCall(many, 1, writ.CallRunning)
		more := s.submit(pings(60))
		s.wantState(s.submitTo(projects[0], pings(6)), writ.RunSucceeded)
		if n, least, most := s.endedCalls(many), 4, 14; n < least || n > most { // what was out before, and one for one
			t.Errorf("%d calls of the project with many ended before the 6 of the other, want %d to %d", n, least, most)
		}
		s.wantState(many, writ.RunSucceeded)
		s.wantState(more, writ.RunSucceeded)
		s.wantEffects(126)
	})
}

func TestManyProjectsTakeTurnsWithLittleRoom(t *testing.T) {
	inProjects(t, 8, func(t *testing.T, s *site, projects []identity.Project) {
		s.join("n1", slowly(time.Second), func(n *testNode) { n.slots = 1 })
		time.Sleep(2 * time.Second)
		var runs []writ.RunID
		for _, p := range projects {
			runs = append(runs, s.submitTo(p, pings(20)))
		}
		for i, id := range runs {
			s.awaitCall(id, 1, writ.CallSucceeded)
			for _, other := range runs {
				if n := s.endedCalls(other); n > 4 {
					t.Errorf("%d calls of a project ended before the first of project %d", n, i)
				}
			}
		}
		for _, id := range runs {
			s.wantState(id, writ.RunSucceeded)
		}
	})
}
