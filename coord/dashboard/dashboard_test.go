package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryAnswerRestrictsBrowsers(t *testing.T) {
	t.Parallel()
	w := open(t)
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	for _, path := range []string{"/", "/secrets", "/usage", "/queues", "/failures", "/stuck", "/resources", "/deployments", "/nodes", "/nodes/x/y", "/boot", "/datacenters", "/runs/none", "/static/dashboard.js", "/static/none"} {
		response, body := w.get(path)
		for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if inline := regexp.MustCompile(`<style|\sstyle=|<script(?: defer)?>|\son[a-z]+=|javascript:`).FindString(body); inline != "" && !strings.HasPrefix(path, "/static/") {
			t.Errorf("%s has %q, which the policy forbids", path, inline)
		}
	}
}

func TestThePagesAreReadOnly(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		request, _ := http.NewRequest(method, w.url+"/", nil)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, response.Status)
		}
	}
	if body := w.page("/"); regexp.MustCompile(`method="post"|hx-(post|put|patch|delete)`).MatchString(body) {
		t.Error("a page can send something that changes something")
	}
}

// hostileNames try to become an element, an attribute or an address.
var hostileNames = []string{
	`<img src=x onerror=alert(1)>"'{{.}}` + "\u202e</script>", `"><script>alert(1)</script>`, `javascript:alert(1)`, `//attacker.example`, `" onmouseover="alert(1)`, `' autofocus onfocus='alert(1)`,
}

// Promise: Readers and roles: Names chosen by other parties stay text on every dashboard page and never become an
// element, an attribute or an address.
// How: Pages are made of functions that escape texts and values, and take addresses of this site only.
// Also: TestNoTextBecomesMarkup, TestAddressesLeadToNoOtherSite.
func TestNamesFromStrangersStayText(t *testing.T) {
	t.Parallel()
	for _, name := range hostileNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			paths, signed := allNamed(w, name)
			for _, path := range paths {
				if _, body := w.get(path); strings.Contains(body, "\u202e") && (path == "/boot" || path == signed) {
					t.Errorf("%s reads other than it is", path)
				} else if wrong := foreign(body); wrong != "" {
					t.Errorf("%s: a name became %s", path, wrong)
				}
			}
		})
	}
}

// foreign returns an element, attribute or address in a page that is not from the dashboard, or "".
func foreign(page string) string {
	scripts := 0
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		if token.Data == "script" {
			scripts++
		}
		for _, a := range token.Attr {
			here := strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//")
			leads := slices.Contains([]string{"href", "src", "action", "hx-get"}, a.Key)
			if leads && !here || strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on") || a.Key == "autofocus" || a.Key == "style" || token.Data == "img" {
				return token.String()
			}
		}
	}
	if scripts != 4 {
		return fmt.Sprintf("one of %d scripts", scripts)
	}
	return ""
}

