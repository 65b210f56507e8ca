package resources

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/orphan"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func listed(r writ.Resource) api.ListedResource { return api.ListedResource{Resource: r} }

// shown formats a resource without backups and snapshots.
func shown(r api.ListedResource, orphans []orphan.Orphan, where locations) string {
	return resourceText(shownResource{ListedResource: r}, orphans, where)
}

func TestResourceListsRepairsOfItsNode(t *testing.T) {
	r := writ.Resource{
		ResourceID: writ.ResourceID{Kind: writ.KindMachine, Name: "web-0"}, Drift: []string{"its volume data is not as it was"},
		Mended: []writ.Mending{
			{Number: 4, Time: time.Now().Add(-5 * time.Hour), What: "the host was started anew"},
			{Number: 9, Time: time.Now().Add(-3*time.Minute - time.Second), What: "its process had died,\x1b[2J killed by the kernel"},
		},
	}
	text := shown(listed(r), nil, locations{})
	for _, want := range []string{
		"  drift: its volume data is not as it was\n  mended 3m ago: its process had died,", "killed by the kernel\n  mended 5h ago: the host was started anew\n  and mended 7 times before that\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("the text has control characters of a driver: %q", text)
	}
	if r.Mended = nil; strings.Contains(shown(listed(r), nil, locations{}), "mended") {
		t.Error("a resource without repairs shows repairs")
	}
}

func TestResourceShowsStateAndOrphans(t *testing.T) {
	web := writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web-0"}
	r := writ.Resource{ResourceID: web, Node: "a", Standing: writ.Standing{State: "running", Address: "fd00::7"}}
	nodes := map[writ.NodeID]writ.Node{
		"a": {ID: "a", Name: "n1", Liveness: writ.LivenessReady},
		"b": {ID: "b", Name: "n2", Liveness: writ.LivenessLost, Findings: writ.Findings{Orphans: []writ.Orphan{
			{Module: "machine", Kind: "process", Name: "77", Of: web.HostName(), Remedy: "kill 77\x1b[2J"}, {Module: "volume", Kind: "tree", Name: "/d/v0"},
		}}},
	}
	where := locations{nodes: nodes, projects: map[writ.ProjectID]string{"p": "web-shop"}}
	all := orphan.On(nodes)
	text := shown(listed(r), orphan.Of(all, web), where)
	for _, want := range []string{
		"  it is running, at fd00::7\n", "  on node n2, orphan: the process 77 belongs to no resource (found by machine); to remove it: kill 77",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "/d/v0") || strings.Contains(text, "\x1b") {
		t.Errorf("it says:\n%q", text)
	}
	table := resourceTable([]api.ListedResource{listed(r)}, all, where).Text(false)
	for _, want := range []string{"KIND     NAME   STATE    ADDRESS  PROJECT", "machine  web-0  running  fd00::7  web-shop", "\n2 orphans on n2: `writ resource list --orphans`"} {
		if !strings.Contains(table, want) {
			t.Errorf("table lacks %q:\n%s", want, table)
		}
	}
	named := orphan.Table(all, nil).Text(false)
	for _, want := range []string{"n2    machine   process  77     kill 77", "n2    volume    tree     /d/v0  create its resource again"} {
		if !strings.Contains(named, want) {
			t.Errorf("table of orphans lacks %q:\n%s", want, named)
		}
	}

	r.Node = "b" // its state is unknown
	if text := shown(listed(r), nil, where); !strings.Contains(text, "it was running at the last contact with its node, at fd00::7") {
		t.Errorf("text on a lost node:\n%s", text)
	}
	if table := resourceTable([]api.ListedResource{listed(r)}, nil, where).Text(false); !strings.Contains(table, "unknown") || strings.Contains(table, "orphan") {
		t.Errorf("table on a lost node:\n%s", table)
	}

	lost := nodes["b"]
	lost.Admission, lost.LastBeat = writ.AdmissionApproved, time.Now()
	where.nodes["b"], where.datacenters = lost, map[writ.DatacenterID]string{"": "ams1"}
	text = shown(listed(r), nil, where)
	for _, want := range []string{"  its node is lost since " + cli.Clock(lost.LastBeat) + "\n", "\nnext: writ node lost n2 --dc ams1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("text on a lost node lacks %q:\n%s", want, text)
		}
	}

	// A reader of some projects sees no nodes.
	if text := shown(listed(r), nil, locations{}); !strings.Contains(text, "  it is running, at") {
		t.Errorf("text without nodes:\n%s", text)
	}
	silent := listed(r)
	silent.Unheard = &api.Unheard{State: api.UnheardStateSilent, Since: lost.LastBeat}
	text = shown(silent, nil, locations{})
	if want := "  its node is silent since " + cli.Clock(lost.LastBeat) + "\n"; !strings.Contains(text, want) || !strings.Contains(text, "it was running at the last contact") {
		t.Errorf("text on a silent node:\n%s", text)
	}
	silent.Unheard.State = api.UnheardStateAway
	if text := shown(silent, nil, locations{}); !strings.Contains(text, "  its datacenter is away since ") || !strings.HasSuffix(text, "\nnext: writ dc list\n") {
		t.Errorf("text of a datacenter that is away:\n%s", text)
	}
}

