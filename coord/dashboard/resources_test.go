package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/ledger"
)

var (
	kindTile     = regexp.MustCompile(`<a class="count[^"]*" href="(/resources[^"]*)" data-key="([a-z]+)"[^>]*><b>(\d+)</b>`)
	resourceLine = regexp.MustCompile(`<tr data-key="[^"]*" data-state="[^"]*">\s*<td class="st">`)
	ofDeployment = regexp.MustCompile(`<td class="n" data-label="resources"><a href="([^"]+)">(\d+)</a>`)
)

// listed counts the resources of a list on all of its pages.
func (w *fixture) listed(address string) (n int) {
	w.t.Helper()
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for address != "" {
		body := w.page(address)
		if len(body) > 100_000 {
			w.t.Errorf("%s has %d bytes", address, len(body))
		}
		n += len(resourceLine.FindAllString(body, -1))
		address = ""
		if link := next.FindStringSubmatch(body); link != nil {
			address = html.UnescapeString(link[1])
		}
	}
	return n
}

func TestNumbersOfResourcesAreThoseOfTheirLists(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	for name, reader := range map[string]page.Reader{"all": {All: true}, "shop": ofShop} {
		w.readAs(reader)
		pages := []string{"/resources", "/resources?deployment=web", "/resources?datacenter=" + string(ams), "/resources?kind=volume&project=" + string(shop), "/resources?deployment=none"}
		if reader.All {
			pages = append(pages, "/resources?node=ams1-n1", "/nodes/"+string(ams)+"/ams1-n1", "/nodes/"+string(gent)+"/gent2-n2")
		}
		for _, at := range pages {
			tiles := kindTile.FindAllStringSubmatch(w.page(at), -1)
			if len(tiles) != 6 {
				t.Errorf("%s %s has %d numbers", name, at, len(tiles))
			}
			for _, tile := range tiles {
				if strings.Contains(at, "kind="+tile[2]) {
					continue // links back to all kinds
				}
				if got := w.listed(html.UnescapeString(tile[1])); fmt.Sprint(got) != tile[3] {
					t.Errorf("%s %s: tile shows %s of %s, list has %d", name, at, tile[3], tile[2], got)
				}
			}
		}
		for _, at := range []string{"/deployments", "/deployments?project=" + string(shop), "/deployments?kind=volume"} {
			rows := ofDeployment.FindAllStringSubmatch(w.page(at), -1)
			if len(rows) == 0 {
				t.Errorf("%s %s is empty", name, at)
			}
			for _, row := range rows {
				if got := w.listed(html.UnescapeString(row[1])); fmt.Sprint(got) != row[2] {
					t.Errorf("%s %s: row shows %s, %s has %d", name, at, row[2], row[1], got)
				}
			}
		}
	}
}

func TestResourcesAndDeploymentsShowTheirState(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	body := w.page("/resources?deployment=web&project=" + string(shop))
	wants(t, body, "web-0", `<code>[2001:db8::10]:8080</code> <code>10.0.0.7</code> <code>10.1.0.7</code>`, "simulated", "/runs/"+string(running.ID), `href="/nodes/`+string(ams)+`/ams1-n2"`, "Resources of web", `<span class="sub">unhealthy</span>`)
	if strings.Contains(body, "shop-net") || strings.Contains(body, "canary") {
		t.Error("the filter shows other deployments")
	}
	wants(t, w.page("/resources?kind=container"), "the container is not there any more", `data-state="gone"`)
	body = w.page("/deployments?project=" + string(shop))
	wants(t, body, `>web</a>`, `>shop</a>`, `data-state="running"`, "/runs/"+string(running.ID), "web.tengo", `<td class="rv n" data-label="revision">4</td>`, `<span class="waits">call 4 (container.create web-1) is running on ams1-n3</span>`)
	w.because(running.ID, heldBy("sam", "ams1", ""))
	wants(t, w.page("/deployments"), "is on hold (writ release --dc ams1): sam has held the datacenter")
	list := regexp.MustCompile(`<a class="soft" href="(/\?[^"]+)">all runs</a>`).FindStringSubmatch(body)
	if list == nil {
		t.Fatal("a deployment does not lead to its runs")
	}
	runs := w.page(html.UnescapeString(list[1]))
	wants(t, runs, "web.tengo", "of the deployment web")
	if strings.Contains(runs, "hello.tengo") {
		t.Error("runs of others are listed")
	}
	for _, bad := range []string{"/resources?kind=x", "/deployments?kind=x"} {
		if response, _ := w.get(bad); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, response.Status)
		}
	}
}

