package coord

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
	"writ/supervisor/link"
)

// hiddenThings is a project with one resource of each kind. All its texts contain the word canary.
type hiddenThings struct {
	subs     []writ.Submission // the first one has all calls and resources
	canaries []string          // texts that only readers of the project may see, apart from the roster's
	inRoster []string          // texts that the public roster contains as well
}

// hide fills the project blog.
func hide(p *fixture, s *supervisor) *hiddenThings {
	p.t.Helper()
	h := &hiddenThings{canaries: []string{"canary"}, inRoster: []string{string(blog), "web-blog", "sam-canary"}}
	for n := range 3 {
		h.subs = append(h.subs, p.runFor(blog, "web-blog", fmt.Sprintf("canary-%d.tengo", n)))
	}
	text := payload() // for a disconnected datacenter, so that it waits
	text.Project, text.ProjectName, text.Script.Name = blog, "web-blog", "canary-waits.tengo"
	text.Datacenter = graz
	waits, err := p.submit(signedScript(p.t, text))
	if err != nil {
		p.t.Fatal(err)
	}
	h.subs = append(h.subs, waits)
	for _, sub := range h.subs {
		h.canaries = append(h.canaries, string(sub.Run), sub.Payload.String())
	}
	at := func(sub writ.Submission, state writ.RunState) *writ.Run {
		return &writ.Run{ID: sub.Run, Project: blog, ProjectName: "web-blog", Deployment: "canary-deployment", Signer: "sam-canary", Script: "canary.tengo", Payload: sub.Payload,
			State: state, Reason: "canary-reason", Summary: []byte("canary-summary"), Accepted: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC()}
	}
	failed, done, open := at(h.subs[0], writ.RunFailed), at(h.subs[1], writ.RunSucceeded), at(h.subs[2], writ.RunRunning)
	failed.Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeExecError, "canary-failure").WithHint("canary-hint"), Position: "canary.tengo:1:1"}
	failed.Decided = []writ.Decision{{Decision: "cancel", Signer: "sam-canary", Reason: "canary-decision"}}
	failed.Ended, done.Ended = time.Now().UTC(), time.Now().UTC()
	id := writ.ResourceID{Project: blog, Kind: writ.KindVolume, Name: "canary-volume"}
	s.tell(
		writ.Event{Run: failed}, writ.Event{Run: done}, writ.Event{Run: open},
		writ.Event{Call: &writ.Call{Run: h.subs[0].Run, Seq: 1, State: writ.CallFailed, Node: "canary-node", Error: writ.Errorf(writ.CodeExecError, "canary-call")}},
		writ.Event{Log: &writ.LogLine{Run: h.subs[0].Run, Ordinal: 1, Text: "canary-line"}},
		writ.Event{Node: &writ.Node{ID: "canary-node", Name: "canary-node-name", Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady, Health: writ.Health{Fault: "canary-fault"},
			Labels: map[string]string{"canary": "label"}, Decided: []writ.Decision{{Decision: "cordon", Signer: "sam-canary", Reason: "canary-cordon"}}}},
		writ.Event{Resource: &writ.Resource{ResourceID: id, UID: "canary-uid", Node: "canary-node", Deployment: "canary-deployment", Run: h.subs[0].Run, Driver: "simulated", Drift: []string{"canary-drift"}}},
		writ.Event{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: blog, Kind: writ.KindContainer, Name: "canary-container"}, UID: "canary-uid-2", Node: "canary-node", Run: h.subs[0].Run, Driver: "simulated", Standing: writ.Standing{State: "running"}}},
		writ.Event{Usage: &writ.Usage{ResourceID: id, UID: "canary-uid", Node: "canary-node", Hour: time.Now().Truncate(time.Hour), Used: writ.Used{Sent: 77_777_777_777}}},
	)
	h.canaries = append(h.canaries, "77777777777")
	s.mu.Lock()
	s.nodes = []link.NodeNow{{ID: "n9", Waiting: &writ.Node{ID: "n9", Name: "canary-waiting", Admission: writ.AdmissionPending}}}
	s.mu.Unlock()
	err = p.Ledger.AddRegistration(p.t.Context(), ledger.Registration{
		Token: "canary-token", Name: "canary-dc", Key: key("canary").Public().(ed25519.PublicKey), Nonce: make([]byte, identity.NonceSize), Proof: []byte("canary"), Received: time.Now().UTC(),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.await("all events of the datacenter", func() bool {
		list, err := p.Ledger.Usage(p.t.Context(), ledger.UsageFilter{Projects: []writ.ProjectID{blog}}, ledger.Page{})
		return err == nil && len(list.Items) == 1
	})
	return h
}

// tellHidden answers requests for runs of blog, in case a coordinator sends one.
func (s *supervisor) tellHidden(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
	s.mu.Lock()
	// The first run is one of shop.
	shops := len(s.accepted) > 0 && strings.Contains(string(params), string(s.accepted[0]))
	s.mu.Unlock()
	switch {
	case shops:
	case verb == link.VerbLogs:
		return []writ.LogLine{{Ordinal: 1, Text: "canary-log"}}, nil
	case verb == link.VerbValues:
		return link.RunValues{Run: writ.Run{ID: someRun, State: writ.RunFailed, Output: map[string]any{"canary": "output"}}, Calls: []link.CallValues{{Call: writ.Call{Run: someRun, Seq: 1, State: writ.CallFailed}, Args: map[string]any{"canary": "argument"}}}}, nil
	case verb == link.VerbStanding, verb == link.VerbNodeStanding, verb == link.VerbTokenStanding, verb == link.VerbHoldStanding && (strings.Contains(string(params), string(blog)) || strings.Contains(string(params), `"*"`)):
		return link.StandingAnswer{Proof: []byte("canary")}, nil
	case verb == link.VerbPlan && strings.Contains(string(params), string(blog)):
		return writ.Preview{Reason: "canary-preview"}, nil
	case verb == link.VerbHolds:
		return []link.Hold{{Project: blog, ProjectName: "canary-held", Held: true, Revision: 1, Decided: []writ.Decision{{Decision: "hold", Signer: "sam-canary"}}}}, nil
	case verb == link.VerbNodeLog:
		return link.NodeLog{Lines: []link.NodeLine{{Source: "runner", Level: "info", Text: "canary-line"}}}, nil
	case verb == link.VerbBoots:
		return link.BootList{Total: 1, Servers: []link.BootServer{{Token: "canary-boot"}}, Machines: []link.BootMachine{{MAC: "canary-mac", Node: "canary-booted"}}}, nil
	case verb == link.VerbLoads:
		return link.LoadList{Loads: []link.Load{{Node: "canary-node", UID: "canary-uid-2", At: time.Now(), MemoryBytes: 77_777_777_777}}}, nil
	case verb == link.VerbQueues:
		return []writ.QueueDepth{{Node: "canary-node", NodeName: "canary-node-name", Queued: 7}}, nil
	}
	return s.tellAll(ctx, verb, params)
}

// response returns the complete response to a request: status line, headers and body. For a stream it returns the
// beginning.
func (p *fixture) response(r *http.Request) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), hang)
	defer cancel()
	response, err := p.client.Client.Do(r.WithContext(ctx))
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	head, err := httputil.DumpResponse(response, false)
	if err != nil {
		p.t.Fatal(err)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		lines := bufio.NewReader(response.Body)
		text := ""
		// The retry of the API, see TestStreamOmitsOtherProjects for the rest. A page sends its whole contents at
		// once.
		for {
			line, err := lines.ReadString('\n')
			if text += line; err != nil || strings.HasPrefix(line, "data: ") || !strings.HasPrefix(r.URL.Path, "/live/") && strings.HasSuffix(text, "\n\n") {
				break
			}
		}
		return string(head) + text
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(head) + string(body)
}

