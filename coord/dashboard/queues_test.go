package dashboard_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
)

// past gives the queues a history of ten minutes: ams1-n1 fills and drains, and gent2 does not answer for a while.
func (w *fixture) past(step time.Duration) {
	w.t.Helper()
	now := time.Now()
	for at := now.Add(-10 * time.Minute); at.Before(now); at = at.Add(step) {
		n := int(now.Sub(at) / time.Minute)
		queues := []api.DatacenterQueues{{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{{Node: "ams1-n1", NodeName: "ams1-n1", Running: 2, Queued: 3 * (10 - n), Planned: n}, {Node: "ams1-n2", NodeName: "ams1-n2"}}}}
		if n < 3 || n > 5 {
			queues = append(queues, api.DatacenterQueues{Datacenter: gent, Name: "gent2", Queues: []writ.QueueDepth{{Node: "gent2-n2", NodeName: "gent2-n2", Running: 1}}})
		}
		w.setQueues(queues...)
		w.board.Sample(w.t.Context(), at)
	}
}

// Promise: Operation: The dashboard shows the last 15 minutes of each queue, with gaps marked, also for the time
// without an open page.
// How: The coordinator samples every 5 s in memory; a restart begins a new history.
// Also: TestRunSamplesWithoutOpenPages, TestManyQueuesFitIntoAPage, TestCoordinatorSamplesItsQueues.
func TestQueuesHaveAHistoryThatTheServerSamples(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.past(5 * time.Second)
	w.nodes(time.Now())
	w.depths(3)
	body := w.page("/queues")
	line := func(node string) string {
		row := regexp.MustCompile(`(?s)<tr data-key="[^"]*/` + node + `".*?</tr>`).FindString(body)
		if row == "" {
			t.Fatalf("no queue of %s", node)
		}
		return row
	}
	busy, idle, gap := line("ams1-n1"), line("ams1-n2"), line("gent2-n2")
	wants(t, busy, "at most 32")
	if n := strings.Count(busy, "V"); n < 20 {
		t.Errorf("the picture of a busy queue has %d steps:\n%s", n, busy)
	}
	wants(t, idle, `class="b-running" d="M0 100H60V100Z"`)
	if n := strings.Count(gap, `class="b-hole"`); n != 2 { // before it was sampled, and while no datacenter answered
		t.Errorf("%d stretches are not known:\n%s", n, gap)
	}
	if n := strings.Count(busy, `class="b-hole"`); n != 1 {
		t.Errorf("%d stretches of a queue that always answered are not known", n)
	}
	if body := w.page("/"); !regexp.MustCompile(`data-history="(\[\[\d+,[\d,\[\]]+\])"`).MatchString(body) {
		t.Error("the chart of all queues is empty")
	}
}

// Run samples even if no page is open.
func TestRunSamplesWithoutOpenPages(t *testing.T) {
	t.Parallel()
	w := open(t)
	wants(t, w.page("/"), `data-history="[]"`)
	w.depths(3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.board.Run(ctx) }()
	for began := time.Now(); strings.Contains(w.page("/"), `data-history="[]"`); {
		if time.Since(began) > hang {
			t.Fatal("no sample")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Promise: Operation: A queue without a receiving runner shows the mending command, above all other queues.
// How: Health and fault of its node, by the newest beat.
func TestQueueWithoutRunnerShowsAdvice(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.nodes(time.Now())
	w.setQueues(
		api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{
			{NodeName: "(no node yet)", Planned: 4}, {Node: "ams1-n1", NodeName: "ams1-n1", Queued: 90}, {Node: "ams1-n3", NodeName: "ams1-n3", Running: 1},
		}},
		api.DatacenterQueues{Datacenter: gent, Name: "gent2", Queues: []writ.QueueDepth{
			{Node: "gent2-n1", NodeName: "gent2-n1", Queued: 7}, {Node: "gent2-n2", NodeName: "gent2-n2", Queued: 2}, {Node: "gent2-n3", NodeName: "gent2-n3"},
		}},
		api.DatacenterQueues{Datacenter: fra, Name: "fra1", Error: writ.Errorf(writ.CodeDatacenterAway, "the datacenter fra1 is not connected")},
	)
	body := w.page("/queues")
	wants(t, body, "No runner takes these calls: the node sends no heartbeats", "writ node show gent2-n1 --dc gent2", "writ node lost gent2-n1 --dc gent2",
		"The node takes no work: its journal cannot be written: the disk is full", "writ node show gent2-n2 --dc gent2",
		"These calls have no node yet", "writ run list --state running --why", "The datacenter does not answer", "writ dc list")
	for _, fine := range []string{"writ node show ams1-n1", "writ node show ams1-n3", "writ node show gent2-n3"} {
		if strings.Contains(body, fine) {
			t.Errorf("command for a healthy queue: %s", fine)
		}
	}
	if strings.Index(body, "gent2-n1") > strings.Index(body, "ams1-n1") {
		t.Error("a blocked queue is below a queue that is only long")
	}
	w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool { return action == identity.ActionRead }})
	if body := w.page("/queues"); strings.Contains(body, "writ node lost") {
		t.Error("a viewer gets the command for a lost node")
	}
	if body := w.page("/queues?datacenter=" + string(ams)); strings.Contains(body, "gent2-n1") {
		t.Error("the filter shows other datacenters")
	}
}

func TestManyQueuesFitIntoAPage(t *testing.T) {
	t.Parallel()
	w := open(t)
	var many []writ.QueueDepth
	var nodes []writ.Event
	for n := range 700 {
		name := fmt.Sprintf("node-%03d", n)
		many = append(many, writ.QueueDepth{Node: writ.NodeID(name), NodeName: name, Running: n % 7, Queued: n})
		nodes = append(nodes, writ.Event{Node: &writ.Node{ID: writ.NodeID(name), Datacenter: ams, Name: name, Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady}})
	}
	nodes[699].Node.Liveness = writ.LivenessLost // more nodes than one list may have come before it
	w.store(ams, nodes...)
	for s := range 60 {
		for i := range many {
			many[i].Queued = (i*7 + s*s*13) % 900
		}
		w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: many})
		w.board.Sample(t.Context(), time.Now().Add(time.Duration(s-60)*15*time.Second))
	}
	body := w.page("/queues")
	wants(t, body, "660 queues with fewer calls are left out", "writ node show node-699 --dc ams1")
	if len(body) > 100_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
}

// The first page names the nodes with the most calls, counts the others, and stays small.
func TestTheFirstPageNamesTheNodesWithMostCalls(t *testing.T) {
	t.Parallel()
	w := open(t)
	var depths []writ.QueueDepth
	for n := range 500 {
		depths = append(depths, writ.QueueDepth{Node: writ.NodeID(fmt.Sprintf("n%03d", n)), NodeName: fmt.Sprintf("node-%03d", n), Queued: n % 50})
	}
	w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: depths})
	body := w.page("/")
	named := regexp.MustCompile(`<th scope="row">node-\d\d(\d)`).FindAllStringSubmatch(body, -1)
	have := map[string]int{}
	for _, n := range named {
		have[n[1]]++
	}
	if diff := cmp.Diff(map[string]int{"9": 10, "8": 10, "7": 4}, have); diff != "" {
		t.Errorf("named are, by their last digit: %s", diff)
	}
	wants(t, body, `<a href="/queues?datacenter=`+string(ams)+`">466 more nodes have fewer calls</a>, 10 more nodes have nothing to do`)
	if len(body) > 50_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
}