// allNamed adds all kinds of objects with a hostile name, and returns the addresses of the pages. One page shows the
// signed text.
func allNamed(w *fixture, hostile string) (paths []string, ofSigned string) {
	run := w.submit(1, hostile, func(in *ledger.Incoming) { in.Signer, in.ProjectName, in.Deployment = hostile, hostile, hostile })
	run.State = writ.RunFailed
	run.Failure = &writ.Failure{Error: writ.Error{Code: writ.Code(hostile), Message: hostile, Hint: hostile}, Position: hostile, Trace: []string{hostile}, Seq: 1}
	w.run(run, writ.Call{
		Operation: hostile, Name: hostile, Position: hostile, State: writ.CallState(hostile), NodeName: hostile, Driver: hostile, Change: writ.Change(hostile),
		Error: &writ.Error{Code: writ.CodeNodeLost, Message: hostile, Hint: hostile}, Reason: hostile, Attempt: 1,
	})
	w.store(ams, writ.Event{Node: &writ.Node{
		ID: "n", Name: hostile, Health: writ.Health{Stuck: []writ.Stuck{{Operation: hostile, Name: hostile}}, Fault: hostile, Drivers: []writ.NodeDriver{{Module: hostile, Name: hostile, Detail: hostile}}, Version: hostile}, Findings: writ.Findings{Orphans: []writ.Orphan{{Kind: hostile, Name: hostile, Module: hostile}}}, Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, Scheduling: writ.Scheduling(hostile),
		Decided: []writ.Decision{{Decision: hostile, Signer: hostile, Reason: hostile}},
		Labels:  map[string]string{hostile: hostile},
	}})
	w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: hostile, Queues: []writ.QueueDepth{{Node: "n", NodeName: hostile, Running: 1}}})
	w.holds = []api.DatacenterHolds{{Datacenter: ams, Name: hostile, Holds: []api.Hold{{Project: shop, ProjectName: hostile, Deployment: hostile, Operation: hostile, Held: true,
		Decided: []writ.Decision{{Decision: hostile, Signer: hostile, Reason: hostile}}}}}}
	w.boots = []api.DatacenterBoots{{Datacenter: ams, Name: hostile, Total: 1, Servers: []api.BootServer{{Token: hostile, Name: hostile, Image: hostile, Trouble: hostile}}, Machines: []api.BootMachine{{
		Mac: hostile, Node: hostile, Step: hostile, Advice: hostile, Address: hostile, Serial: hostile, Asset: hostile, UUID: hostile, Assigned: hostile, Assignment: hostile, Server: hostile,
	}}}, {Datacenter: gent, Name: hostile, Error: writ.Errorf(writ.CodeDatacenterAway, "%s", hostile)}}
	w.values = api.RunValues{Run: api.Run{Output: map[string]any{hostile: hostile}}, Calls: []api.CallValues{{
		Call: writ.Call{Seq: 1, Operation: hostile, Name: hostile, State: writ.CallState(hostile)}, Args: map[string]any{hostile: hostile}, Values: map[string]any{"v": []any{hostile}}}}}
	w.lines = []writ.LogLine{{Ordinal: 1, Text: hostile, Time: time.Now()}}
	w.kept = []api.DatacenterSecrets{{Datacenter: ams, Name: hostile, Secrets: []writ.Secret{{Project: shop, Name: hostile, SetBy: hostile}}, Error: writ.Errorf(writ.CodeExecError, "%s", hostile)}}
	w.store(ams, writ.Event{Usage: &writ.Usage{ResourceID: writ.ResourceID{Project: shop, Kind: writ.ResourceKind(hostile), Name: hostile}, UID: "u", Hour: usedMonth}})
	signed := w.submit(2, "hostile.tengo", func(in *ledger.Incoming) {
		w.signs(in, "// "+hostile+"\n", map[string]any{"p": hostile}, identity.File{Name: "m.tengo", Text: []byte(hostile)})
	})
	signed.State, signed.Ended, signed.Summary = writ.RunSucceeded, time.Now(), []byte(`{"out": "<img src=x onerror=alert(1)>\"'{{"}`)
	w.run(signed)
	w.store(ams, writ.Event{Resource: &writ.Resource{
		ResourceID: writ.ResourceID{Project: shop, Kind: writ.ResourceKind(hostile), Name: hostile}, Deployment: hostile, Driver: hostile,
		Standing: writ.Standing{State: hostile, Address: hostile},
		Drift:    []string{hostile}, Node: writ.NodeID(hostile), Run: writ.RunID(hostile),
	}})
	w.log = api.NodeLog{Lines: []api.NodeLine{{Source: hostile, Boot: hostile, Level: hostile, Text: hostile}}, Away: hostile, Boot: hostile}
	ofSigned = "/runs/" + string(signed.ID)
	res := "/" + string(ams) + "/" + string(shop) + "/"
	w.loads = map[string]*api.Load{hostile: {At: time.Now(), Running: true, Samples: []api.LoadSample{{At: time.Now()}}}}
	return []string{"/resources" + res + url.PathEscape(hostile) + "/" + url.PathEscape(hostile), "/deployments" + res + url.PathEscape(hostile), "/boot", "/secrets", "/usage?month=all", "/usage?month=all&project=" + string(shop), "/usage?month=" + url.QueryEscape(hostile), "/resources", "/resources?deployment=" + url.QueryEscape(hostile), "/deployments", "/nodes/" + string(ams) + "/n", "/nodes/" + string(ams) + "/n/log", "/queues", "/queues?datacenter=" + url.QueryEscape(hostile), "/failures", "/?failure=" + url.QueryEscape(hostile) + "&operation=" + url.QueryEscape(hostile), "/stuck", "/stuck?signer=" + url.QueryEscape(hostile), ofSigned, "/runs/" + string(run.ID) + "/values", "/runs/" + string(run.ID) + "/log", "/runs/" + string(run.ID) + "/timeline", "/", "/?signer=" + url.QueryEscape(hostile), "/?text=" + url.QueryEscape(hostile), "/runs/" + string(run.ID), "/nodes", "/datacenters", "/runs/" + url.PathEscape(hostile), "/?state=" + url.QueryEscape(hostile)}, ofSigned
}