// differing matches the parts in which two responses to the same request may differ.
var differing = regexp.MustCompile(`(?m)(^(Date|X-Request-Id): .*|"request_id":"[^"]*")`)

// A reader of other projects sends every possible request: each route with hidden ids, each filter, with cursors that
// point there, with GET and HEAD, with a token and with a cookie. No response contains a hidden text, and a hidden
// resource is indistinguishable from a missing one.
//
// Promise: Readers and roles: A reader of some projects sees no data of another project through any route, filter,
// cursor, page, stream or error.
// How: One table of routes; the ledger selects by project; hidden items are answered like missing ones; the tests
// search all answers for canaries.
// Also: TestStreamOmitsOtherProjects, TestProjectReaderSeesNoOtherProject,
// TestProjectReaderSeesOnlyItsResources.
func TestReaderSeesNoOtherProject(t *testing.T) {
	p, s := startReading(t)
	own := p.runFor(shop, "web-shop", "hello.tengo")
	h := hide(p, s)
	never := writ.Submission{Payload: writ.Digest{1}, Run: writ.RunIDOf(writ.Digest{1})}

	// Cursors of a reader of all projects point to rows of blog.
	all := p.token("bob")
	cursors := []string{}
	for _, list := range []string{"/v1/runs", "/v1/resources", "/v1/deployments", "/v1/usage", "/v1/runs/" + string(h.subs[0].Run) + "/calls", "/v1/nodes"} {
		_, body := p.as(all, http.MethodGet, list+"?limit=1")
		var page struct {
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		cursors = append(cursors, page.Next)
	}
	queries := []url.Values{{}, {"limit": {"1"}}, {"limit": {"0"}}, {"limit": {"-1"}}, {"after": {"0"}}, {"after": {"1"}}, {"after": {"999999"}}, {"after": {"-5"}}, {"month": {time.Now().Format("2006-01")}}, {"month": {"x"}},
		{"topics": {"run,call,log,node,resource"}}, {"nonce": {strings.Repeat("0", 2*writ.ClientNonce)}}, {"admission": {"pending"}},
		{"nonce": {strings.Repeat("0", 2*writ.ClientNonce)}, "project": {string(blog)}}, {"nonce": {strings.Repeat("0", 2*writ.ClientNonce)}, "project": {"*"}}}
	for name, values := range map[string][]string{
		"project": {string(blog), "web-blog", "web-shop", "no-such", ""}, "deployment": {"canary-deployment"}, "name": {"canary-deployment"}, "node": {"canary-node"}, "signer": {"sam-canary", "alice"},
		"kind": {"volume"}, "datacenter": {"vienna", "graz", "canary-dc", string(graz)}, "state": {"failed", "waiting", "running", "succeeded", "x"}, "cursor": cursors, "q": {"canary"},
		"script": {"canary-0.tengo", "canary-waits.tengo", "canary.tengo"}, "prefix": {string(h.subs[0].Run[:4]), string(h.subs[2].Run), string(h.subs[3].Run[:25])},
		"since": {time.Now().Add(-time.Hour).Format(time.RFC3339), "x", "24h"}, "for": {"1s"}, "failure": {"EXEC_ERROR"}, "operation": {ledger.NoOperation}, "after-line": {"0"}, "after-call": {"0"}, "stuck": {"1", "0"}, "why": {"true"}, "samples": {"true"},
	} {
		for _, value := range values {
			queries = append(queries, url.Values{name: {value}})
		}
	}
	headers := []http.Header{
		{}, {"Last-Event-Id": {"0"}}, {"Last-Event-Id": {"999999"}}, {"If-None-Match": {"*"}}, {"If-Modified-Since": {time.Now().Format(http.TimeFormat)}}, {"Range": {"bytes=0-9"}},
	}

	for _, who := range []string{"carol", "otto", "gina", "dave"} {
		token := p.token(who)
		if who == "dave" {
			p.takeAway()
		}
		ask := func(method, path, body string, header http.Header, cookie bool) string {
			r, err := http.NewRequestWithContext(t.Context(), method, p.PublicURL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = header.Clone()
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if cookie {
				r.AddCookie(&http.Cookie{Name: "writ", Value: token})
			} else {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return p.response(r)
		}
		check := func(method, path, sent, answer string) {
			t.Helper()
			asked := method + " " + path + " " + sent
			news := answer // apart from the text of the request itself
			for _, word := range append(canaryWord.FindAllString(asked, -1), append(h.canaries[1:], h.inRoster...)...) {
				if strings.Contains(asked, word) {
					news = strings.ReplaceAll(news, word, "")
				}
			}
			for _, canary := range append(slices.Clone(h.canaries), h.inRoster...) {
				if strings.Contains(news, canary) {
					t.Errorf("%s, request %s: got %q:\n%.2000s", who, asked, canary, answer)
				}
			}
		}
		for route := range slices.Values(access.Routes()) {
			if route == "GET /v1/roster" || route == "POST /v1/roster" {
				continue // it is public; see below
			}
			method, _, _ := strings.Cut(route, " ")
			for _, sub := range []writ.Submission{own, h.subs[0], h.subs[3]} {
				_, path := addressOf(route, sub)
				path, given, _ := strings.Cut(path, "?")
				if sub.Run != own.Run && !strings.Contains(route, "{run}") && !strings.Contains(route, "{id}") && !strings.Contains(route, "{digest}") {
					continue // the same as for the first
				}
				_, elsewhere := addressOf(route, never)
				elsewhere, _, _ = strings.Cut(elsewhere, "?")
				for i, query := range queries {
					if i > 0 && who != "carol" && (who != "gina" || access.ScopeOf(route) != access.ForReaders) {
						continue // one reader sends all requests
					}
					full := "?" + query.Encode()
					if given != "" && len(query) == 0 {
						full = "?" + given
					}
					for j, header := range headers {
						if i > 0 && j > 0 || method == http.MethodPost && (i > 0 || j > 0) {
							continue // headers with the plain request, and queries without headers
						}
						for _, method := range slices.Compact([]string{method, strings.Replace(method, http.MethodGet, http.MethodHead, 1)}) {
							if method == http.MethodHead && i%8 > 0 {
								continue // the same handler answers it
							}
							body := strings.ReplaceAll(bodyFor(p, route), string(shop), string(map[bool]writ.ProjectID{true: blog, false: shop}[sub.Run != own.Run]))
							if method == http.MethodHead && isStream(path) && sub.Run == own.Run {
								continue // it would stay open
							}
							answer := ask(method, path+full, body, header, i%2 == 1)
							check(method, path+full, body, answer)
							if sub.Run == own.Run {
								continue
							}
							absent := ask(method, elsewhere+full, body, header, i%2 == 1)
							answer = strings.NewReplacer(string(sub.Run), "ID", sub.Payload.String(), "ID").Replace(answer)
							absent = strings.NewReplacer(string(never.Run), "ID", never.Payload.String(), "ID").Replace(absent)
							if answer, absent = differing.ReplaceAllString(answer, ""), differing.ReplaceAllString(absent, ""); answer != absent {
								t.Errorf("%s, request %s %s: for a hidden id\n%s\nfor an unknown id\n%s", who, method, path+full, answer, absent)
							}
						}
					}
				}
			}
		}
		for _, path := range []string{"/static/none.js", "/none", "/v1/none", "/runs/canary", "/v1/runs/%ff", "/v1/submissions/x", "/v1/datacenters/canary-dc/plan", "/login?project=" + string(blog),
			"/resources/" + string(vienna) + "/" + string(blog) + "/volume/canary-volume", "/resources/" + string(vienna) + "/" + string(blog) + "/container/canary-container", "/deployments/" + string(vienna) + "/" + string(blog) + "/canary-deployment",
			"/live/resources/" + string(vienna) + "/" + string(blog) + "/container/canary-container", "/live/deployments/" + string(vienna) + "/" + string(blog) + "/canary-deployment"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				check(method, path, "x", ask(method, path, "x", http.Header{}, true))
			}
		}

		// Plans and statements for it are refused with the same text as for a missing project.
		if hidden, absent := ask(http.MethodPost, "/v1/datacenters/vienna/plan", planFor(blog), http.Header{}, false),
			ask(http.MethodPost, "/v1/datacenters/vienna/plan", planFor("0192f6c2-0000-7000-8000-0000000000cf"), http.Header{}, false); differing.ReplaceAllString(strings.ReplaceAll(hidden, string(blog), "ID"), "") !=
			differing.ReplaceAllString(strings.ReplaceAll(absent, "0192f6c2-0000-7000-8000-0000000000cf", "ID"), "") {
			t.Errorf("a plan for a hidden project %s\nfor none\n%s", hidden, absent)
		}
		for _, seen := range []identity.Seen{identity.SeenRun("hello.tengo", shop, "web-shop", time.Time{}), identity.SeenRun("hello.tengo", blog, "web-blog", time.Time{})} {
			told := map[writ.RunID]string{}
			for _, run := range []writ.RunID{h.subs[2].Run, never.Run} {
				st := statement("run/"+string(run), "cancel")
				st.Signer, st.Seen = who, seen
				status, body := p.post("/v1/statements", signed(t, who, sshsig.StatementNamespace, st))
				check(http.MethodPost, "/v1/statements", string(run)+string(seen.Project)+seen.ProjectName, body)
				told[run] = differing.ReplaceAllString(strconv.Itoa(status)+strings.ReplaceAll(body, string(run), "ID"), "")
			}
			if told[h.subs[2].Run] != told[never.Run] {
				t.Errorf("%s cancels, as of %s: %v", who, seen.ProjectName, told)
			}
		}
		text := payload()
		text.Project, text.ProjectName, text.Signer = blog, "web-blog", who
		_, body := p.post("/v1/submissions", signed(t, who, sshsig.ScriptNamespace, text))
		check(http.MethodPost, "/v1/submissions", string(blog)+" web-blog", body)
	}

	// The public roster names projects and people, but no contents of projects.
	_, body := p.get("/v1/roster")
	var roster api.Rosters
	if err := json.Unmarshal([]byte(body), &roster); err != nil {
		t.Fatal(err)
	}
	for _, text := range roster.Signed {
		for _, canary := range h.canaries {
			if strings.Contains(strings.ReplaceAll(string(text), "sam-canary", ""), canary) {
				t.Errorf("the roster contains %q", canary)
			}
		}
	}
}

// canaryWord matches a name with the canary.
var canaryWord = regexp.MustCompile(`[a-z-]*canary[a-z0-9-]*`)

// A watcher of one project receives no event of another project, for every start position and during changes: from the
// tail and from the ledger, through the API and on pages.
func TestStreamOmitsOtherProjects(t *testing.T) {
	p, s := startReading(t)
	own := p.runFor(shop, "web-shop", "hello.tengo")
	connected := fmt.Sprintf(`data-key=\"%s\" data-state=\"healthy\"`, graz) // in a frame
	type stream struct {
		who, path, from, end string
		*bufio.Reader
	}
	var streams []stream
	tokens := map[string]string{"carol": p.token("carol"), "gina": p.token("gina")}
	watch := func(who, path, from, end string) {
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.PublicURL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+tokens[who])
		r.Header.Set("Accept", "text/event-stream")
		if from != "" {
			r.Header.Set("Last-Event-ID", from)
		}
		response, err := p.client.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s watches %s: %s", who, path, response.Status)
		}
		streams = append(streams, stream{who, path, from, end, bufio.NewReader(response.Body)})
	}
	begin := func() {
		for _, from := range []string{"", "0", "1", "999999"} {
			watch("carol", "/v1/runs/"+string(own.Run)+"/events", from, "the last word")
			watch("carol", "/v1/events", from, "the last word")
			watch("gina", "/v1/events?topics=run,log,call,node,resource,submission", from, "the last word")
			watch("carol", "/live/", from, "the last word")
		}
		watch("carol", "/live/", "-1", "the last word") // the API rejects that
		watch("gina", "/live/?datacenter="+string(vienna), "", "the last word")
		watch("carol", "/live/runs/"+string(own.Run), "", "the last word")
		watch("carol", "/live/datacenters", "", connected)
	}
	begin()
	h := hide(p, s)
	begin() // and after all of it
	connect(p, graz, nil)
	s.tell(
		writ.Event{Log: &writ.LogLine{Run: own.Run, Ordinal: 1, Text: "the last line"}},
		writ.Event{Run: &writ.Run{ID: own.Run, Project: shop, ProjectName: "web-shop", Signer: "alice", Script: "hello.tengo", Payload: own.Payload, State: writ.RunFailed,
			Accepted: time.Now().UTC(), Ended: time.Now().UTC(), Failure: &writ.Failure{Error: *writ.Errorf(writ.CodeExecError, "the last word")}}},
	)
	for _, stream := range streams {
		text := ""
		for !strings.Contains(text, stream.end) {
			line, err := stream.ReadString('\n')
			if err != nil {
				t.Fatalf("%s of %s from %q ended with %v after %s", stream.path, stream.who, stream.from, err, text)
			}
			text += line
		}
		for _, canary := range append(h.canaries, h.inRoster...) {
			if strings.Contains(text, canary) {
				t.Errorf("%s for %s, from %q: contains %q: %.2000s", stream.path, stream.who, stream.from, canary, text)
			}
		}
	}
}

