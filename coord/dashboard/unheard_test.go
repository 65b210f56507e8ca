package dashboard_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/identity/expiring"
)

// setNode stores a node of ams1 with a change.
func (w *fixture) setNode(name string, change func(n *writ.Node)) {
	n := &writ.Node{
		ID: writ.NodeID(name), Datacenter: ams, Name: name, Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
		Health: writ.Health{Slots: 8, Capacity: writ.Capacity{CPUs: 32, MemoryMiB: 256 << 10, DiskGiB: 3800}}, LastBeat: time.Now(),
	}
	change(n)
	w.store(ams, writ.Event{Node: n})
}

// Promise: Operation: The dashboard shows no call and no resource of a silent or lost node as running.
// How: Their state is unknown until the node reports again.
func TestSilentNodeRunsNothing(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	run := "/runs/" + string(running.ID)
	row := func(page, key string) string {
		_, row, _ := strings.Cut(w.page(page), `data-key="`+key+`"`)
		row, _, _ = strings.Cut(row, "</tr>")
		return row
	}
	w.setNode("ams1-n3", func(n *writ.Node) { n.Liveness, n.LastBeat = writ.LivenessSilent, time.Now().Add(-time.Minute) })
	w.setNode("ams1-n2", func(n *writ.Node) { n.Liveness, n.LastBeat = writ.LivenessLost, time.Now().Add(-time.Hour) })
	silent, lost := "unknown: ams1-n3 is silent since", "unknown: ams1-n2 is lost since"
	for name, tt := range map[string]struct{ page, Key, want string }{
		"Call":        {run, "4", silent},
		"RunList":     {"/", string(running.ID), silent},
		"Resource":    {"/resources?kind=machine", string(ams) + "/" + string(shop) + "/machine/web-0", lost},
		"Queue":       {"/queues", string(ams) + "/ams1-n3", silent},
		"NodeList":    {"/nodes", "ams1-n3", silent},
		"Overview":    {"/", string(ams) + "/ams1-n3", ">unknown<"},
		"Datacenters": {"/datacenters", string(ams), ", 3 unknown"},
	} {
		shown := row(tt.page, tt.Key)
		if name == "RunList" { // its datacenter is connected, and continues the run
			shown = strings.Replace(shown, "s-running", "", 1)
		}
		if !strings.Contains(shown, tt.want) || strings.Contains(shown, "s-running") || strings.Contains(shown, "running at") {
			t.Errorf("%s: want %q and no running state in\n%s", name, tt.want, shown)
		}
	}
	attempts := regexp.MustCompile(`<td>unknown</td>`)
	if page := w.page(run + "/timeline"); !attempts.MatchString(page) || strings.Contains(page, "<td>running</td>") {
		t.Error("the timeline shows a call on a silent node as running")
	}
	if page := w.page("/nodes/" + string(ams) + "/ams1-n3"); !strings.Contains(page, silent) || strings.Contains(page, "1 running") {
		t.Error("the page of a silent node shows running calls")
	}
	wants(t, w.page(run), silent, "call 4 is unknown")
	w.readAs(ofShop)
	if page := w.page(run); !strings.Contains(page, "unknown: its node is silent since") {
		t.Error("a reader of one project gets a different reason")
	}
}

func TestNodesThatAreHeardRun(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	for page, want := range map[string]string{"/runs/" + string(running.ID): "s-running", "/resources?kind=machine": "s-running", "/nodes/" + string(ams) + "/ams1-n3": "1 running of 8 slots"} {
		if body := w.page(page); !strings.Contains(body, want) || strings.Contains(body, "unknown: ") {
			t.Errorf("%s: want %q without unknown states", page, want)
		}
	}
}

func TestFullDiskLooksFull(t *testing.T) {
	t.Parallel()
	w := open(t)
	for used, want := range map[int64]string{
		3800: `class="full"><svg class="meter" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="b-failed" width="100" height="1"/></svg>3800 of 3800 GiB disk, full<`,
		3799: `<rect class="b-queued" width="99" height="1"/></svg>3799 of 3800 GiB disk<`,
	} {
		w.setNode("ams1-n1", func(n *writ.Node) { n.Used.DiskGiB = used })
		for _, page := range []string{"/nodes", "/nodes/" + string(ams) + "/ams1-n1"} {
			if body := w.page(page); !strings.Contains(body, want) {
				at := strings.Index(body, "GiB disk")
				t.Errorf("%s with %d GiB: want %s in %s", page, used, want, body[max(at-300, 0):max(at, 0)])
			}
		}
	}
}