func TestAllAddressesOfResourceAreShown(t *testing.T) {
	where := locations{nodes: map[writ.NodeID]writ.Node{"a": {ID: "a", Name: "n1", Liveness: writ.LivenessReady}}}
	r := writ.Resource{ResourceID: writ.ResourceID{Kind: writ.KindContainer, Name: "web"}, Node: "a", Driver: "containerd", Created: time.Now()}
	r.Standing = writ.Standing{State: "running", Address: "5f9:8d1c:b3a0:25ff:ff0f:1234:abcd:ef01", IPv4: "10.0.0.2", MoreAddresses: []string{"fd00:1::7"}, Published: []writ.Published{
		{Address: "192.0.2.10", Port: 8080, To: 80, Protocol: "tcp"}, {Address: "2001:db8::10", Port: 53, To: 5353, Protocol: "udp"},
	}}
	text := shown(listed(r), nil, where)
	if want := "it is running, at 5f9:8d1c:b3a0:25ff:ff0f:1234:abcd:ef01 10.0.0.2\n" +
		"  also at fd00:1::7, on another of its networks\n  published at 192.0.2.10:8080, for its port 80\n  published at [2001:db8::10]:53/udp, for its port 5353\n"; !strings.Contains(text, want) {
		t.Errorf("it shows\n%swant\n%s", text, want)
	}
	view := resourceTable([]api.ListedResource{listed(r)}, nil, where)
	all := "192.0.2.10:8080 [2001:db8::10]:53/udp 5f9:8d1c:b3a0:25ff:ff0f:1234:abcd:ef01 10.0.0.2 fd00:1::7"
	if table := view.Text(false); !strings.Contains(table, all) {
		t.Errorf("the table is\n%s", table)
	}
	if view.Rows[0][3] != "address" || view.Rows[1][3] != all {
		t.Errorf("the rows of CSV are %q", view.Rows)
	}
	var out strings.Builder
	screen := terminal.Terminal{Out: &out, Columns: 80, Format: terminal.Table}
	if err := screen.Print(view); err != nil {
		t.Fatal(err)
	}
	want := `KIND       NAME  STATE    ADDRESS                                    NODE  DRIFT
container  web   running  192.0.2.10:8080 [2001:db8::10]:53/udp      n1    -
                          5f9:8d1c:b3a0:25ff:ff0f:1234:abcd:ef01
                          10.0.0.2 fd00:1::7
`
	if out.String() != want {
		t.Errorf("in 80 columns it shows\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	screen.Format = terminal.JSON
	if err := screen.Print(view); err != nil || !strings.Contains(out.String(), `"published": [
        {
          "address": "192.0.2.10",
          "port": 8080,
          "to": 80,
          "protocol": "tcp"
        },`) {
		t.Errorf("the JSON is (%v)\n%s", err, out.String())
	}
}

func TestHealthOfContainerIsShown(t *testing.T) {
	node := writ.Node{ID: "a", Name: "n1", Liveness: writ.LivenessReady}
	where := locations{nodes: map[writ.NodeID]writ.Node{"a": node}}
	r := writ.Resource{ResourceID: writ.ResourceID{Kind: writ.KindContainer, Name: "web"}, Node: "a"}
	r.Standing = writ.Standing{State: "running", Address: "fd00::7", Health: "unhealthy"}
	if text := shown(listed(r), nil, where); !strings.Contains(text, "it is running, unhealthy, at fd00::7\n") {
		t.Errorf("it says:\n%s", text)
	}
	if table := resourceTable([]api.ListedResource{listed(r)}, nil, where).Text(false); !strings.Contains(table, "running, unhealthy") {
		t.Errorf("the table says:\n%s", table)
	}
	node.Liveness = writ.LivenessLost
	where.nodes["a"] = node
	if table := resourceTable([]api.ListedResource{listed(r)}, nil, where).Text(false); strings.Contains(table, "unhealthy") {
		t.Errorf("table on a lost node:\n%s", table)
	}
}

func TestExitOfContainerIsShown(t *testing.T) {
	nodes := map[writ.NodeID]writ.Node{"a": {ID: "a", Name: "n1", Liveness: writ.LivenessReady}}
	where := locations{nodes: nodes}
	r := writ.Resource{ResourceID: writ.ResourceID{Kind: writ.KindContainer, Name: "web"}, Node: "a"}
	for _, c := range []struct {
		exit       *writ.Exit
		line, cell string
	}{
		{&writ.Exit{}, "  its program last ended by itself with exit code 0\n", "0"},
		{&writ.Exit{Code: 3}, "  its program last ended by itself with exit code 3\n", "3"},
		{&writ.Exit{Code: 137, OutOfMemory: true}, "with exit code 137, killed by the kernel at its memory limit\n", "137 (out of memory)"},
		{nil, "", ""},
	} {
		r.Standing = writ.Standing{State: "stopped", Exit: c.exit}
		text := shown(listed(r), nil, where)
		if !strings.Contains(text, c.line) || c.exit == nil && strings.Contains(text, "ended") {
			t.Errorf("text of %v:\n%s", c.exit, text)
		}
		if cell := exitCell(r); cell != c.cell {
			t.Errorf("of %v the table has %q", c.exit, cell)
		}
	}
}