// A reader of some projects resumes after its last event and misses no event of its projects. A reader of all projects
// receives the others as well.
func TestReaderOfSomeProjectsResumesHisStream(t *testing.T) {
	p, s := startReading(t)
	runs := map[writ.ProjectID]writ.RunID{}
	for project, name := range map[writ.ProjectID]string{shop: "web-shop", blog: "web-blog", wiki: "web-wiki"} {
		runs[project] = p.runFor(project, name, "hello.tengo").Run
	}
	for i := range 30 {
		s.tell(writ.Event{Log: &writ.LogLine{Run: runs[[]writ.ProjectID{shop, blog, wiki}[i%3]], Ordinal: i + 1, Text: "a line"}})
	}
	hear := func(who string, after int64, lines int) (ids []int64, told map[writ.RunID]int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		topics := []api.Topic{"log"}
		response, err := p.client.Watch(ctx, &api.WatchParams{LastEventID: &after, Topics: topics}, apiclient.RequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+p.token(who))
			r.Header.Set("Accept", "text/event-stream")
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		told = map[writ.RunID]int{}
		for m, err := range api.Messages(response.Body) {
			if err != nil {
				t.Fatalf("%s has heard %v: %v", who, ids, err)
			}
			ids = append(ids, m.ID)
			told[m.Event.Log.Run]++
			if len(ids) == lines {
				break
			}
		}
		return ids, told
	}
	all, _ := hear("bob", 0, 30)
	for who, projects := range map[string][]writ.ProjectID{"carol": {shop}, "gina": {shop, wiki}, "erin": {blog}} {
		lines := 10 * len(projects)
		ids, told := hear(who, 0, lines)
		for _, project := range projects {
			if told[runs[project]] != 10 {
				t.Errorf("%s hears %d lines of %s", who, told[runs[project]], project)
			}
		}
		for _, last := range []int{0, lines / 2, lines - 2} {
			if rest, _ := hear(who, ids[last], lines-last-1); !slices.Equal(rest, ids[last+1:]) {
				t.Errorf("%s: after %d got %v, want %v", who, ids[last], rest, ids[last+1:])
			}
		}
		for _, id := range ids {
			if !slices.Contains(all, id) {
				t.Errorf("%s: got event %d, want only log lines", who, id)
			}
		}
	}
}