func TestAlmostFullDiskNeedsAttention(t *testing.T) {
	t.Parallel()
	w := open(t)
	const text = "/srv/writ has 4.9 of 100.0 GiB free"
	for free, full := range map[int64]bool{5 << 30: false, 5<<30 - 100<<20: true} {
		w.setNode("ams1-n1", func(n *writ.Node) { n.Disks = []writ.Disk{{Path: "/srv/writ", Bytes: 100 << 30, Free: free}} })
		w.board.Forget()
		for page, want := range map[string]string{
			"/": `href="/nodes">1 disk almost full<`, "/nodes": ">a disk is almost full: " + text + "<", "/nodes/" + string(ams) + "/ams1-n1": text + ": almost full",
		} {
			if body := w.page(page); strings.Contains(body, want) != full {
				t.Errorf("%s with %d bytes free: %q is %v, want %v", page, free, want, !full, full)
			}
		}
	}
}

func TestExpiringThingsAreNamed(t *testing.T) {
	t.Parallel()
	w := open(t)
	now := time.Now()
	ends := []expiring.Item{
		{What: "version 3 of the roster", At: now.Add(60 * 24 * time.Hour)},
		{What: "the token <b>", At: now.Add(time.Hour), Renew: "writ token create"},
		{What: "the certificate", At: now.Add(-time.Hour), Renew: "read the log"},
		{What: "an old role", At: now.Add(-40 * 24 * time.Hour)},
	}
	w.mu.Lock()
	w.ends = ends
	w.mu.Unlock()
	want := ">2 items expire soon or have expired: the token &lt;b&gt; expires on " + now.Add(time.Hour).UTC().Format(time.DateOnly) +
		" (writ token create); the certificate has expired (read the log)<"
	wants(t, attentionItem.FindString(w.page("/")), want)
	w.readAs(ofShop)
	if line := attentionItem.FindString(w.page("/")); strings.Contains(line, "expire") {
		t.Errorf("a reader of one project sees %s", line)
	}
}

var attentionItem = regexp.MustCompile(`(?s)<p class="notice attention".*?</p>`)

// Promise: Operation: The first page of the dashboard counts the items that need a person, and `writ doctor` reports
// the same.
// How: Nodes are listed every 5 s.
// Also: TestDoctorNamesNodesThatNeedAPerson.
func TestFirstPageNamesWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	w := open(t)
	if page := w.page("/"); !strings.Contains(page, ">1 datacenter is away<") {
		t.Error("a datacenter that is away needs no attention")
	}
	w.mu.Lock()
	w.datacenters = w.datacenters[:2]
	w.mu.Unlock()
	w.board.Forget()
	if page := w.page("/"); strings.Contains(page, "Needs attention: ") {
		t.Errorf("unexpected attention: %s", attentionItem.FindString(page))
	}
	fill(w)
	w.setNode("ams1-n1", func(n *writ.Node) { n.Used.DiskGiB = n.Capacity.DiskGiB })
	stuckRuns(w)
	w.onHold()
	w.board.Forget()
	all := []string{`href="/nodes">1 lost node<`, `href="/nodes">1 faulty node<`, `href="/nodes">1 full disk<`, `href="#holds">2 holds<`, `href="/stuck">`}
	wants(t, attentionItem.FindString(w.page("/")), all...)
	w.ledgerDown.Store(true)
	wants(t, attentionItem.FindString(w.page("/")), "1 ledger cannot be used: this coordinator refuses new work")
	w.readAs(page.Reader{Projects: []writ.ProjectID{bank}})
	line := attentionItem.FindString(w.page("/"))
	wants(t, line, `href="#holds">1 hold<`, `href="/stuck">`)
	if strings.Contains(line, "/nodes") || strings.Contains(line, "ledger") {
		t.Errorf("a reader of one project sees nodes: %s", line)
	}
}
