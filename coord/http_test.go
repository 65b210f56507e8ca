package coord

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

// Every path of the spec is served, and under its prefixes no other path is.
func TestRoutesAreThoseOfTheSpec(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	p := start(t, nil)
	var served []string
	err = chi.Walk(p.handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if doc.Paths.Value(route) != nil || strings.HasPrefix(route, "/v1/") {
			served = append(served, method+" "+route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("in the spec (-), in the router (+):\n%s", diff)
	}
	states := doc.Components.Schemas["RunState"].Value.Enum
	if got := fmt.Sprint(states...); len(states) != len(ledger.States) || !slices.ContainsFunc(ledger.States, func(s ledger.State) bool { return strings.Contains(got, string(s)) }) {
		t.Errorf("states of the spec %v, of the ledger %v", states, ledger.States)
	}
	if topics := doc.Components.Schemas["Topic"].Value.Enum; len(topics) != len(ledger.Topics) {
		t.Errorf("topics of the spec %v, of the ledger %v", topics, ledger.Topics)
	}
}

// Promise: Events, traces and the API: Every error over HTTP is a problem with a code and a hint.
// How: One function writes them.
func TestEveryErrorIsAProblem(t *testing.T) {
	p := start(t, nil)
	run := string(writ.RunIDOf(writ.Digest{1}))
	for path, want := range map[string]writ.Code{
		"/v1/nowhere":                               writ.CodeNotFound,
		"/v1/runs/" + run:                           writ.CodeNotFound,
		"/v1/runs/" + run + "/calls":                writ.CodeNotFound,
		"/v1/runs/" + run + "/events":               writ.CodeNotFound,
		"/v1/runs/" + run + "/logs":                 writ.CodeNotFound,
		"/v1/runs/" + run + "/values":               writ.CodeNotFound,
		"/v1/submissions/xyz":                       writ.CodeBadRequest,
		"/v1/submissions/" + writ.Digest{}.String(): writ.CodeNotFound,
		"/v1/runs?limit=501":                        writ.CodeBadRequest,
		"/v1/runs?limit=-1":                         writ.CodeBadRequest,
		"/v1/runs?limit=many":                       writ.CodeBadRequest,
		"/v1/runs?state=sleeping":                   writ.CodeBadRequest,
		// A misspelled filter must not list everything.
		"/v1/runs?sate=failed":             writ.CodeBadRequest,
		"/v1/runs?datacenter=paris;vienna": writ.CodeBadRequest,
		"/v1/runs?state%zz=failed":         writ.CodeBadRequest,
		"/v1/runs?cursor=nonsense":         writ.CodeBadRequest,
		"/v1/runs?datacenter=paris":        writ.CodeDatacenterUnknown,
		"/v1/runs?project=none":            writ.CodeNotFound,
		"/v1/nodes?admission=maybe":        writ.CodeBadRequest,
		"/v1/resources?kind=dream":         writ.CodeBadRequest,
		"/v1/deployments?limit=501":        writ.CodeBadRequest,
		"/v1/deployments?cursor=nonsense":  writ.CodeBadRequest,
		"/v1/deployments?datacenter=paris": writ.CodeDatacenterUnknown,
		"/v1/deployments?project=none":     writ.CodeNotFound,
		"/v1/events?topics=weather":        writ.CodeBadRequest,
		"/v1/events?after=x":               writ.CodeBadRequest,
		"/v1/roster?after=-x":              writ.CodeBadRequest,
		"/v1/roster?after=-1":              writ.CodeBadRequest,
		"/v1/events?after=-1":              writ.CodeBadRequest,
		"/v1/runs?since=":                  writ.CodeBadRequest,
		"/v1/runs?prefix=":                 writ.CodeBadRequest,
		"/v1/queues?datacenter=paris":      writ.CodeDatacenterUnknown,
	} {
		status, body := p.get(path)
		wantProblem(t, path, status, body, want)
	}
	status, body := p.post("/v1/runs", nil)
	wantProblem(t, "POST /v1/runs", status, body, writ.CodeMethodNotAllowed)
	status, body = p.read(p.request("GET", "/v1/events", func(r *http.Request) { r.Header.Set("Last-Event-ID", "-1") }))
	wantProblem(t, "Last-Event-ID: -1", status, body, writ.CodeBadRequest)
	good, err := json.Marshal(api.NewRegistration{Name: "north", Key: make([]byte, 32), Nonce: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "{", `{"name": 1}`, string(good) + " x", strings.Replace(string(good), `"name"`, `"nane":"x","name"`, 1)} {
		response, err := p.client.Client.(*http.Client).Post(p.PublicURL+"/v1/datacenters/registrations", "application/json", strings.NewReader(body))
		status, text := p.read(response, err)
		wantProblem(t, body, status, text, writ.CodeBadRequest)
	}
}

// request sends a request with other headers than the client's.
func (p *fixture) request(method, path string, change func(r *http.Request)) (*http.Response, error) {
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.PublicURL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	change(r)
	return p.client.Client.Do(r)
}

// TestEveryRouteRefusesPagesOfOthers walks the router of a coordinator that listens on a public address.
//
// Promise: Limits and shares: A foreign web page cannot use an operator's browser to read from or write to a
// coordinator or supervisor.
// How: Every HTTP listener checks `Host` (`HOST_UNKNOWN`), `Origin` and `Sec-Fetch-Site` (`ORIGIN_FOREIGN`).
// Also: TestEveryListenerRefusesPagesOfStrangers, TestStrangersPagesGetNothing.
func TestEveryRouteRefusesPagesOfOthers(t *testing.T) {
	p := start(t, func(c *Config) { c.AllowedHosts = []string{"writ.internal"} })
	routes := 0
	err := chi.Walk(p.Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes++
		path := regexp.MustCompile(`\{[^}]*\}|\*`).ReplaceAllString(route, "x")
		for what, test := range map[string]struct {
			change func(r *http.Request)
			want   writ.Code
		}{
			"a rebound name": {func(r *http.Request) { r.Host = "evil.example:7440" }, writ.CodeHostUnknown},
			"a stranger's page": {func(r *http.Request) {
				r.Host = "writ.internal"
				r.Header.Set("Origin", "https://evil.example")
			}, writ.CodeOriginForeign},
			"a stranger's link": {func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Accept", "text/event-stream")
				r.Header.Set("Upgrade", "websocket")
			}, writ.CodeOriginForeign},
		} {
			status, body := p.read(p.request(method, path, test.change))
			wantProblem(t, method+" "+route+" by "+what, status, body, test.want)
		}
		return nil
	})
	if err != nil || routes < 20 {
		t.Errorf("%d routes, %v", routes, err)
	}
}

func TestPagesOfOthersGetNothing(t *testing.T) {
	p := start(t, nil)
	// A foreign name that resolves to this address.
	status, body := p.read(p.request("GET", "/v1/runs", func(r *http.Request) { r.Host = "evil.example:7440" }))
	wantProblem(t, "rebound name", status, body, writ.CodeHostUnknown)
	status, body = p.read(p.request("POST", "/v1/datacenters/registrations", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }))
	wantProblem(t, "cross-origin", status, body, writ.CodeOriginForeign)
	response, err := p.request("GET", "/v1/runs", func(r *http.Request) { r.Host = "localhost:1" })
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := p.read(response, nil); status != 200 || response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("status %d, headers %v", status, response.Header)
	}
}

