package dashboard_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
)

// starting adds two boot servers with machines. One server has been silent for a while.
func (w *fixture) starting() {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	machines := []api.BootMachine{
		{Mac: "52:54:00:77:00:50", Server: "aaaaaaaaaaaaa", Step: "sent", Advice: "image sent 40 s ago, no call since: see its console, and check DHCP and the route to this server", Since: ago(40 * time.Second), Address: "10.77.0.50", Serial: "SN-0050", Assigned: "writ.name=n50 writ.address=10.77.0.50/24", Assignment: "given", Starts: 2},
		{Mac: "52:54:00:77:00:51", Server: "aaaaaaaaaaaaa", Step: "config", Failed: true, Advice: "config: the token with which the node joins is missing", Since: ago(3 * time.Minute)},
		{Mac: "52:54:00:77:00:52", Server: "aaaaaaaaaaaaa", Step: "waits", Node: "node-525400770052", Advice: "waits for an admin: its console shows the command that approves it", Since: ago(5 * time.Minute)},
		{Mac: "52:54:00:77:00:53", Server: "aaaaaaaaaaaaa", Step: "joined", Node: "ams1-n1", Advice: "joined 1 h ago; `writ node list` says what became of it", Since: ago(time.Hour), Assignment: "used", Assigned: "writ.name=ams1-n1"},
		{Mac: "52:54:00:77:00:54", Server: "bbbbbbbbbbbbb", Step: "joined", Node: "ams1-n9", Advice: "joined 2 h ago", Since: ago(2 * time.Hour)},
		{Mac: "52:54:00:77:00:55", Server: "bbbbbbbbbbbbb", Step: "joined", Node: "no-such-node", Advice: "joined 2 h ago", Since: ago(2 * time.Hour)},
		{Mac: "serial=SN-0060", Server: "aaaaaaaaaaaaa", Advice: "has not asked since the boot server was started: check that it is on, starts from the network, and is named rightly", Assigned: "writ.name=n60", Assignment: "waits", Since: ago(3 * time.Hour)},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boots = []api.DatacenterBoots{
		{Datacenter: ams, Name: "ams1", Total: 1007, Failed: 1, Steps: map[string]int{"sent": 1, "config": 1, "waits": 1, "joined": 2, "other": 1}, Machines: machines, Servers: []api.BootServer{
			{Token: "aaaaaaaaaaaaa", Name: "site-1", Heard: ago(time.Second), Image: strings.Repeat("0a", 32), Machines: 5, Trouble: "line 1: there is no setting writ.nmae"},
			{Token: "bbbbbbbbbbbbb", Name: "site-2", Heard: ago(20 * time.Minute), Image: strings.Repeat("0b", 32), Machines: 1},
		}},
		{Datacenter: fra, Name: "fra1", Error: writ.Errorf(writ.CodeDatacenterAway, "the datacenter fra1 is not connected")},
	}
}

// The page has a row for each machine that boot servers report, and shows the age of outdated reports. A joined machine
// links to the node with its name, if that node exists.
func TestStartsPageShowsReportsOfBootServers(t *testing.T) {
	t.Parallel()
	none, w := open(t), open(t)
	w.store(ams, writ.Event{Node: &writ.Node{ID: "ams1-n9", Datacenter: ams, Name: "ams1-n9", Admission: writ.AdmissionApproved, HostFacts: writ.HostFacts{Host: &writ.Host{NICs: []writ.HostNIC{{Name: "eth0", MAC: "52:54:00:77:00:99"}}}}}})
	if strings.Contains(none.page("/"), "machines start") {
		t.Error("without a boot server the first page counts its machines")
	}
	wants(t, none.page("/boot"), "writ boot serve --report")
	w.nodes(time.Now())
	w.starting()
	row := func(body, mac string) string {
		t.Helper()
		found := regexp.MustCompile(`(?s)<tr data-key="[^"]*/` + mac + `".*?</tr>`).FindString(body)
		if found == "" {
			t.Errorf("%s has no row", mac)
		}
		return found
	}
	body := w.page("/boot")
	wants(t, row(body, "52:54:00:77:00:50"), "s-starting", "image sent 40 s ago, no call since", "serial SN-0050, at 10.77.0.50, 2 starts", "writ.address=10.77.0.50/24", ">sent<", "given")
	wants(t, row(body, "52:54:00:77:00:51"), "s-failed", `class="why"`, "the token with which the node joins is missing")
	wants(t, row(body, "52:54:00:77:00:52"), "s-pending", "node-525400770052")
	wants(t, row(body, "52:54:00:77:00:53"), "s-joined", fmt.Sprintf(`href="/nodes/%s/ams1-n1"`, ams))
	wants(t, row(body, "serial=SN-0060"), "s-unknown", "has not asked")
	wants(t, row(body, "52:54:00:77:00:54"), fmt.Sprintf(`href="/nodes/%s/ams1-n9"`, ams), "the node reports no network card with this address")
	if other := row(body, "52:54:00:77:00:55"); strings.Contains(other, "href=") {
		t.Errorf("machine with the name of an unknown node has a link:\n%s", other)
	}
	servers := regexp.MustCompile(`(?s)<ul id="servers".*?</ul>`).FindString(body)
	wants(t, servers, "site-1", "s-ready", "writ.nmae", "site-2", "s-silent", "its machines are shown as of that time", "the datacenter fra1 is not connected", "image 0a0a0a0a0a0a…")
	wants(t, body, "1000 more machines are not shown", "writ boot list --dc NAME")
	if only := w.page("/boot?datacenter=" + string(gent)); strings.Contains(only, "52:54") || strings.Contains(only, "site-1") {
		t.Error("the page of another datacenter shows the machines")
	}
	wants(t, w.page("/"), "3 machines start, 1 cannot continue")
}

// A machine links to its node with any number of nodes: the ledger is read only for the nodes on the page.
func TestMachineLinksToItsNode(t *testing.T) {
	t.Parallel()
	w := open(t)
	many := make([]writ.Event, ledger.MaxLimit+1)
	for n := range many {
		name := fmt.Sprintf("a-%03d", n)
		many[n].Node = &writ.Node{ID: writ.NodeID(name), Datacenter: ams, Name: name, Admission: writ.AdmissionApproved}
	}
	w.store(ams, many...)
	w.nodes(time.Now())
	w.starting()
	wants(t, w.page("/boot"), fmt.Sprintf(`href="/nodes/%s/ams1-n1"`, ams))
}

// Later reports of boot servers are on the page a moment later, and unchanged ones are not sent again.
func TestThePageOfStartsIsLive(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.nodes(time.Now())
	w.starting()
	seen := 0
	frames(t, w, "/live/boot", "", func(_, data string) bool {
		if seen++; seen == 1 {
			wants(t, data, "52:54:00:77:00:50", "52:54:00:77:00:51")
			w.mu.Lock()
			changed := w.boots[0]
			changed.Machines = append([]api.BootMachine{}, changed.Machines...)
			changed.Machines[0].Step, changed.Machines[0].Advice = "network", "has an address for 1 s"
			w.boots = append([]api.DatacenterBoots{changed}, w.boots[1:]...)
			w.mu.Unlock()
			return false
		}
		if !strings.Contains(data, "has an address for 1 s") {
			return false
		}
		if strings.Contains(data, "52:54:00:77:00:51") || strings.Contains(data, "site-1") {
			t.Errorf("an unchanged row was sent again:\n%s", data)
		}
		return true
	})
}