func TestProjectReaderSeesOnlyItsResources(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	wants(t, w.page("/resources?project="+string(bank)), "canary-db", "canary-drift", "canary-deployment")
	wants(t, w.page("/deployments"), "canary-deployment")
	w.readAs(ofShop)
	for _, at := range []string{"/resources", "/resources?kind=herodb", "/resources?deployment=canary-deployment", "/resources?node=ams1-n1", "/resources?kind=volume&cursor=", "/deployments", "/deployments?datacenter=" + string(ams), "/deployments?node=ams1-n1"} {
		// Apart from the request itself.
		body := strings.ReplaceAll(strings.ReplaceAll(w.page(at), `value="canary-deployment"`, ""), "of canary-deployment", "")
		body = strings.ReplaceAll(body, "deployment=canary-deployment", "")
		for _, text := range []string{"canary", string(bank), "ledger-bank", `href="/nodes`, "gent2-n2"} {
			if strings.Contains(body, text) {
				t.Errorf("%s tells %q", at, text)
			}
		}
	}
	banks := "/" + string(ams) + "/" + string(bank) + "/"
	for _, at := range []string{"/resources?project=" + string(bank), "/deployments?project=" + string(bank), "/live/resources?project=" + string(bank),
		"/resources" + banks + "herodb/canary-db", "/live/resources" + banks + "herodb/canary-db", "/deployments" + banks + "canary-deployment", "/live/deployments" + banks + "canary-deployment", "/deployments" + banks + "web"} {
		if response, body := w.get(at); response.StatusCode != http.StatusNotFound || strings.Contains(strings.NewReplacer("resource herodb/canary-db", "", "deployment canary-deployment", "").Replace(body), "canary") {
			t.Errorf("%s: %s", at, response.Status)
		}
	}
	for _, live := range []string{"/live/resources", "/live/deployments"} {
		frames(t, w, live, "", func(_, data string) bool {
			if strings.Contains(data, "canary") {
				t.Errorf("%s tells %s", live, data)
			}
			return true
		})
	}
	w.readAs(page.Reader{})
	for _, at := range []string{"/resources", "/deployments", "/live/resources", "/live/deployments"} {
		if response, body := w.get(at); response.StatusCode < 400 || strings.Contains(body, "web-0") {
			t.Errorf("reader without rights, %s: %s", at, response.Status)
		}
	}
}