func TestRequestIDLeadsToTheLog(t *testing.T) {
	p := start(t, nil)
	response, err := p.request("GET", "/v1/runs", func(r *http.Request) { r.Header.Set("X-Request-Id", "my-own-request-7") })
	if _, _ = p.read(response, err); response.Header.Get("X-Request-Id") != "my-own-request-7" {
		t.Errorf("request id %q", response.Header.Get("X-Request-Id"))
	}
	if !strings.Contains(p.log.String(), "request=my-own-request-7 method=GET path=/v1/runs status=200") {
		t.Errorf("the log does not have it:\n%s", p.log)
	}
	response, err = p.request("GET", "/v1/runs", func(r *http.Request) { r.Header.Set("X-Request-Id", "a\tb forged=1") })
	if _, _ = p.read(response, err); !writ.ValidUUID(response.Header.Get("X-Request-Id")) {
		t.Errorf("an improper id was taken: %q", response.Header.Get("X-Request-Id"))
	}
}

func TestInventedMethodsMakeNoMetrics(t *testing.T) {
	p := start(t, nil)
	for _, method := range []string{"BREW", "WHEN"} {
		status, body := p.read(p.request(method, "/v1/runs", func(*http.Request) {}))
		wantProblem(t, method, status, body, writ.CodeMethodNotAllowed)
	}
	if _, text := p.get("/metrics"); strings.Contains(text, "BREW") || !strings.Contains(text, `writ_http_requests_total{method="other",route="none",status="405"} 2`) {
		t.Errorf("the metrics:\n%s", text)
	}
}