func TestOverviewShowsRunsNewestFirst(t *testing.T) {
	t.Parallel()
	w := open(t)
	start := time.Now().Add(-time.Hour)
	for n := range 120 {
		w.submit(n, fmt.Sprintf("s%d.tengo", n), func(in *ledger.Incoming) { in.Received = start.Add(time.Duration(n) * time.Second) })
	}
	var seen []string
	scripts := regexp.MustCompile(`data-open>(s\d+\.tengo)<`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for path, pages := "/", 0; path != ""; pages++ {
		body := w.page(path)
		found := scripts.FindAllStringSubmatch(body, -1)
		if len(found) > 50 || pages > 3 {
			t.Fatalf("page %d has %d rows", pages, len(found))
		}
		for _, f := range found {
			seen = append(seen, f[1])
		}
		path = ""
		if link := next.FindStringSubmatch(body); link != nil {
			path = strings.ReplaceAll(link[1], "&amp;", "&")
		}
	}
	var want []string
	for n := range 120 {
		want = append(want, fmt.Sprintf("s%d.tengo", 119-n))
	}
	if !slices.Equal(seen, want) {
		t.Errorf("walked through %d runs: %v", len(seen), seen)
	}
}

func TestOverviewFilters(t *testing.T) {
	t.Parallel()
	w := open(t)
	done := w.submit(1, "done.tengo", nil)
	done.State, done.Ended = writ.RunSucceeded, time.Now()
	w.run(done)
	w.submit(2, "bobs.tengo", func(in *ledger.Incoming) { in.Signer = "bob" })
	w.submit(3, "banks.tengo", func(in *ledger.Incoming) { in.Project, in.ProjectName, in.Datacenter = bank, "ledger-bank", fra })
	w.submit(4, "reader.tengo", func(in *ledger.Incoming) { in.LogsOnly = true })
	for query, want := range map[string][]string{
		"":                           {"done", "bobs", "banks"},
		"?state=succeeded":           {"done"},
		"?state=waiting":             {"bobs", "banks"},
		"?signer=bob":                {"bobs"},
		"?project=" + string(bank):   {"banks"},
		"?datacenter=" + string(fra): {"banks"},
		"?signer=bob&state=failed":   nil,
		"?logs=1":                    {"done", "bobs", "banks", "reader"},
		"?logs=1&state=waiting":      {"bobs", "banks", "reader"},
		"?script=reader.tengo":       {"reader"},
	} {
		body := w.page("/" + query)
		for _, name := range []string{"done", "bobs", "banks", "reader"} {
			if got := strings.Contains(body, name+".tengo"); got != slices.Contains(want, name) {
				t.Errorf("%q shows %s: %v", query, name, got)
			}
		}
	}
	for query, want := range map[string]string{"": "2", "?logs=1": "3"} {
		if body := w.page("/" + query); !strings.Contains(body, `data-key="waiting"><b>`+want+`</b>`) || strings.Contains(body, `href="/?logs=1">Show them`) != (query == "") {
			t.Errorf("%q: it does not count %s waiting runs, or shows the wrong link:\n%s", query, want, body)
		}
	}
	if response, body := w.get("/?state=busy"); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, string(writ.CodeBadRequest)) || !testenv.Mentions(body, "busy") {
		t.Errorf("an unknown state: %s", response.Status)
	}
	if response, _ := w.get("/?signer=" + string(done.ID)); response.Header.Get("Location") != "/runs/"+string(done.ID) {
		t.Errorf("the id of a run leads to %q", response.Header.Get("Location"))
	}
}

