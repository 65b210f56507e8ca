package coord

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

// listed returns the runs of a list, with the reason why each waits.
func (p *fixture) listed(token string, query url.Values) map[writ.RunID]string {
	p.t.Helper()
	status, body := p.as(token, http.MethodGet, "/v1/runs?"+query.Encode())
	var page api.RunPage
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK {
		p.t.Fatalf("%v: status %d, %s", query, status, body)
	}
	all := map[writ.RunID]string{}
	for _, r := range page.Items {
		all[r.ID] = r.Reason
	}
	return all
}

// Each filter selects the described runs, from the readable projects only, and the next pages use the same filter.
//
// Promise: Readers and roles: Runs can be selected by script, deployment, age, id prefix and time without an event;
// pages and permissions are unchanged.
// How: The ledger selects by indexes; it derives the last event of a run from its events without log lines.
// Also: TestLedgerInFile, TestLedgerOnPostgreSQL.
func TestRunFiltersSelectByPropertyAndSilence(t *testing.T) {
	var later atomic.Int64 // offset of the coordinator's clock
	p, s := startReading(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	var shops, blogs []writ.Submission
	for _, name := range []string{"web.tengo", "web.tengo", "db.tengo"} {
		shops = append(shops, p.runFor(shop, "web-shop", name))
		blogs = append(blogs, p.runFor(blog, "web-blog", name))
	}
	open := func(sub writ.Submission, reason string) *writ.Run {
		return &writ.Run{ID: sub.Run, Script: sub.Script, Payload: sub.Payload, State: writ.RunRunning, Deployment: "front", Reason: reason,
			Project: sub.Project, Accepted: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC()}
	}
	ended := open(shops[2], "")
	ended.State, ended.Ended, ended.Deployment = writ.RunSucceeded, time.Now().UTC(), ""
	s.tell(
		writ.Event{Run: open(shops[0], "")}, writ.Event{Run: open(shops[1], "waits for its turn")}, writ.Event{Run: ended}, writ.Event{Run: open(blogs[0], "")},
		writ.Event{Call: &writ.Call{Run: shops[0].Run, Seq: 1, Operation: "volume.create", Name: "v", State: writ.CallSucceeded, Reason: "no"}},
		writ.Event{Call: &writ.Call{Run: shops[0].Run, Seq: 2, Operation: "volume.create", Name: "w", State: writ.CallQueued, NodeName: "n1"}},
		writ.Event{Call: &writ.Call{Run: shops[0].Run, Seq: 3, Operation: "machine.create", Name: "m", State: writ.CallPlanned, NodeName: "n2", Reason: "has no room"}},
		writ.Event{Call: &writ.Call{Run: blogs[0].Run, Seq: 1, State: writ.CallPlanned}},
	)
	p.await("all events of the datacenter", func() bool {
		list, err := p.Ledger.Calls(t.Context(), blogs[0].Run, ledger.Page{})
		return err == nil && len(list.Items) == 1
	})
	carol := p.token("carol") // reads shop
	ask := func(query url.Values) (got []writ.RunID) {
		for id := range p.listed(carol, query) {
			got = append(got, id)
		}
		return got
	}
	for _, tt := range []struct {
		name, value string
		want        []writ.Submission
	}{
		{"script", "web.tengo", shops[:2]}, {"script", "none.tengo", nil}, {"deployment", "front", shops[:2]}, {"deployment", "none", nil},
		{"prefix", string(shops[1].Run), shops[1:2]}, {"prefix", string(shops[2].Run[:20]), shops[2:]}, {"prefix", string(blogs[1].Run), nil},
		{"since", time.Now().Add(-time.Hour).Format(time.RFC3339), shops}, {"since", time.Now().Add(time.Hour).Format(time.RFC3339), nil},
		{"stuck", "100", nil}, {"why", "true", shops},
	} {
		got := ask(url.Values{tt.name: {tt.value}})
		if len(got) != len(tt.want) || slices.ContainsFunc(tt.want, func(sub writ.Submission) bool { return !slices.Contains(got, sub.Run) }) {
			t.Errorf("%s=%s: %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
	for _, wrong := range []string{"prefix=", "prefix=abc1", "prefix=%25", "since=yesterday", "stuck=0", "stuck=-1", "stuck=99999999999", "stuck=5m", "why=perhaps", "text=", "text=" + strings.Repeat("a", 201)} {
		status, body := p.as(carol, http.MethodGet, "/v1/runs?"+wrong)
		wantProblem(t, wrong, status, body, writ.CodeBadRequest)
	}

	later.Store(int64(3 * time.Minute))
	stuck := p.listed(carol, url.Values{"stuck": {"100"}, "why": {"true"}})
	if len(stuck) != 2 || stuck[shops[0].Run] != "call 3 (machine.create m) is planned on n2: has no room" || stuck[shops[1].Run] != "waits for its turn" {
		t.Errorf("open runs without news: %q", stuck)
	}
	if first := p.listed(carol, url.Values{"stuck": {"100"}, "limit": {"1"}}); len(first) != 1 || first[shops[0].Run] != "" {
		t.Errorf("the first page without a reason: %q", first)
	}
	s.leave()
	if away := p.listed(carol, url.Values{"why": {"true"}})[shops[1].Run]; away != "its datacenter is away, and said last: waits for its turn" {
		t.Errorf("of a datacenter that is away: %q", away)
	}
	if over := p.listed(carol, url.Values{"why": {"true"}, "script": {"db.tengo"}}); over[shops[2].Run] != "" {
		t.Errorf("reason of an ended run = %q, want none", over)
	}
}

// asking is a ledger that counts the requests for certain nodes.
type asking struct {
	ledger.Ledger
	forNodes atomic.Int32
}

func (a *asking) Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error) {
	if len(filter.Nodes) > 0 {
		a.forNodes.Add(1)
	}
	return a.Ledger.Nodes(ctx, filter, page)
}

// A call on a failing node has the node's fault as reason, before older reports about other calls. The ledger is read
// once for the nodes of all runs of a page.
//
// Promise: Operation: The cause of stuck work and its mending command are at most two links from the first page, and
// in `writ run list --stuck`.
// How: The code of the reason, or the state of a call's node, selects the command; commands contain valid names only.
// Also: TestEachKindOfStuckWorkIsFoundWithItsCommand, TestCommandFollowsFromTheReason.
func TestWhyNamesTheFailingNode(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	counted := &asking{Ledger: store}
	p, s := startReading(t, func(c *Config) { c.Ledger = counted })
	call := func(run writ.RunID, seq int, state writ.CallState, node writ.NodeID, reason string, after ...int) writ.Event {
		return writ.Event{Call: &writ.Call{Run: run, Seq: seq, Operation: "volume.create", Name: "v", State: state, Node: node, NodeName: string(node), Reason: reason, After: after}}
	}
	node := func(id writ.NodeID, liveness writ.Liveness, fault string) writ.Event {
		return writ.Event{Node: &writ.Node{ID: id, Name: string(id), Admission: writ.AdmissionApproved, Liveness: liveness, Health: writ.Health{Fault: fault}}}
	}
	events := []writ.Event{node("n1", writ.LivenessReady, ""), node("n2", writ.LivenessSilent, ""), node("n3", writ.LivenessReady, "the disk is full")}
	want := map[writ.RunID]string{}
	add := func(why string, calls func(run writ.RunID) []writ.Event) {
		sub := p.runFor(shop, "web-shop", "web.tengo")
		events = append(events, writ.Event{Run: &writ.Run{ID: sub.Run, Script: sub.Script, Payload: sub.Payload, State: writ.RunRunning, Project: sub.Project,
			Accepted: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC()}})
		events = append(events, calls(sub.Run)...)
		want[sub.Run] = why
	}
	add("call 2 (volume.create v) is queued on n2, which is silent", func(run writ.RunID) []writ.Event {
		return []writ.Event{call(run, 1, writ.CallRunning, "n1", "50 %"), call(run, 2, writ.CallQueued, "n2", "")}
	})
	add("call 1 (volume.create v) is running on n3, which takes no work: the disk is full", func(run writ.RunID) []writ.Event {
		return []writ.Event{call(run, 1, writ.CallRunning, "n3", "50 %")}
	})
	add("call 1 (volume.create v) is running on n1: 50 %", func(run writ.RunID) []writ.Event {
		return []writ.Event{call(run, 1, writ.CallRunning, "n1", "50 %")}
	})
	add("call 1 (volume.create v) is planned on n1: it waits for a slot of the node, or for an earlier call on the same resource", func(run writ.RunID) []writ.Event {
		return []writ.Event{call(run, 1, writ.CallPlanned, "n1", "")}
	})
	add("it repeats volume.create v at poll.tengo:3:2: look for a loop that does not end; call 51 (volume.create v) is running on n1", func(run writ.RunID) []writ.Event {
		var all []writ.Event
		for seq := range ledger.LoopCalls + 1 {
			e := call(run, seq+1, writ.CallSucceeded, "n1", "")
			e.Call.Position, e.Call.Planned = "poll.tengo:3:2", time.Now().Add(time.Duration(seq)*time.Second).UTC()
			all = append(all, e)
		}
		all[ledger.LoopCalls].Call.State = writ.CallRunning
		return all
	})
	last := ""
	add("call 2 (volume.create v) is planned on n1", func(run writ.RunID) []writ.Event {
		last = string(run)
		return []writ.Event{call(run, 2, writ.CallPlanned, "n1", "", 1)}
	})
	s.tell(events...)
	p.await("all events of the datacenter", func() bool {
		list, err := p.Ledger.Calls(t.Context(), writ.RunID(last), ledger.Page{})
		return err == nil && len(list.Items) == 1
	})
	counted.forNodes.Store(0)
	got := p.listed(p.token("carol"), url.Values{"why": {"true"}})
	if n := counted.forNodes.Load(); n != 1 {
		t.Errorf("the ledger is asked for nodes %d times", n)
	}
	for run, why := range want {
		if got[run] != why {
			t.Errorf("reason = %q, want %q", got[run], why)
		}
	}
}

// A report about a call from before the queue failed is not the reason why the run waits.
func TestWhyNamesTheFaultOfTheDatacenter(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) { s.dialer.Fault = func() string { return "its queue is unreachable" } })
	run := ledger.Run{Run: writ.Run{ID: writ.RunIDOf(writ.Digest{1}), Datacenter: vienna, Reason: "call 1 (node.ping) is queued"}, State: ledger.State(writ.RunRunning)}
	p.await("the run names the fault", func() bool {
		why, err := p.explain.Why(t.Context(), run)
		s.tell(writ.Event{Node: &writ.Node{ID: "n1", Name: "n1"}}) // stored events wake the test, a fault does not
		return err == nil && why[run.ID].String() == "its datacenter cannot continue: its queue is unreachable"
	})
	all, err := p.live.Datacenters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.ID == vienna && (d.Health != api.DatacenterHealthFaulty || !d.IsConnected() || d.Placeable || d.Reason != "its queue is unreachable") {
			t.Errorf("the datacenter with a fault: %+v", d)
		}
	}
}