func TestTooManyRequestsAreSlowedDown(t *testing.T) {
	p := start(t, func(c *Config) { c.RequestsPerSecond = 1 })
	var limited *http.Response
	for range 4 { // the burst is twice the rate; one more is refused
		response, err := p.request("GET", "/v1/runs", func(*http.Request) {})
		if err != nil {
			t.Fatal(err)
		}
		limited = response
		if response.StatusCode != 200 {
			break
		}
		response.Body.Close()
	}
	status, body := p.read(limited, nil)
	wantProblem(t, "too many", status, body, writ.CodeRateLimited)
	if limited.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After header")
	}
}

// Promise: Connections and certificates: A coordinator listens on loopback only, unless the roster names its key and
// an `https://` address; then reading requires a login.
// How: It refuses other addresses.
// Also: TestEveryRouteHasAScope, TestEveryRoleAtEveryRoute, TestNoSpellingOfAnAddressGoesPastTheTable.
func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for address, want := range map[string]writ.Code{"127.0.0.1:1": "", "[::1]:1": "", "0.0.0.0:1": writ.CodeListenRefused, "192.0.2.1:1": writ.CodeListenRefused, "[::]:1": writ.CodeListenRefused} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Config{}).CheckListen(tcp); writ.CodeOf(err) != want {
			t.Errorf("%s: %v", address, err)
		}
		if err := (&Config{TLS: &tls.Config{}}).CheckListen(tcp); writ.CodeOf(err) != want {
			t.Errorf("%s, without logins: %v", address, err)
		}
		if err := (&Config{Self: &access.Self{}}).CheckListen(tcp); writ.CodeOf(err) != want {
			t.Errorf("%s, in plain text: %v", address, err)
		}
		if err := (&Config{TLS: &tls.Config{}, Self: &access.Self{}}).CheckListen(tcp); err != nil {
			t.Errorf("%s, with both: %v", address, err)
		}
	}
	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, nil)
	c := made(t, Config{Ledger: p.Ledger, Log: p.Log, PublicURL: p.PublicURL})
	ended, end := context.WithCancel(t.Context())
	end() // so that Serve returns even if it wrongly listens
	if err := c.Serve(ended, everywhere); writ.CodeOf(err) != writ.CodeListenRefused {
		t.Errorf("serve: %v", err)
	}
	if _, err := everywhere.Accept(); err == nil {
		t.Error("the refused listener is still open")
	}
}