func TestSearchAcceptsSignerScriptAndRun(t *testing.T) {
	t.Parallel()
	w := open(t)
	own := w.submit(1, "own.tengo", nil)
	other := w.submit(2, "canary.tengo", func(in *ledger.Incoming) { in.Project, in.ProjectName = bank, "ledger-bank" })
	w.submit(3, "by-name.tengo", func(in *ledger.Incoming) { in.Signer = string(own.ID[:6]) })
	leads := func(text string) string {
		response, _ := w.get("/?signer=" + url.QueryEscape(text) + "&state=waiting")
		return response.Header.Get("Location")
	}
	for text, want := range map[string]string{
		string(own.ID): "/runs/" + string(own.ID), string(own.ID[:9]): "/runs/" + string(own.ID), string(other.ID[:5]): "/runs/" + string(other.ID),
		string(own.ID[:6]): "", // a person has this name
		"own.tengo":        "/?script=own.tengo&state=waiting", "alice": "", "": "", " ": "",
		"zzzzzzz": "/?state=waiting&text=zzzzzzz", "replicas=3 & more": "/?state=waiting&text=replicas%3D3+%26+more",
	} {
		if got := leads(text); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
	if body := w.page("/?script=own.tengo"); !strings.Contains(body, "/runs/"+string(own.ID)) || strings.Contains(body, "canary.tengo") {
		t.Error("the list of a script is not its runs")
	}
	w.submit(4, "found.tengo", func(in *ledger.Incoming) { in.Params = map[string]any{"image": "web-2.1"} })
	body := w.page("/?text=WEB-2")
	if !strings.Contains(body, "found.tengo") || strings.Contains(body, "own.tengo") || !strings.Contains(body, "with “WEB-2”") || !strings.Contains(body, `value="WEB-2"`) {
		t.Errorf("the list of a text is\n%s", body)
	}
	if found := numberOnTile.FindStringSubmatch(body); found == nil || found[1] != "waiting" || found[3] != "1" {
		t.Errorf("runs with the text are counted as %q", found)
	}
	if response, _ := w.get("/?text=" + strings.Repeat("é", 201)); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a long text: %s", response.Status)
	}
	w.readAs(ofShop)
	for _, text := range []string{string(other.ID), string(other.ID[:5]), string(other.ID[:25])} {
		if got := leads(text); got != "/?state=waiting&text="+text || strings.Contains(w.page(got), "canary.tengo") {
			t.Errorf("%q leads a reader of another project to %q", text, got)
		}
	}
}

