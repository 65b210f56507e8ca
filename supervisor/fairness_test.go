package supervisor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// inProjects runs a test in virtual time with n projects in addition to the one of each sim.
func inProjects(t *testing.T, n int, test func(t *testing.T, s *sim, projects []identity.Project)) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
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

// submitTo submits a script to another project.
func (s *sim) submitTo(p identity.Project, script string) writ.RunID {
	s.t.Helper()
	payload := s.payload(script)
	payload.Project, payload.ProjectName = p.ID, p.Name
	run, err := s.Submit(s.t.Context(), s.signPayload(payload))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// pings returns a script with n concurrent pings of its node.
func pings(n int) string {
	return fmt.Sprintf("node := import(\"node\")\nfor i := 0; i < %d; i++ { node.ping() }\n", n)
}

// endedCalls returns the number of ended calls of a run.
func (s *sim) endedCalls(id writ.RunID) (n int) {
	s.t.Helper()
	_, calls := s.look(id)
	for _, c := range calls {
		if c.State.Ended() {
			n++
		}
	}
	return n
}

// Promise: Limits and shares: A project with little work on a node does not wait for all earlier calls of another
// project.
// How: A free slot serves the project with the fewest active calls; a node has at most two deliveries per slot.
// Also: TestManyProjectsShareSmallCapacity, TestCapacityIsSharedBetweenProjects,
// TestDeliveriesPerSlotAreLimited.
func TestSmallProjectDoesNotWaitForLargeOne(t *testing.T) {
	inProjects(t, 1, func(t *testing.T, s *sim, projects []identity.Project) {
		s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 2 })
		time.Sleep(2 * time.Second)
		many := s.submit(pings(60))
		s.awaitCall(many, 1, writ.CallRunning)
		more := s.submit(pings(60))
		s.wantState(s.submitTo(projects[0], pings(6)), writ.RunSucceeded)
		if n, least, most := s.endedCalls(many), 4, 14; n < least || n > most { // earlier ones, and one each
			t.Errorf("%d calls of the large project ended before the 6 of the small one, want %d to %d", n, least, most)
		}
		s.wantState(many, writ.RunSucceeded)
		s.wantState(more, writ.RunSucceeded)
		s.wantEffects(126)
	})
}

// A supervisor sends more calls of a project with a higher weight, and its jobs state that weight.
func TestWeightGivesProjectLargerShare(t *testing.T) {
	inProjects(t, 1, func(t *testing.T, s *sim, projects []identity.Project) {
		s.halt()
		s.weights = map[string]int{projects[0].Name: 3}
		s.start()
		n := s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 4 })
		time.Sleep(2 * time.Second)
		many := s.submit(pings(60))
		s.awaitCall(many, 1, writ.CallRunning)
		s.wantState(s.submitTo(projects[0], pings(60)), writ.RunSucceeded)
		weighted := func(j writ.Job) bool { return j.Project == projects[0].ID }
		given := n.given()
		given = given[slices.IndexFunc(given, weighted):]
		others, last := 0, 0
		for _, job := range given {
			if weighted(job) {
				last = others
			} else {
				others++
			}
		}
		// A third of 60 is 20, and 8 jobs were delivered before. With equal weights there would be 60.
		if last < 15 || last > 40 {
			t.Errorf("the node received %d jobs of the other project among the 60 with weight 3, want about 28", last)
		}
		for _, job := range n.given() {
			if want := map[writ.ProjectID]int{projects[0].ID: 3}[job.Project]; job.Weight != want {
				t.Fatalf("job of project %s has weight %d, want %d", job.Project, job.Weight, want)
			}
		}
		s.wantState(many, writ.RunSucceeded)
	})
}

func TestManyProjectsShareSmallCapacity(t *testing.T) {
	inProjects(t, 8, func(t *testing.T, s *sim, projects []identity.Project) {
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
					t.Errorf("%d calls of another project ended before the first one of project %d, want at most 4", n, i)
				}
			}
		}
		for _, id := range runs {
			s.wantState(id, writ.RunSucceeded)
		}
	})
}