func TestValuesAndLogsComeFromTheDatacenter(t *testing.T) {
	p := start(t, func(c *Config) {
		c.PublicCertificate = func() (from, until time.Time) { return time.Unix(0, 0), time.Unix(1e9, 0) }
		c.Certificates = func() ([]writ.Certificate, error) { return []writ.Certificate{{Of: "coordinator"}}, nil }
	})
	s := connect(p, vienna, nil)
	s.mu.Lock()
	s.holds = []link.Hold{{Operation: "machine", Held: true, Revision: 3, Decided: []writ.Decision{{Decision: "hold", Signer: "alice"}}}}
	s.mu.Unlock()
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("delivered", func() bool { return p.run(sub.Run).State == api.RunStateAccepted })
	logs, err := api.Answer[api.LogPage](p.client.ListLogs(t.Context(), sub.Run, &api.ListLogsParams{After: api.Given(1), Limit: api.Given(10)}))
	if err != nil || len(logs.Items) != 2 || logs.Items[0].Text != "line 2" {
		t.Errorf("logs: %+v, %v", logs, err)
	}
	values, err := api.Answer[api.RunValues](p.client.GetValues(t.Context(), sub.Run, &api.GetValuesParams{After: api.Given(6)}))
	if err != nil || values.Run.Output["n"] != int64(9007199254740993) || values.Calls[0].Values["pong"] != true || values.Calls[0].Seq != 7 {
		t.Errorf("values: %+v, %v", values, err)
	}
	values, err = api.Answer[api.RunValues](p.client.GetValues(t.Context(), sub.Run, &api.GetValuesParams{Limit: api.Given(400)}))
	if err != nil || !values.More || len(values.Calls) != 100 {
		t.Errorf("of calls with large values, %d were returned, and more are left: %v; %v", len(values.Calls), values.More, err)
	}
	queues, err := api.Answer[api.QueueList](p.client.ListQueues(t.Context(), &api.ListQueuesParams{}))
	if err != nil || len(queues.Items) != 2 {
		t.Fatalf("queues: %+v, %v", queues, err)
	}
	for _, q := range queues.Items {
		switch q.Datacenter {
		case vienna:
			if q.Error != nil || len(q.Queues) != 1 || q.Queues[0].Running != 1 {
				t.Errorf("vienna: %+v", q)
			}
		case graz:
			if q.Error == nil || q.Error.Code != writ.CodeDatacenterAway || len(q.Queues) != 0 {
				t.Errorf("graz, which is away: %+v", q)
			}
		}
	}
	held, err := api.Answer[api.HoldList](p.client.ListHolds(t.Context(), &api.ListHoldsParams{}))
	if err != nil || len(held.Items) != 2 {
		t.Fatalf("holds: %+v, %v", held, err)
	}
	for _, d := range held.Items {
		if is := d.Datacenter == vienna; is != (d.Error == nil && len(d.Holds) == 1 && d.Holds[0].Held && d.Holds[0].Operation == "machine") {
			t.Errorf("holds of %s: %+v", d.Name, d)
		}
	}
	shown, err := api.Answer[api.CertificateList](p.client.ListCertificates(t.Context(), &api.ListCertificatesParams{}))
	if err != nil || len(shown.Items) != 3 || shown.Items[0].Certificates[0].Of != "coordinator" || shown.Items[0].Certificates[1].Of != "public" {
		t.Fatalf("certificates: %+v, %v", shown, err)
	}
	for _, owner := range shown.Items[1:] {
		if is := owner.Datacenter == vienna; is != (owner.Error == nil && len(owner.Certificates) == 1 && owner.Certificates[0].Of == "supervisor") {
			t.Errorf("certificates of %s: %+v", owner.Name, owner)
		}
	}
	s.leave()
	if _, err := api.Answer[api.LogPage](p.client.ListLogs(t.Context(), sub.Run, &api.ListLogsParams{})); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("logs of a disconnected datacenter: %v", err)
	}
}

func TestPlanIsPreviewedByItsDatacenter(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	const proper = `{"project": "` + string(shop) + `", "calls": [{"operation": "volume.create", "name": "v", "args": {"size_gib": 9007199254740993}}]}`
	for _, place := range []string{"vienna", string(vienna)} {
		preview, err := api.Answer[writ.Preview](p.client.PreviewPlan(t.Context(), place, api.JSON(proper)))
		if err != nil || len(preview.Calls) != 1 || preview.Calls[0].NodeName != "node-1" || string(preview.Calls[0].Fields[0].To) != "9007199254740993" {
			t.Errorf("%s: %+v, %v", place, preview, err)
		}
	}
	long := strings.Replace(proper, `"v"`, `"`+strings.Repeat("v", link.MaxFrame-4<<10)+`"`, 1)
	for _, tt := range []struct {
		place, body string
		want        writ.Code
	}{
		{"vienna", "", writ.CodeBadRequest},
		{"vienna", "{", writ.CodeBadRequest},
		{"vienna", "[]", writ.CodeBadRequest},
		{"vienna", proper + "{}", writ.CodeBadRequest},
		{"vienna", strings.Replace(proper, "operation", "Operations", 1), writ.CodeBadRequest},
		{"vienna", strings.Replace(proper, "9007199254740993", "1.5", 1), writ.CodeBadRequest},
		{"vienna", strings.Replace(proper, "9007199254740993", "1e99", 1), writ.CodeBadRequest},
		{"vienna", long, writ.CodeTooLarge},
		{"paris", proper, writ.CodeDatacenterUnknown},
		{"01920000-0000-7000-8000-00000000000f", proper, writ.CodeDatacenterUnknown},
		{"graz", proper, writ.CodeDatacenterAway},
	} {
		status, body := p.post("/v1/datacenters/"+tt.place+"/plan", []byte(tt.body))
		wantProblem(t, tt.place+" "+tt.body[:min(len(tt.body), 40)], status, body, tt.want)
	}
	s.leave()
	if _, err := api.Answer[writ.Preview](p.client.PreviewPlan(t.Context(), "vienna", api.JSON(proper))); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("preview of a disconnected datacenter: %v", err)
	}
}