func TestRunPageSaysWhyWhereAndHow(t *testing.T) {
	t.Parallel()
	w := open(t)
	run := failedRun(w, 1, time.Now())
	body := w.page("/runs/" + string(run.ID))
	wants(t, body, "NO_CAPACITY", "no open node has 64 CPUs", "shop.tengo:31:8", "call 6", "simulated", "writ run logs "+string(run.ID), "writ run resume "+string(run.ID), "sent 2×", run.Payload.String(),
		"resume by alice at ", ": there is a new node")
	if strings.Index(body, "no open node has 64 CPUs") > strings.Index(body, "<h1>") {
		t.Error("the failure is not above the heading")
	}
	if strings.Contains(body, "run cancel") {
		t.Error("a run that ended can be cancelled")
	}
	bars := regexp.MustCompile(`<svg class="line" viewBox="0 0 (\d+) 10"`).FindAllStringSubmatch(body, -1)
	if len(bars) != 6 || bars[0][1] != bars[5][1] {
		t.Errorf("lines of time are %v", bars)
	}

	open := w.submit(2, "open.tengo", nil)
	open.State = writ.RunRunning
	w.run(open, writ.Call{Operation: "volume.create", State: writ.CallPlanned, Attempt: 1, Planned: open.Accepted})
	wants(t, w.page("/runs/"+string(open.ID)), "writ run cancel "+string(open.ID), "data-open>")

	w.readAs(page.Reader{All: true, May: func(action identity.Action, _ writ.ProjectID) bool { return action != identity.ActionControlRuns }})
	for _, id := range []writ.RunID{run.ID, open.ID} {
		if body := w.page("/runs/" + string(id)); strings.Contains(body, "run resume") || strings.Contains(body, "run cancel") {
			t.Error("a command is shown to a reader whose role forbids it")
		}
	}
	w.readAs(page.Reader{All: true})

	waiting := w.submit(3, "later.tengo", func(in *ledger.Incoming) { in.Datacenter = fra })
	wants(t, w.page("/runs/"+string(waiting.ID)), "waits for the datacenter fra1 to connect")

	if response, body := w.get("/runs/" + strings.Repeat("a", 26)); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "NOT_FOUND") {
		t.Errorf("an unknown run: %s", response.Status)
	}
}

func TestNodesOfADatacenterThatIsAwayAreUnknown(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	body := w.page("/nodes")
	wants(t, body, "ams1-n1", "simulated", "unknown", "its datacenter is away", "disk is full", "2 orphans: <code>writ node show gent2-n2</code>")
	if body := w.page("/nodes?datacenter=" + string(ams)); strings.Contains(body, "fra1-n1") {
		t.Error("the filter shows other datacenters")
	}
	wants(t, w.page("/datacenters"), "eu-central", "gets no runs: its supervisor is not connected", "SHA256:")
}

