package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
)

// Pages of one resource and of one deployment in the scene of fill and resources.
const (
	pageOfWeb0 = "/resources/" + string(ams) + "/" + string(shop) + "/machine/web-0"
	pageOfWeb  = "/deployments/" + string(ams) + "/" + string(shop) + "/web"
)

// Promise: Readers and roles: The pages of a deployment and of a resource show state, problems with their commands,
// load of a day and events.
// How: The ledger has state and events, and the datacenter is asked for the load when a page is opened, never by a
// stream.
// Also: TestProjectReaderSeesOnlyItsResources, TestTroubleOfResourceHasItsCommand.
func TestPageOfResourceShowsStateLoadAndEvents(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	body := w.page(pageOfWeb0)
	wants(t, body, "<h1>machine/web-0</h1>", "unhealthy", "it is unhealthy", "writ logs machine/web-0 --project web-shop --dc ams1", `href="`+pageOfWeb+`"`,
		"[2001:db8::10]:8080", "10.0.0.7", `href="/nodes/`+string(ams)+`/ams1-n2"`, "changed last", `href="/runs/`+string(running.ID)+`"`, "writ resource show machine/web-0",
		`<td class="n" data-label="cpus">0.25</td>`, "300 MiB", `<td class="n" data-label="restarts">2</td>`,
		`aria-label="CPUs of the last day: at most 0.59"`, `aria-label="memory of the last day: at most 440 MiB"`, `class="area"`)
	if n := strings.Count(body, `<svg class="spark"`); n != 2 {
		t.Errorf("it has %d charts", n)
	}
	wants(t, w.page("/resources/"+string(ams)+"/"+string(shop)+"/container/cache"), "it is gone from its node", "it differs from its request: the container is not there any more", "No node has reported a load")

	w.readAs(ofShop)
	body = w.page(pageOfWeb0)
	wants(t, body, "machine/web-0", "0.25")
	for _, text := range []string{"ams1-n2", `href="/nodes`, "canary"} {
		if strings.Contains(body, text) {
			t.Errorf("a reader of one project sees %q", text)
		}
	}
	viewer := ofShop
	viewer.May = func(identity.Action, writ.ProjectID) bool { return false }
	w.readAs(viewer)
	if body := w.page(pageOfWeb0); strings.Contains(body, "writ logs") || !strings.Contains(body, "writ resource show") {
		t.Error("a viewer is offered the log, which needs a signed script")
	}
	for _, at := range []string{
		"/resources/" + string(ams) + "/" + string(shop) + "/machine/none", "/resources/" + string(gent) + "/" + string(shop) + "/machine/web-0",
		"/resources/" + string(ams) + "/" + string(shop) + "/container/web-0", "/deployments/" + string(ams) + "/" + string(shop) + "/none",
	} {
		if response, body := w.get(at); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "NOT_FOUND") {
			t.Errorf("%s: %s", at, response.Status)
		}
	}
}

func TestPageOfDeploymentShowsProblemsResourcesAndRuns(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	body := w.page(pageOfWeb)
	wants(t, body, "<h1>web</h1>", `data-state="running"`, "machine/web-0 is unhealthy", `<b>machine/web-0</b>`, "0.25", `href="`+pageOfWeb0+`"`, "call 4 (container.create web-1) is running",
		`href="/runs/`+string(running.ID)+`"`, "web.tengo", "All its runs", "All its resources", "writ status web --project web-shop --dc ams1", "writ logs web --follow", `<td class="rv n" data-label="revision">4</td>`)
	for _, text := range []string{"canary", "shop-net", "cache"} {
		if strings.Contains(body, text) {
			t.Errorf("the page shows %q of others", text)
		}
	}
	w.because(running.ID, heldBy("sam", "ams1", ""))
	wants(t, w.page(pageOfWeb), "sam has held the datacenter", "writ release --dc ams1")
}

func TestResourcesOfUnheardNodeAreOneProblem(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.setNode("n", func(n *writ.Node) { n.Liveness, n.LastBeat = writ.LivenessSilent, time.Now().Add(-time.Minute) })
	var all []writ.Event
	for i := range 12 {
		all = append(all, writ.Event{Resource: &writ.Resource{
			ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: fmt.Sprint("data-", i)}, Deployment: "data", Node: "n", Standing: writ.Standing{State: "ready"},
		}})
	}
	w.store(ams, all...)
	wants(t, w.page("/deployments/"+string(ams)+"/"+string(shop)+"/data"), "12 resources are on a node that is silent", "writ node list")
}

// A stream shows changes of the ledger, and asks no datacenter.
func TestStreamOfResourceAsksNoDatacenter(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	for _, at := range []string{pageOfWeb0, pageOfWeb} {
		w.page(at)
	}
	w.mu.Lock()
	asked := len(w.askedLoads)
	w.mu.Unlock()
	if asked != 2 { // one of each page: volumes have no load
		t.Errorf("the pages asked for the load of %d resources", asked)
	}
	for _, at := range []string{pageOfWeb0, pageOfWeb} {
		seen := false
		frames(t, w, "/live"+at, "", func(_, data string) bool {
			seen = seen || strings.Contains(data, "unhealthy")
			return seen
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.askedLoads) != asked {
		t.Errorf("streams asked for %d loads", len(w.askedLoads)-asked)
	}
}

// An old load is not shown as the present one.
func TestOldLoadIsNotPresent(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	old := dayOfLoad(time.Now())
	old.At = time.Now().Add(-10 * time.Minute)
	w.mu.Lock()
	w.loads = map[string]*api.Load{"web-0": old}
	w.mu.Unlock()
	body := w.page(pageOfWeb0)
	wants(t, body, `data-label="cpus"><span class="none">–</span>`, "at most 0.59")
}

func TestFirstPageCountsResourcesWithProblems(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	w.resources(running)
	wants(t, w.page("/"), `<a href="/resources?troubled=1">3 resources with a problem</a>`)
	body := w.page("/resources?troubled=1")
	wants(t, body, "Resources with a problem", "web-0", "cache", "canary-db")
	if strings.Contains(body, "data-00") {
		t.Error("a resource without a problem is listed")
	}
	w.readAs(ofShop)
	wants(t, w.page("/"), "2 resources with a problem")
	if body := w.page("/resources?troubled=1"); strings.Contains(body, "canary") {
		t.Error("a reader of one project sees a resource of another")
	}
	w.readAs(page.Reader{All: true})
	wants(t, w.page("/"), `<span class="entries" role="group" aria-label="Services">`)
}