func TestListsComeInPages(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	for n := range 3 {
		if _, err := p.submit(signedScript(t, payload())); err != nil {
			t.Fatal(err)
		}
		fault := ""
		if n == 1 {
			fault = "its journal is on a full disk"
		}
		s.tell(writ.Event{Node: &writ.Node{ID: writ.NodeID(fmt.Sprint("n", n)), Name: fmt.Sprint("node-", n), Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, Health: writ.Health{Fault: fault},
			Findings: writ.Findings{Mended: int64(3 * n), Network: &writ.NodeNetwork{Denied: int64(n), Overlay: &writ.Overlay{Connected: true, PeerCount: 5, Alive: 2, Selected: 9}}}}},
			writ.Event{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: fmt.Sprint("v", n)}}})
	}
	p.await("nodes", func() bool {
		list, err := p.Ledger.Resources(t.Context(), ledger.ResourceFilter{}, ledger.Page{})
		return err == nil && len(list.Items) == 3
	})
	var runs []writ.RunID
	params := &api.ListRunsParams{Limit: api.Given(2), Project: api.Given("web-shop"), Signer: api.Given("alice")}
	for {
		page, err := api.Answer[api.RunPage](p.client.ListRuns(t.Context(), params))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			runs = append(runs, r.ID)
		}
		if params.Cursor = api.Given(page.NextCursor); params.Cursor == nil {
			break
		}
	}
	if slices.Sort(runs); len(slices.Compact(runs)) != 3 {
		t.Errorf("runs: %v", runs)
	}
	nodes, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{Limit: api.Given(2), Datacenter: api.Given("vienna")}))
	if err != nil || len(nodes.Items) != 2 || nodes.NextCursor == "" || nodes.Items[0].Liveness != writ.LivenessReady {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	resources, err := api.Answer[api.ResourcePage](p.client.ListResources(t.Context(), &api.ListResourcesParams{Kind: api.Given(writ.KindVolume), Project: api.Given(string(shop))}))
	if err != nil || len(resources.Items) != 3 {
		t.Errorf("resources: %+v, %v", resources, err)
	}
	_, metrics := p.get("/metrics")
	for _, want := range []string{
		`writ_node_ready{datacenter="vienna",node="node-1"} 0`, `writ_node_ready{datacenter="vienna",node="node-2"} 1`,
		`writ_node_mended_total{datacenter="vienna",node="node-2"} 6`,
		`writ_node_packets_dropped_total{datacenter="vienna",node="node-2",reason="denied"} 2`, `writ_node_overlay_connected{datacenter="vienna",node="node-1"} 1`,
		`writ_node_overlay_peers{alive="no",datacenter="vienna",node="node-1"} 3`, `writ_node_overlay_routes{datacenter="vienna",node="node-1"} 9`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	s.leave()
	if nodes, err = api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{})); err != nil || nodes.Items[0].Liveness != writ.LivenessUnknown {
		t.Errorf("nodes of a datacenter that is away: %+v, %v", nodes, err)
	}
}