// frames reads the frames of a stream until one is wanted.
func frames(t *testing.T, w *fixture, path, lastID string, wanted func(id, data string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	w.ok(err)
	request.Header.Set("Last-Event-ID", lastID)
	response, err := http.DefaultClient.Do(request)
	w.ok(err)
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("GET %s: %s, %s", path, response.Status, kind)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	id := ""
	for lines.Scan() {
		if lines.Text() == "event: beat" { // heartbeat
			lines.Scan()
			continue
		}
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && wanted(id, data) {
			return
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
}

// frameContent returns the content of a frame for one part of the page.
func frameContent(t *testing.T, data, part string) (keys []string, pieces map[string]string, any bool) {
	t.Helper()
	var f struct {
		Parts []struct {
			ID     string
			Keys   []string
			Pieces map[string]string
		}
	}
	if err := json.Unmarshal([]byte(data), &f); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Parts {
		if p.ID == part {
			return p.Keys, p.Pieces, true
		}
	}
	return nil, nil, false
}

var liveAddress = regexp.MustCompile(`data-live="([^"]+)"`)

func TestStreamSendsOnlyChanges(t *testing.T) {
	t.Parallel()
	w := open(t)
	first, second := w.submit(1, "first.tengo", nil), w.submit(2, "second.tengo", nil)
	live := strings.ReplaceAll(liveAddress.FindStringSubmatch(w.page("/"))[1], "&amp;", "&")
	var third writ.Run
	step := 0
	frames(t, w, live, "", func(id, data string) bool {
		keys, pieces, any := frameContent(t, data, "runs")
		switch step {
		case 0: // unchanged contents of the page are not sent again, depths are
			if _, _, depths := frameContent(t, data, "depth"); any || !depths {
				t.Errorf("first frame = %s", data)
			}
			w.run(first)
			step++
		case 1: // one run changed its state
			if !any {
				return false
			}
			if len(pieces) != 1 || len(keys) != 0 || !strings.Contains(pieces[string(first.ID)], "accepted") {
				t.Errorf("frame of a changed run = %s", data)
			}
			third = w.submit(3, "third.tengo", nil)
			w.wake()
			step++
		case 2: // one run is new
			if !any {
				return false
			}
			if want := []string{string(third.ID), string(second.ID), string(first.ID)}; len(pieces) != 1 || !slices.Equal(keys, want) {
				t.Errorf("frame of a new run = %s", data)
			}
			return true
		}
		return false
	})
}

func TestStreamResumesAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.submit(1, "first.tengo", nil)
	_, newest, err := w.ledger.EventRange(t.Context())
	w.ok(err)
	last := fmt.Sprint(newest)
	w.submit(2, "second.tengo", nil) // while no client was connected
	frames(t, w, "/live/", last, func(id, data string) bool {
		keys, _, any := frameContent(t, data, "runs")
		if !any || len(keys) != 2 || id == last {
			t.Errorf("after a gap the first frame is %s %s", id, data)
		}
		last = id
		return true
	})
	frames(t, w, "/live/", last, func(_, data string) bool {
		if _, _, any := frameContent(t, data, "runs"); any {
			t.Errorf("without a gap the first frame is %s", data)
		}
		return true
	})
}

func TestDepthsFollowTheDatacenters(t *testing.T) {
	t.Parallel()
	w := open(t)
	frames(t, w, "/live/", "", func(_, data string) bool {
		_, pieces, any := frameContent(t, data, "queues")
		if any && strings.Contains(pieces[string(ams)+"/n1"], "<td class=\"n\">42</td>") {
			return true
		}
		w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{{Node: "n1", NodeName: "one", Queued: 42}}})
		return false
	})
}