func TestNodePageShowsStateAndCommands(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	at := func(dc writ.DatacenterID, node string) string { return "/nodes/" + string(dc) + "/" + node }
	body := w.page(at(ams, "ams1-n3"))
	wants(t, body, "cordoned", "gets no work: it is cordoned", "1 running of 8 slots", "btrfs-progs 6.6", "simulated", "/dev/kvm is not there", "rack=a1", "v0.1.0",
		"writ node show ams1-n3 --dc ams1", "writ node uncordon ams1-n3 --dc ams1", "writ node drain ams1-n3 --wait --dc ams1", "writ node remove ams1-n3 --dc ams1")
	if strings.Contains(body, "node cordon") || strings.Contains(body, "node lost") {
		t.Error("a command is offered that the state of the node does not allow")
	}
	wants(t, w.page(at(gent, "gent2-n1")), "writ node lost gent2-n1 --dc gent2", `data-state="lost"`, "it sends no heartbeats")
	wants(t, w.page(at(gent, "gent2-n3")), "writ node approve gent2-n3 FINGERPRINT --dc gent2", "writ node reject gent2-n3 FINGERPRINT --dc gent2",
		"writ node remove gent2-n3 --fingerprint FINGERPRINT --dc gent2")
	wants(t, w.page(at(fra, "fra1-n1")), "its datacenter is away", `data-state="unknown"`)
	wants(t, w.page("/nodes"), `href="`+at(ams, "ams1-n3")+`"`)

	for role, want := range map[identity.Role][]string{
		identity.Viewer:   {"show"},
		identity.Deployer: {"show"},
		identity.Operator: {"show", "drain", "uncordon"},
		identity.Admin:    {"show", "drain", "uncordon", "remove"},
	} {
		w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool {
			return slices.Contains(identity.RoleActions[role], action)
		}})
		var got []string
		for _, m := range regexp.MustCompile(`data-copy="writ node ([a-z]+) ams1-n3`).FindAllStringSubmatch(w.page(at(ams, "ams1-n3")), -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is offered %v, want %v", role, got, want)
		}
	}
	for _, none := range []string{at(ams, "gent2-n1"), at(ams, "none"), at("x", "ams1-n1"), "/nodes/%00/%ff", at(ams, "%2e%2e")} {
		if response, _ := w.get(none); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", none, response.Status)
		}
	}
}

// A name that is unsafe in a shell is in no command.
//
// Promise: Readers and roles: A command on the dashboard contains no name that a shell would execute.
// How: Unsafe names are replaced by ids, or the command is omitted.
func TestCommandsContainNoUnsafeName(t *testing.T) {
	t.Parallel()
	w := open(t)
	const hostile = "n; rm -rf /"
	id := writ.NodeID("0192f6c2-0000-7000-8000-0000000000e1")
	for _, n := range []writ.NodeID{id, "$(reboot)"} {
		w.store(ams, writ.Event{Node: &writ.Node{
			ID: n, Name: hostile, Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, Scheduling: writ.SchedulingOpen, Findings: writ.Findings{Orphans: make([]writ.Orphan, 1)},
			Health: writ.Health{Stuck: []writ.Stuck{{JobKey: writ.JobKey{Run: "$(reboot)"}, Operation: "volume.create", Since: time.Now()}}}, LastBeat: time.Now(),
		}})
	}
	run := w.submit(1, "x.tengo", func(in *ledger.Incoming) { in.Received, in.Run = time.Now().Add(-time.Hour), "$(reboot)" })
	run.State = writ.RunRunning
	w.run(run)
	w.silence()
	wants(t, w.page("/nodes/"+string(ams)+"/"+string(id)), "writ node cordon "+string(id)+" --dc ams1")
	for _, at := range []string{"/nodes", "/nodes/" + string(ams) + "/" + string(id), "/nodes/" + string(ams) + "/$(reboot)", "/stuck"} {
		for _, line := range regexp.MustCompile(`(?:data-copy="|<code>)(writ [^"<]*)`).FindAllStringSubmatch(w.page(at), -1) {
			if strings.ContainsAny(html.UnescapeString(line[1]), ";$()`|&") {
				t.Errorf("%s offers %s", at, line[1])
			}
		}
	}
}

// An empty list shows the submit command only to a reader who may sign it.
func TestViewerGetsNoSubmitCommand(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, at := range []string{"/", "/deployments"} {
		wants(t, w.page(at), "writ submit FILE")
	}
	w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool { return action == identity.ActionRead }})
	for _, at := range []string{"/", "/deployments"} {
		if strings.Contains(w.page(at), "writ submit") {
			t.Errorf("%s offers a submission to a viewer", at)
		}
	}
}