func TestHealthReadinessMetricsAndSpec(t *testing.T) {
	p := start(t, func(c *Config) {
		c.PublicCertificate = func() (from, until time.Time) { return time.Unix(0, 0), time.Unix(1e9, 0) }
	})
	connect(p, vienna, nil)
	for path, want := range map[string]string{
		"/healthz":      `"alive":true`,
		"/readyz":       `"ready":true`,
		"/metrics":      `writ_datacenter_connected{datacenter="vienna",region="eu"} 1`,
		"/openapi.yaml": "openapi: 3.1.0",
		"/":             "<!doctype html>",
	} {
		if status, body := p.get(path); status != 200 || !strings.Contains(strings.ToLower(body), strings.ToLower(want)) {
			t.Errorf("%s: status %d, without %q", path, status, want)
		}
	}
	if _, body := p.get("/metrics"); !strings.Contains(body, `writ_http_requests_total{method="GET",route="/healthz",status="200"} 1`) ||
		!strings.Contains(body, `writ_runs{state="waiting"} 0`) || !strings.Contains(body, "\nwrit_runs_stuck 0\n") || !strings.Contains(body, "writ_roster_renew_seconds ") || !strings.Contains(body, `writ_build_info{role="coordinator",version="test"} 1`) ||
		!strings.Contains(body, `writ_certificate_expires_seconds{certificate="public"} 1e+09`) {
		t.Errorf("metrics:\n%s", body)
	}
}