// A quiet stream sends a heartbeat to every reader, before the page reports that updates are missing.
func TestQuietStreamSendsHeartbeats(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, reader := range []page.Reader{{All: true}, ofShop} {
		w.readAs(reader)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/live/datacenters", nil)
		w.ok(err)
		response, err := http.DefaultClient.Do(request)
		w.ok(err)
		defer response.Body.Close()
		beats := 0
		for lines := bufio.NewScanner(response.Body); beats < 2 && lines.Scan(); {
			if lines.Text() == "event: beat" {
				beats++
			}
		}
		if beats < 2 {
			t.Errorf("%+v hears %d beats in 8 s", reader, beats)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	w := open(t)
	for range 4 {
		response, err := http.Get(w.url + "/live/nodes")
		w.ok(err)
		defer response.Body.Close()
	}
	if response, body := w.get("/live/nodes"); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "TOO_MANY_WATCHERS") {
		t.Errorf("one stream too many: %s", response.Status)
	}
}

// The notice for operators is on every page, as text.
func TestNoticeIsOnEveryPage(t *testing.T) {
	w := open(t)
	for _, path := range []string{"/", "/nodes", "/datacenters", "/runs/none"} {
		w.notice.Store("")
		if _, body := w.get(path); strings.Contains(body, "class=\"notice\"") {
			t.Errorf("%s has an empty notice", path)
		}
		w.notice.Store("renew <it>")
		if _, body := w.get(path); !strings.Contains(body, `<p class="notice" role="status">renew &lt;it&gt;</p>`) {
			t.Errorf("%s has no notice", path)
		}
	}
}

// ofShop reads one of the two projects.
var ofShop = page.Reader{Projects: []writ.ProjectID{shop}}

var countOf = regexp.MustCompile(`data-key="([a-z]+)"[^>]*><b>(\d+)</b>`)

// countsOn returns the numbers of runs on a page, without zeros.
func countsOn(body string) map[string]string {
	counts := map[string]string{}
	for _, c := range countOf.FindAllStringSubmatch(body, -1) {
		if c[2] != "0" {
			counts[c[1]] = c[2]
		}
	}
	return counts
}

func TestProjectReaderSeesNoOtherProject(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	w.remember()
	w.keepsSecrets()
	w.used()
	own := w.submit(100, "own.tengo", nil)
	other := w.submit(101, "canary.tengo", func(in *ledger.Incoming) {
		in.Project, in.ProjectName, in.Signer, in.Datacenter = bank, "ledger-bank", "eve", gent
		w.signs(in, "// canary-text\n", map[string]any{"canary": "canary"})
	})
	w.values = api.RunValues{Run: api.Run{Output: map[string]any{"canary": "canary"}}}
	w.lines = []writ.LogLine{{Ordinal: 1, Text: "canary"}}
	other.State, other.Ended, other.Failure = writ.RunFailed, time.Now(), &writ.Failure{Error: *writ.Errorf(writ.CodeExecError, "canary")}
	w.run(other)
	old := func(in *ledger.Incoming) { in.Received = time.Now().Add(-time.Hour) }
	w.submit(102, "own-stuck.tengo", old)
	w.submit(103, "canary-stuck.tengo", func(in *ledger.Incoming) {
		old(in)
		in.Project, in.ProjectName, in.Signer = bank, "ledger-bank", "eve"
	})
	w.silence()
	list, err := w.ledger.Runs(t.Context(), ledger.RunFilter{Projects: ofShop.Projects}, ledger.Page{Limit: ledger.MaxLimit})
	w.ok(err)
	want := map[string]string{}
	states := map[ledger.State]int{}
	for _, run := range list.Items {
		states[run.State]++
		want[string(run.State)] = fmt.Sprint(states[run.State])
	}
	want["stuck"] = "1"
	wants(t, w.page("/stuck"), "own-stuck.tengo", "canary-stuck.tengo", "2 open runs")
	all := w.page("/")
	wants(t, all, "canary.tengo", "ledger-bank", "ams1-n2", `id="chart"`, `href="/nodes"`, `href="/metrics"`)

	w.readAs(ofShop)
	hidden := []string{"canary", "ledger-bank", string(bank), "/runs/" + string(other.ID), "ams1-n", "gent2-n2", `id="depth"`, "data-history", `href="/nodes`, `href="/boot`, `id="boot"`, `href="/queues`, `href="/metrics"`, "eu-west", "SHA256:", "v0.1.0"}
	for _, path := range []string{"/", "/?state=failed", "/?signer=eve", "/?signer=" + string(other.ID), "/?datacenter=" + string(gent), "/runs/" + string(own.ID), "/datacenters", "/?state=busy", "/stuck", "/stuck?for=1m", "/stuck?signer=eve", "/failures", "/failures?since=1h", "/?failure=EXEC_ERROR", "/secrets", "/usage?month=2026-03", "/usage?month=all", "/usage?month=all&project=" + string(shop)} {
		_, body := w.get(path)
		for _, text := range hidden {
			if strings.Contains(body, text) {
				t.Errorf("%s tells %q", path, text)
			}
		}
	}
	body := w.page("/")
	wants(t, body, "own.tengo", "web-shop", "shop.tengo", `href="/datacenters"`)
	if got := countsOn(body); !maps.Equal(got, want) {
		t.Errorf("it counts %v, want %v", got, want)
	}
	wants(t, w.page("/stuck"), "own-stuck.tengo", "1 open run ")
	wants(t, w.page("/datacenters"), "ams1", "fra1", `data-state="away"`, `data-state="healthy"`)
	for _, path := range []string{"/runs/" + string(other.ID), "/runs/" + string(other.ID) + "/values", "/runs/" + string(other.ID) + "/log", "/runs/" + string(other.ID) + "/timeline", "/live/runs/" + string(other.ID), "/?project=" + string(bank), "/?project=none", "/stuck?project=" + string(bank), "/stuck?project=none", "/failures?project=" + string(bank), "/secrets?project=" + string(bank), "/usage?project=" + string(bank)} {
		if response, body := w.get(path); response.StatusCode != http.StatusNotFound || !strings.Contains(body, "NOT_FOUND") || strings.Contains(body, "canary") {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("requests to datacenters for hidden data: %v", w.asked)
	}
	w.readAs(page.Reader{Projects: []writ.ProjectID{shop, bank}})
	wants(t, w.page("/"), "own.tengo", "canary.tengo")
	w.readAs(page.Reader{})
	for _, path := range []string{"/", "/live/", "/stuck", "/live/stuck", "/secrets", "/usage", "/runs/" + string(own.ID), "/runs/" + string(own.ID) + "/values", "/runs/" + string(own.ID) + "/log"} {
		if response, body := w.get(path); response.StatusCode < 400 || strings.Contains(body, "own.tengo") {
			t.Errorf("reader without rights, %s: %s", path, response.Status)
		}
	}
}

// A reader of one project receives its events at once, and no hint of events in other projects.
//
// Promise: Readers and roles: A reader of some projects sees the runs, counts and pages of these projects live on the
// dashboard.
// How: Pages omit other projects and get no frame for events of other projects.
func TestProjectReaderSeesLiveRuns(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.readAs(ofShop)
	own := w.submit(1, "own.tengo", nil)
	other := w.submit(2, "canary.tengo", func(in *ledger.Incoming) { in.Project, in.ProjectName = bank, "ledger-bank" })
	var second writ.Run
	step := 0
	frames(t, w, "/live/", "", func(_, data string) bool {
		keys, pieces, any := frameContent(t, data, "runs")
		if strings.Contains(data, "canary") || strings.Contains(data, string(other.ID)) || strings.Contains(data, `"parts":null`) {
			t.Errorf("step %d: frame = %s", step, data)
		}
		switch step {
		case 0:
			if _, counts, _ := frameContent(t, data, "counts"); !slices.Equal(keys, []string{string(own.ID)}) || !strings.Contains(counts["waiting"], "<b>1</b>") {
				t.Errorf("first frame = %s", data)
			}
			w.run(other, writ.Call{Operation: "volume.create", Name: "canary", State: writ.CallPlanned, Attempt: 1, Planned: time.Now()})
			w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{{Node: "n1", NodeName: "canary", Queued: 42}}})
			w.awaitLook()
			w.run(own)
			step++
		case 1:
			if !any {
				_, counts, any := frameContent(t, data, "counts")
				if !any || !strings.Contains(counts["accepted"], "<b>1</b>") {
					t.Errorf("frame before the run changed = %s", data)
				}
				return false
			}
			if len(pieces) != 1 || len(keys) != 0 || !strings.Contains(pieces[string(own.ID)], "accepted") {
				t.Errorf("frame of a changed run = %s", data)
			}
			second = w.submit(3, "second.tengo", nil)
			step++
		default:
			if any && !slices.Equal(keys, []string{string(second.ID), string(own.ID)}) {
				t.Errorf("frame of a new run = %s", data)
			}
			return any
		}
		return false
	})
	frames(t, w, "/live/runs/"+string(own.ID), "", func(_, data string) bool {
		if _, pieces, _ := frameContent(t, data, "calls"); strings.Contains(pieces["1"], "volume.create") {
			return true
		}
		w.run(own, writ.Call{Operation: "volume.create", Name: "data", State: writ.CallPlanned, Attempt: 1, Planned: time.Now()})
		return false
	})
}
