package supervisor_test

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor"
	"writ/supervisor/link"
	"writ/supervisor/ratelog"
)

// threeVolumes makes three calls that do not wait for each other.
const threeVolumes = `
volume := import("volume")
for name in ["a", "b", "c"] { volume.create(name, {size_gib: 1}) }
`

// What people read of a supervisor follows from what it did.
//
// Promise: Events, traces and the API: Supervisors and runners expose work and backlog metrics, and a hanging
// journal, disk or driver blocks no scrape.
// How: Numbers are in memory; the supervisor's watch reads the ages of waiting items every five seconds; an answer
// has eight seconds, a disk one.
// Also: TestTheNumbersOfARunnerFollowFromItsWork, TestResourcesAndRepairsOfNodeAreCounted,
// TestUnconfirmedEventsAreCounted, TestNoQuestionReadsMoreThanItsAnswer,
// TestEveryPartTellsWhatItDid, TestAPartThatHangsKeepsNoScrapeWaiting, TestADiskThatHangsIsLeftOut.
func TestTheNumbersOfASupervisorFollowFromItsWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		between := func(what string, age, least, most time.Duration) {
			t.Helper()
			if age < least || age > most {
				t.Errorf("%s is %s old, want %s to %s", what, age, least, most)
			}
		}
		time.Sleep(30 * time.Second)
		if m := s.Metrics(); len(m.Calls) != 3 {
			t.Errorf("of a datacenter without work is said %v, and not that each state has no calls", m.Calls)
		}
		id := s.submit(threeVolumes)
		time.Sleep(30 * time.Second)
		m := s.Metrics()
		between("what has no node", m.Waiting, 25*time.Second, 35*time.Second)
		if m.Runs != 1 || m.Calls[writ.CallPlanned] != 3 || m.Oldest[writ.CallPlanned] != 0 {
			t.Errorf("three calls have no node: %+v", m)
		}

		s.join("n1", slowly(10*time.Minute), func(n *testNode) { n.slots = 1 }) // which gets two
		s.awaitCall(id, 1, writ.CallRunning)
		time.Sleep(time.Minute)
		m = s.Metrics()
		for state, least := range map[writ.CallState]time.Duration{writ.CallRunning: 55 * time.Second, writ.CallQueued: 55 * time.Second, writ.CallPlanned: 85 * time.Second} {
			if m.Calls[state] != 1 {
				t.Errorf("%d calls are %s, want 1", m.Calls[state], state)
			}
			between("the call that is "+string(state), m.Oldest[state], least, 2*time.Minute)
		}
		answer, err := s.Ask(t.Context(), link.VerbQueues, link.Queues{})
		if err != nil {
			t.Fatal(err)
		}
		queues := answer.([]link.QueueDepth)
		if len(queues) != 1 || queues[0].NodeName != "n1" || queues[0].Planned != 1 || queues[0].Queued != 1 {
			t.Errorf("coordinators are told of %+v", queues)
		}
		between("what coordinators are told of that is planned", queues[0].OldestPlanned, 85*time.Second, 2*time.Minute)
		between("what coordinators are told of that is queued", queues[0].OldestQueued, 55*time.Second, 2*time.Minute)
		if m.Waiting != 0 || m.Nodes["ready"] != 1 || m.Nodes["pending"] != 0 {
			t.Errorf("all calls have a node: %+v", m)
		}

		p := s.payload(webScript)
		p.Datacenter = "01920000-0000-7000-8000-00000000000f"
		if _, err := s.Submit(t.Context(), s.signPayload(p)); writ.CodeOf(err) != writ.CodeWrongDatacenter {
			t.Fatal(err)
		}
		s.nodes[0].send("nonsense", writ.Result{})
		s.wantState(id, writ.RunSucceeded)
		time.Sleep(2 * time.Second)
		m = s.Metrics()
		if m.Runs != 0 || m.Calls[writ.CallPlanned]+m.Calls[writ.CallQueued]+m.Calls[writ.CallRunning] != 0 || m.Oldest[writ.CallRunning] != 0 {
			t.Errorf("the run has ended: %+v", m)
		}
		if m.Refusals[supervisor.Refusal{What: "submission", Code: writ.CodeWrongDatacenter}] != 1 || len(m.Refusals) != 1 ||
			m.Complaints[ratelog.Warning{What: "open message of a node; it is discarded", Code: writ.CodeSignatureMalformed}] != 1 {
			t.Errorf("it refused one submission and one message: %v, %v", m.Refusals, m.Complaints)
		}
		if !m.Journal || !m.Queue || m.Failed != 0 || m.Writes.Count == 0 || m.Passes.Count < 1 || len(m.Crashes) > 0 {
			t.Errorf("everything works: %+v", m)
		}
		if m.Epoch != s.Epoch() || m.Roster != s.Roster().Version || !m.Expires.Equal(s.Roster().Expires) {
			t.Errorf("epoch %d and roster %d until %s", m.Epoch, m.Roster, m.Expires)
		}
		s.queue.Cut(true)
		time.Sleep(3 * time.Second)
		if m := s.Metrics(); m.Queue || !m.Journal || time.Since(m.Looked) > 2*time.Second {
			t.Errorf("the queue is away: %+v", m)
		}
		s.queue.Cut(false)
	})
}