// watch opens an event stream and returns a function that reads its messages one by one.
func (p *fixture) watch(path, lastEventID string) (next func() api.Message, end func()) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hang)
	r, err := http.NewRequestWithContext(ctx, "GET", p.PublicURL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := p.client.Client.Do(r)
	if err := api.ErrorOf(response, err); err != nil {
		p.t.Fatal(err)
	}
	messages := make(chan api.Message)
	go func() {
		defer close(messages)
		for m, err := range api.Messages(response.Body) {
			if err != nil {
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	next = func() api.Message {
		p.t.Helper()
		m, ok := <-messages
		if !ok {
			p.t.Fatalf("the stream %s ended", path)
		}
		return m
	}
	return next, func() {
		cancel()
		response.Body.Close()
		for range messages {
		}
	}
}

func TestRunIsWatchedFromItsBeginning(t *testing.T) {
	p := start(t, nil)
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	next, end := p.watch("/v1/runs/"+string(sub.Run)+"/events", "")
	defer end()
	first := next()
	if s := first.Event.Submission; s == nil || s.State != writ.SubmissionWaiting || s.Run != sub.Run {
		t.Fatalf("first: %+v", first)
	}
	dc := connect(p, vienna, nil)
	second := next()
	if s := second.Event.Submission; s == nil || s.State != writ.SubmissionDelivered {
		t.Errorf("second: %+v", second)
	}
	dc.tell(
		writ.Event{Run: &writ.Run{ID: other.Run, State: writ.RunRunning, Accepted: time.Now()}},
		writ.Event{Run: &writ.Run{ID: sub.Run, State: writ.RunRunning, Accepted: time.Now()}},
		writ.Event{Call: &writ.Call{Run: sub.Run, Seq: 1, State: writ.CallSucceeded}},
		writ.Event{Log: &writ.LogLine{Run: sub.Run, Ordinal: 1, Text: "hello\n\ndata: x"}},
	)
	var got []string
	var last api.Message
	for len(got) < 3 {
		if last = next(); last.Event.Journal == "" {
			continue // the coordinator's own requests on connecting
		}
		got = append(got, string(last.Event.Topic))
	}
	if diff := cmp.Diff([]string{"run", "call", "log"}, got); diff != "" {
		t.Error(diff)
	}
	if last.Event.Log.Text != "hello\n\ndata: x" || last.Event.Datacenter != vienna || last.Event.ID != last.ID {
		t.Errorf("last: %+v", last)
	}
	resumed, endResumed := p.watch("/v1/runs/"+string(sub.Run)+"/events?topics=log,call", fmt.Sprint(second.ID))
	defer endResumed()
	if m := resumed(); m.Event.Topic != api.TopicCall {
		t.Errorf("resumed with %+v", m)
	}
}

func TestWatchersResumeAndSeeRemovals(t *testing.T) {
	p := start(t, nil)
	dc := connect(p, vienna, nil)
	node := func(name string) writ.Event { return writ.Event{Node: &writ.Node{ID: writ.NodeID(name), Name: name}} }
	dc.tell(node("a"))
	p.await("stored", func() bool { _, newest, err := p.Ledger.EventRange(t.Context()); return err == nil && newest == 1 })
	next, end := p.watch("/v1/events?topics=node", "") // from now on
	dc.tell(node("b"), node("c"))
	b := next()
	if b.Event.Node.Name != "b" {
		t.Errorf("first: %+v", b)
	}
	end()
	next, end = p.watch("/v1/events", fmt.Sprint(b.ID))
	if m := next(); m.Event.Node.Name != "c" {
		t.Errorf("resumed with %+v", m)
	}
	end()
	next, end = p.watch("/v1/events?after=0&datacenter=vienna", "")
	if m := next(); m.Event.Node.Name != "a" {
		t.Errorf("from the beginning: %+v", m)
	}
	end()
	for _, id := range []string{"0", "99"} { // pruned from the ledger, or never assigned by it
		if err := p.Ledger.Prune(t.Context(), time.Now().Add(time.Hour), time.Time{}); err != nil {
			t.Fatal(err)
		}
		next, end = p.watch("/v1/events", id)
		if m := next(); !m.Reset || m.ID != 3 {
			t.Errorf("after %s: %+v; want a reset", id, m)
		}
		end()
	}
}

func TestStreamsAreBoundedAndEndWithTheCoordinator(t *testing.T) {
	p := start(t, func(c *Config) { c.MaxStreams = 2 })
	_, end1 := p.watch("/v1/events", "")
	defer end1()
	_, end2 := p.watch("/v1/events", "")
	defer end2()
	status, body := p.get("/v1/events")
	wantProblem(t, "one too many", status, body, writ.CodeTooManyWatchers)
	p.stop() // returns although two streams are open
}

// TestOneAddressLeavesStreamsForOthers opens streams from one address until it gets no more, and then one from another
// address.
func TestOneAddressLeavesStreamsForOthers(t *testing.T) {
	p := start(t, func(c *Config) { c.MaxStreams = 8 })
	open := func(from string) int {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.PublicURL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer.StatusCode
	}
	opened := 0
	for open("127.0.0.1") == http.StatusOK {
		opened++
	}
	if opened != 6 {
		t.Errorf("one address has %d of 8 streams, want 6", opened)
	}
	if status := open("127.0.0.2"); status != http.StatusOK {
		t.Errorf("another address is answered %d", status)
	}
}

func TestSlowReaderDelaysNoOther(t *testing.T) {
	p := start(t, nil)
	dc := connect(p, vienna, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.PublicURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	long := strings.Repeat("x", 64<<10)
	for n := range 100 { // far more than the buffers of the connection hold, which is not read
		dc.tell(writ.Event{Log: &writ.LogLine{Ordinal: n + 1, Text: long}})
	}
	p.await("all stored", func() bool { _, newest, err := p.Ledger.EventRange(t.Context()); return err == nil && newest == 100 })
	next, end := p.watch("/v1/events?after=99", "")
	defer end()
	if m := next(); m.ID != 100 {
		t.Errorf("another reader gets %d", m.ID)
	}
}

func TestProblemsHideInternalErrors(t *testing.T) {
	p := start(t, nil)
	w := &answer{header: http.Header{}}
	r, _ := http.NewRequest("GET", "/v1/runs", nil)
	p.front.Observe(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the password is hunter2") })).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext())))
	var problem api.Problem
	if err := json.Unmarshal(w.body, &problem); err != nil || problem.Code != writ.CodeInternal || strings.Contains(string(w.body), "hunter2") {
		t.Errorf("%s, %v", w.body, err)
	}
	if !strings.Contains(p.log.String(), "hunter2") || !strings.Contains(p.log.String(), problem.RequestID) {
		t.Error("the log does not have the details")
	}
}

// answer is an http.ResponseWriter in memory.
type answer struct {
	header http.Header
	body   []byte
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(int)             {}
func (a *answer) Write(b []byte) (int, error) { a.body = append(a.body, b...); return len(b), nil }

func TestUnsupportedMethodListsAllowedOnes(t *testing.T) {
	p := start(t, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.PublicURL+"/v1/runs", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := p.client.Client.(*http.Client)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("DELETE: %s, Allow %q", response.Status, response.Header.Get("Allow"))
	}
	response, err = client.Head(p.PublicURL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("HEAD /healthz: %s", response.Status)
	}
}

// Requests for the state of a run, a node or the join tokens go to the datacenter, and its signed answer is passed on.
func TestSignedStandingPassesThrough(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) {
		hello := s.dialer.Hello
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = append(h.Verbs, link.VerbStanding, link.VerbNodeStanding, link.VerbTokenStanding)
			return h
		}
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			switch verb {
			case link.VerbStanding:
			case link.VerbNodeStanding:
				var asked link.StandingOfNode
				err := link.Decode(params, &asked)
				return link.StandingAnswer{Proof: append([]byte(asked.Node), asked.Nonce...)}, err
			case link.VerbTokenStanding:
				var asked link.StandingOfTokens
				err := link.Decode(params, &asked)
				return link.StandingAnswer{Proof: append([]byte("tokens"), asked.Nonce...)}, err
			default:
				return s.handle(ctx, verb, params)
			}
			var asked link.Standing
			err := link.Decode(params, &asked)
			return link.StandingAnswer{Proof: append([]byte(asked.Run), asked.Nonce...)}, err
		}
	})
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return p.run(sub.Run).State == api.RunStateAccepted })
	nonce := bytes.Repeat([]byte{7}, writ.ClientNonce)
	ask := func(run writ.RunID, nonce string) ([]byte, error) {
		answer, err := api.Answer[api.RunStanding](p.client.GetStanding(t.Context(), run, &api.GetStandingParams{Nonce: nonce}))
		return answer.Proof, err
	}
	if proof, err := ask(sub.Run, hex.EncodeToString(nonce)); err != nil || string(proof) != string(sub.Run)+string(nonce) {
		t.Errorf("%q, %v", proof, err)
	}
	if _, err := ask(sub.Run, "07"); writ.CodeOf(err) != writ.CodeBadRequest {
		t.Errorf("a short nonce: %v", err)
	}
	if _, err := ask(writ.RunIDOf(writ.Digest{1}), hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("no run: %v", err)
	}
	node := func(datacenter string, nonce string) ([]byte, error) {
		answer, err := api.Answer[api.NodeStanding](p.client.GetNodeStanding(t.Context(), datacenter, "n1", &api.GetNodeStandingParams{Nonce: nonce}))
		return answer.Proof, err
	}
	if proof, err := node("vienna", hex.EncodeToString(nonce)); err != nil || string(proof) != "n1"+string(nonce) {
		t.Errorf("%q, %v", proof, err)
	}
	if _, err := node("vienna", "07"); writ.CodeOf(err) != writ.CodeBadRequest {
		t.Errorf("a short nonce: %v", err)
	}
	if _, err := node("atlantis", hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeDatacenterUnknown {
		t.Errorf("no datacenter: %v", err)
	}
	tokens := func(datacenter string, nonce string) ([]byte, error) {
		answer, err := api.Answer[api.TokenStanding](p.client.GetTokenStanding(t.Context(), datacenter, &api.GetTokenStandingParams{Nonce: nonce}))
		return answer.Proof, err
	}
	if proof, err := tokens("vienna", hex.EncodeToString(nonce)); err != nil || string(proof) != "tokens"+string(nonce) {
		t.Errorf("%q, %v", proof, err)
	}
	if _, err := tokens("vienna", "07"); writ.CodeOf(err) != writ.CodeBadRequest {
		t.Errorf("a short nonce: %v", err)
	}
	if _, err := tokens("atlantis", hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeDatacenterUnknown {
		t.Errorf("no datacenter: %v", err)
	}
	s.leave()
	if _, err := tokens("vienna", hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("tokens of a disconnected datacenter: %v", err)
	}
	if _, err := node("vienna", hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("node of a disconnected datacenter: %v", err)
	}
	if _, err := ask(sub.Run, hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeDatacenterAway {
		t.Errorf("while the datacenter is away: %v", err)
	}
	connect(p, vienna, nil)
	if _, err := ask(sub.Run, hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeVerbUnsupported {
		t.Errorf("an older supervisor: %v", err)
	}
	if _, err := tokens("vienna", hex.EncodeToString(nonce)); writ.CodeOf(err) != writ.CodeVerbUnsupported {
		t.Errorf("an older supervisor: %v", err)
	}
}