// sentCalls returns the number of delivered calls of a run.
func (s *sim) sentCalls(id writ.RunID) (n int) {
	s.t.Helper()
	_, calls := s.look(id)
	for _, c := range calls {
		if c.State.Sent() {
			n++
		}
	}
	return n
}

func TestAbsentCallsLeaveCapacityToOtherProjects(t *testing.T) {
	inProjects(t, 1, func(t *testing.T, s *sim, projects []identity.Project) {
		s.join("n1", slowly(10*time.Second), func(n *testNode) { n.slots = 2 })
		time.Sleep(2 * time.Second)
		many := s.submit(pings(60))
		time.Sleep(time.Second)
		few := s.submitTo(projects[0], pings(6))
		more := s.submit(pings(6))
		time.Sleep(3 * time.Second)
		if n := s.sentCalls(many) + s.sentCalls(more); n != 4 {
			t.Errorf("%d calls of the large project are delivered, want 4: two per slot", n)
		}
		if n := s.sentCalls(few); n != 2 {
			t.Errorf("%d calls of the small project are delivered, want 2: the places reserved for other projects", n)
		}
		for _, id := range []writ.RunID{many, few, more} {
			s.wantState(id, writ.RunSucceeded)
		}
		s.wantEffects(72)
	})
}

// Log lines of scripts are written to two stores and sent to all followers, so each project has a limit. A run waits
// until its project may log its lines. If that takes too long, the log counts the missing lines.
//
// Promise: Load and attackers: The scripts of one project log at most 1 MiB a second in a datacenter, with a burst of
// half of that.
// How: A run waits for its lines for 6 s at most, then the log counts the missing lines; each line counts 1 KiB
// extra.
// Also: TestShortLinesHaveABoundToo.
func TestNoProjectLogsWithoutBound(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const script = `
run := import("run")
line := ""
for i := 0; i < 4096; i++ { line += "x" }
for i := 0; i < 999; i++ { run.log(line) }
`
		lines := func(id writ.RunID) (lines []writ.LogLine) {
			t.Helper()
			s.wantState(id, writ.RunSucceeded)
			err := s.journal.Read(t.Context(), func(tx *journal.Tx) (err error) {
				lines, err = tx.Logs(id, 0, 1000)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return lines
		}
		whole := func(when string) {
			t.Helper()
			began := time.Now()
			if got := lines(s.submit(script)); len(got) != 999 || strings.Contains(got[998].Text, "dropped") {
				t.Errorf("%s: stored %d of 999 lines", when, len(got))
			}
			if took := time.Since(began); took < 3*time.Second || took > 7*time.Second {
				t.Errorf("%s: a run that logs 5 MiB takes %s, want 3 s to 7 s", when, took)
			}
		}
		whole("first run")
		whole("second run")
		ids := []writ.RunID{s.submit(script), s.submit(script)}
		kept, complete := 0, 0
		for _, id := range ids {
			got := lines(id)
			if kept += len(got); len(got) == 999 {
				complete++
			} else if last := got[len(got)-1].Text; !strings.Contains(last, "dropped") {
				t.Errorf("one of two concurrent runs: stored %d lines, last line %.80s", len(got), last)
			}
		}
		if complete != 1 || kept > 1500 {
			t.Errorf("two concurrent runs: %d complete logs and %d lines", complete, kept)
		}
		time.Sleep(time.Minute)
		whole("one minute later")
	})
}

// A short line costs followers and stores as much as a long one.
func TestShortLinesHaveABoundToo(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		began := time.Now()
		var ids []writ.RunID
		for range 4 {
			ids = append(ids, s.submit(`run := import("run"); for i := 0; i < 1000; i++ { run.log("x") }`))
		}
		for _, id := range ids {
			s.wantState(id, writ.RunSucceeded)
		}
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("4,000 lines were logged in %s, want at least 3 s", took)
		}
	})
}
