package coord

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/supervisor/link"
)

// wiki is a third project, which some readers of shop may read too.
const wiki = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c3")

// readingRoster is namedRoster with people for each combination of readable projects.
func readingRoster(t *testing.T, address string) *identity.Roster {
	return namedRoster(t, address, func(r *identity.Roster) {
		r.Projects = append(r.Projects, identity.Project{ID: wiki, Name: "web-wiki"})
		r.Operators = append(r.Operators, "rita")
		for _, name := range []string{"kim", "dora", "otto", "adam", "erin", "emil", "gina", "dolf", "olga", "anna", "rita", "sam-canary"} {
			r.Principals = append(r.Principals, identity.Principal{Name: name, Kind: identity.Person, State: identity.Active,
				Keys: []identity.PrincipalKey{{Key: signer(name).PublicKey(), State: identity.Active}}})
		}
		bind := func(who string, role identity.Role, projects ...writ.ProjectID) {
			for _, project := range projects {
				r.Bindings = append(r.Bindings, identity.Binding{Principal: who, Role: role, Project: project})
			}
		}
		bind("dave", identity.Viewer, shop)
		bind("kim", identity.Viewer, shop)
		bind("dora", identity.Deployer, shop)
		bind("otto", identity.Operator, shop)
		bind("adam", identity.Admin, shop)
		bind("gina", identity.Viewer, shop, wiki)
		bind("erin", identity.Viewer, blog)
		bind("emil", identity.Deployer, blog)
		bind("dolf", identity.Deployer, identity.AllProjects)
		bind("olga", identity.Operator, identity.AllProjects)
		bind("anna", identity.Admin, identity.AllProjects)
		r.Bindings = append(r.Bindings, identity.Binding{ // every page of the dashboard announces its end
			Principal: "sam-canary", Role: identity.Deployer, Project: blog, Expires: time.Now().UTC().Truncate(time.Second).Add(240 * time.Hour),
		})
	})
}

// startReading serves a coordinator of readingRoster with a datacenter that answers all verbs.
func startReading(t *testing.T, change ...func(c *Config)) (*fixture, *supervisor) {
	t.Helper()
	p := start(t, func(c *Config) {
		c.Self = &access.Self{ID: frontID, Key: key("front")}
		c.RequestsPerSecond = 1e6
		for _, change := range change {
			change(c)
		}
	})
	if _, err := p.AddRoster(t.Context(), signedRoster(t, readingRoster(t, p.PublicURL))); err != nil {
		t.Fatal(err)
	}
	return p, connect(p, vienna, func(s *supervisor) {
		hello := s.dialer.Hello
		s.dialer.Hello = func() link.Hello {
			h := hello()
			h.Verbs = slices.Clone(link.ToSupervisor)
			return h
		}
		s.dialer.Handle = s.tellHidden
	})
}

// tellAll answers like a supervisor that leaves filtering by reader to the coordinator.
func (s *supervisor) tellAll(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
	switch verb {
	case link.VerbSecrets:
		return []writ.Secret{
			{Datacenter: vienna, Project: shop, Name: "shop-secret", Version: 1, SetBy: "adam"},
			{Datacenter: vienna, Project: blog, Name: "canary-secret", Version: 7, SetBy: "sam-canary"},
			{Datacenter: vienna, Project: wiki, Name: "wiki-secret", Version: 1, SetBy: "alice"},
		}, nil
	case link.VerbAdopted:
		return link.AdoptedAnswer{Proof: []byte("adopted")}, nil
	case link.VerbStanding, link.VerbNodeStanding, link.VerbTokenStanding, link.VerbHoldStanding:
		return link.StandingAnswer{Proof: []byte("it stands")}, nil
	case link.VerbNodeLog:
		return link.NodeLog{Lines: []link.NodeLine{}}, nil
	case link.VerbResources:
		return []writ.Resource{}, nil
	default:
		return s.handle(ctx, verb, params)
	}
}

// runFor submits a script of a project and returns its submission when the datacenter has it.
func (p *fixture) runFor(project writ.ProjectID, name, script string) writ.Submission {
	p.t.Helper()
	text := payload()
	text.Project, text.ProjectName, text.Script.Name = project, name, script
	sub, err := p.submit(signedScript(p.t, text))
	if err != nil {
		p.t.Fatal(err)
	}
	p.await("accepted", func() bool {
		run, err := p.Ledger.Run(p.t.Context(), sub.Run)
		return err == nil && !run.Accepted.IsZero()
	})
	return sub
}

// takeAway removes dave's role, but not his key, and removes kim's key.
func (p *fixture) takeAway() {
	p.t.Helper()
	next, err := p.rosters.Current().Successor(time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	next.Bindings = slices.DeleteFunc(next.Bindings, func(b identity.Binding) bool { return b.Principal == "dave" })
	for i := range next.Principals {
		if next.Principals[i].Name == "kim" {
			next.Principals[i].Keys[0].State = identity.Removed
		}
	}
	if _, err := p.AddRoster(p.t.Context(), signedRoster(p.t, next)); err != nil {
		p.t.Fatal(err)
	}
}

// Responses to requests that are refused.
const (
	noLogin = "401 LOGIN_REQUIRED"
	noRole  = "403 ROLE_MISSING"
	absent  = "404 NOT_FOUND" // as for a missing resource

	// Prefixes the response to readers of all projects that may cordon nodes; others lack the role.
	forSchedulersOnly = "schedulers: "
)

// row lists the responses of a route: to a stranger, to a person whose role was revoked after the login, to people with
// roles in the project that the address or body names, to those with roles in another project only, and to readers of
// all projects.
type row struct{ stranger, former, ofProject, ofOther, ofAll string }

// toSchedulers is the response to readers of all projects that may cordon nodes, and toViewers that to the others.
func (r row) toSchedulers() string { return strings.TrimPrefix(r.ofAll, forSchedulersOnly) }

func (r row) toViewers() string {
	if strings.HasPrefix(r.ofAll, forSchedulersOnly) {
		return noRole
	}
	return r.ofAll
}

func same(answer string) row { return row{answer, answer, answer, answer, answer} }

// readRights holds the rights of each route, as in SECURITY.md ("Who may read"). It is written by hand, independently
// of the coordinator's table, so that a mistake in either one shows.
var readRights = map[string]row{
	// The body identifies its signer, and "x" is not signed.
	"POST /v1/logins/challenges":         same("200"),
	"POST /v1/logins":                    same("400 SIGNATURE_MALFORMED"),
	"POST /v1/logins/tokens":             same("400 BAD_REQUEST"),
	"POST /v1/logins/codes":              same("400 BAD_REQUEST"),
	"POST /v1/logins/ends":               same("400 BAD_REQUEST"),
	"POST /v1/submissions":               same("400 SIGNATURE_MALFORMED"),
	"POST /v1/statements":                same("400 SIGNATURE_MALFORMED"),
	"POST /v1/roster":                    same("400 SIGNATURE_MALFORMED"),
	"POST /v1/datacenters/registrations": same("400 BAD_REQUEST"),
	"POST /login":                        same("403 LOGIN_REFUSED"),
	"POST /logout":                       same("200"), // it revokes the cookie and shows the login page
	"GET /v1/link":                       same("426"),

	// Public data that every verifier needs.
	"GET /v1/roster":    same("200"),
	"GET /healthz":      same("200"),
	"GET /readyz":       same("200"),
	"GET /openapi.yaml": same("200"),
	"GET /login":        same("200"),
	"GET /static/*":     same("200"),

	// Of a project.
	"GET /v1/submissions/{digest}":           {noLogin, noRole, "200", absent, "200"},
	"GET /v1/submissions/{digest}/signed":    {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}":                     {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}/calls":               {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}/values":              {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}/standing":            {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}/logs":                {noLogin, noRole, "200", absent, "200"},
	"GET /v1/runs/{run}/events":              {noLogin, noRole, "200", absent, "200"},
	"POST /v1/datacenters/{datacenter}/plan": {noLogin, noRole, "200", absent, "200"},
	"GET /runs/{id}":                         {noLogin, noRole, "200", absent, "200"},
	"GET /live/runs/{id}":                    {noLogin, noRole, "200", absent, "200"},
	"GET /runs/{id}/values":                  {noLogin, noRole, "200", absent, "200"},
	"GET /runs/{id}/log":                     {noLogin, noRole, "200", absent, "200"},
	"GET /runs/{id}/timeline":                {noLogin, noRole, "200", absent, "200"},

	"GET /resources/{datacenter}/{project}/{kind}/{name}":      {noLogin, noRole, "200", absent, "200"},
	"GET /live/resources/{datacenter}/{project}/{kind}/{name}": {noLogin, noRole, "200", absent, "200"},
	"GET /deployments/{datacenter}/{project}/{name}":           {noLogin, noRole, "200", absent, "200"},
	"GET /live/deployments/{datacenter}/{project}/{name}":      {noLogin, noRole, "200", absent, "200"},

	// Lists, pages and streams that are filtered by reader.
	"GET /v1/events":           {noLogin, noRole, "200", "200", "200"},
	"GET /":                    {noLogin, noRole, "200", "200", "200"},
	"GET /live":                {noLogin, noRole, "200", "200", "200"},
	"GET /secrets":             {noLogin, noRole, "200", "200", "200"},
	"GET /usage":               {noLogin, noRole, "200", "200", "200"},
	"GET /stuck":               {noLogin, noRole, "200", "200", "200"},
	"GET /live/stuck":          {noLogin, noRole, "200", "200", "200"},
	"GET /failures":            {noLogin, noRole, "200", "200", "200"},
	"GET /live/failures":       {noLogin, noRole, "200", "200", "200"},
	"GET /resources":           {noLogin, noRole, "200", "200", "200"},
	"GET /live/resources":      {noLogin, noRole, "200", "200", "200"},
	"GET /deployments":         {noLogin, noRole, "200", "200", "200"},
	"GET /live/deployments":    {noLogin, noRole, "200", "200", "200"},
	"GET /datacenters":         {noLogin, noRole, "200", "200", "200"},
	"GET /live/datacenters":    {noLogin, noRole, "200", "200", "200"},
	"GET /v1/runs":             {noLogin, noRole, "200", "200", "200"},
	"GET /v1/projects":         {noLogin, noRole, "200", "200", "200"},
	"GET /v1/secrets":          {noLogin, noRole, "200", "200", "200"},
	"GET /v1/boots":            {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/holds":            {noLogin, noRole, "200", "200", "200"},
	"GET /v1/resources":        {noLogin, noRole, "200", "200", "200"},
	"GET /v1/deployments":      {noLogin, noRole, "200", "200", "200"},
	"GET /v1/usage":            {noLogin, noRole, "200", "200", "200"},
	"GET /v1/regions":          {noLogin, noRole, "200", "200", "200"},
	"GET /v1/datacenters":      {noLogin, noRole, "200", "200", "200"},
	"GET /v1/roster/adoptions": {noLogin, noRole, "200", "200", "200"},

	// Of the projects in the request.
	"GET /v1/datacenters/{datacenter}/holds/standing": {noLogin, noRole, "200", absent, "200"},

	// Of all projects together.
	"GET /v1/datacenters/{datacenter}/nodes/{node}/standing": {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/datacenters/{datacenter}/tokens/standing":       {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/datacenters/{datacenter}/nodes/{node}/log":      {noLogin, noRole, noRole, noRole, forSchedulersOnly + "200"},
	"GET /v1/nodes":                     {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/queues":                    {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/certificates":              {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/batches":                   {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/tokens":                    {noLogin, noRole, noRole, noRole, "200"},
	"GET /v1/datacenters/registrations": {noLogin, noRole, noRole, noRole, "200"},
	"GET /metrics":                      {noLogin, noRole, noRole, noRole, "200"},
	"GET /queues":                       {noLogin, noRole, noRole, noRole, "200"},
	"GET /boot":                         {noLogin, noRole, noRole, noRole, "200"},
	"GET /live/boot":                    {noLogin, noRole, noRole, noRole, "200"},
	"GET /live/queues":                  {noLogin, noRole, noRole, noRole, "200"},
	"GET /nodes":                        {noLogin, noRole, noRole, noRole, "200"},
	"GET /live/nodes":                   {noLogin, noRole, noRole, noRole, "200"},

	// The node does not exist, which only readers of nodes may learn.
	"GET /nodes/{datacenter}/{node}":      {noLogin, noRole, noRole, noRole, absent},
	"GET /live/nodes/{datacenter}/{node}": {noLogin, noRole, noRole, noRole, absent},
	"GET /nodes/{datacenter}/{node}/log":  {noLogin, noRole, noRole, noRole, forSchedulersOnly + absent},
}

// readersOf maps the people of readingRoster to their column of a row, for a request about shop.
var readersOf = map[string]func(r row) string{
	"":      func(r row) string { return r.stranger },
	"dave":  func(r row) string { return r.former },
	"kim":   func(r row) string { return strings.Replace(r.former, "ROLE_MISSING", "SIGNER_UNKNOWN", 1) },
	"carol": func(r row) string { return r.ofProject },
	"dora":  func(r row) string { return r.ofProject },
	"otto":  func(r row) string { return r.ofProject },
	"adam":  func(r row) string { return r.ofProject },
	"gina":  func(r row) string { return r.ofProject },
	"erin":  func(r row) string { return r.ofOther },
	"emil":  func(r row) string { return r.ofOther },
	"bob":   row.toViewers,
	"dolf":  row.toViewers,
	"olga":  row.toSchedulers,
	"anna":  row.toSchedulers,
	"rita":  row.toViewers,
	"alice": row.toSchedulers,
}

// routesOf lists the routes of a coordinator.
func routesOf(t *testing.T, p *fixture) (served []string) {
	t.Helper()
	err := chi.Walk(p.handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, access.RouteOf(method, route))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(served)
	return served
}

// Each route, requested by each role and by strangers, with GET and with HEAD. A route without a row fails.
//
// Promise: Readers and roles: Each role reads exactly the routes that SECURITY.md lists for it.
// How: The test holds a hand-written table of 16 people at every route; a route without a row fails the test.
// Also: TestEveryRouteHasAScope
//
// Promise: Readers and roles: The dashboard shows signed texts, arguments, results and logs only to readers that may
// get them from the API.
// How: The same table of routes applies; datacenters are asked only when a page is opened, never by a stream.
// Also: TestReaderSeesNoOtherProject, TestProjectReaderSeesNoOtherProject,
// TestValuesAndLogAreAskedForOnRequestOnly.
func TestEveryRoleAtEveryRoute(t *testing.T) {
	p, s := startReading(t)
	sub := p.runFor(shop, "web-shop", "hello.tengo")
	s.tell(writ.Event{Resource: &writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "web"}, Deployment: "web"}})
	p.await("its resource", func() bool {
		list, err := p.Ledger.Resources(t.Context(), ledger.ResourceFilter{Name: "web"}, ledger.Page{})
		return err == nil && len(list.Items) == 1
	})
	tokens := map[string]string{"": ""}
	for name := range readersOf {
		if name != "" {
			tokens[name] = p.token(name)
		}
	}
	p.takeAway()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(readRights)), routesOf(t, p)); diff != "" {
		t.Fatalf("routes with a row (-), routes of the router (+):\n%s", diff)
	}
	for route, rights := range readRights {
		method, path := addressOf(route, sub)
		for name, column := range readersOf {
			want := column(rights)
			if got := p.answer(tokens[name], method, path, bodyFor(p, route)); got != want {
				t.Errorf("%s by %q: %s, want %s", route, name, got, want)
			}
			if method == http.MethodGet && !(isStream(path) && want == "200") { // a HEAD of a stream would stay open
				want, _, _ := strings.Cut(want, " ")
				if got := p.answer(tokens[name], http.MethodHead, path, ""); got != want {
					t.Errorf("HEAD %s by %q: %s, want %s", path, name, got, want)
				}
			}
		}
	}
}

// addressOf fills a route with the ids of a submission.
func addressOf(route string, sub writ.Submission) (method, path string) {
	method, pattern, _ := strings.Cut(route, " ")
	if strings.Contains(pattern, "{project}") { // the resource of TestEveryRoleAtEveryRoute
		pattern = strings.NewReplacer("{datacenter}", string(vienna), "{project}", string(shop), "{kind}", "volume", "{name}", "web").Replace(pattern)
	}
	path = strings.NewReplacer("{run}", string(sub.Run), "{id}", string(sub.Run), "{digest}", sub.Payload.String(), "{datacenter}", "vienna", "*", "dashboard.css").Replace(pattern)
	switch path {
	case "/live":
		path = "/live/"
	case "/v1/roster/adoptions", "/v1/runs/" + string(sub.Run) + "/standing", "/v1/datacenters/vienna/nodes/{node}/standing",
		"/v1/datacenters/vienna/tokens/standing":
		path += "?nonce=" + strings.Repeat("0", 2*writ.ClientNonce)
	case "/v1/datacenters/vienna/holds/standing":
		path += "?nonce=" + strings.Repeat("0", 2*writ.ClientNonce) + "&project=" + string(shop)
	}
	return method, path
}

func isStream(path string) bool {
	return strings.HasSuffix(path, "/events") || strings.HasPrefix(path, "/live/")
}

// bodyFor returns a body for a route.
func bodyFor(p *fixture, route string) string {
	switch {
	case strings.HasSuffix(route, "/plan"):
		return planFor(shop)
	case strings.HasSuffix(route, "/challenges"):
		// Strings and bytes.
		body, _ := json.Marshal(api.NewChallenge{Nonce: make([]byte, identity.NonceSize), URL: p.PublicURL})
		return string(body)
	case strings.HasPrefix(route, "POST "):
		return "x"
	}
	return ""
}

func planFor(project writ.ProjectID) string {
	return fmt.Sprintf(`{"project": %q, "calls": [{"operation": "volume.create", "name": "v", "args": {"size_gib": 1}}]}`, project)
}

// pageCode matches the code on a page of the dashboard.
var pageCode = regexp.MustCompile(`<p class="code">([A-Z_]+)</p>`)

// answer sends a request and returns its status and, if it was refused, the code.
func (p *fixture) answer(token, method, path, body string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hang)
	defer cancel() // ends a stream
	r, err := http.NewRequestWithContext(ctx, method, p.PublicURL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(path, "/v1/") && (strings.Contains(path, "submissions") || strings.HasSuffix(path, "logins") || strings.HasSuffix(path, "statements") || strings.HasSuffix(path, "roster")) {
		r.Header.Set("Content-Type", api.SignedType)
	}
	if path == "/login" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if isStream(path) {
		r.Header.Set("Accept", "text/event-stream")
	}
	response, err := p.client.Client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	answer := fmt.Sprint(response.StatusCode)
	if isStream(path) && response.StatusCode == http.StatusOK {
		response.Body.Close()
		return answer
	}
	_, text := p.read(response, nil)
	var problem api.Problem
	if page := pageCode.FindStringSubmatch(text); page != nil {
		return answer + " " + page[1]
	}
	if response.Header.Get("Content-Type") == api.ProblemType && json.Unmarshal([]byte(text), &problem) == nil {
		return answer + " " + string(problem.Code)
	}
	return answer
}

// A list without a project has the items of all readable projects, in pages.
//
// Promise: Readers and roles: A list without a project filter shows all readable projects in full pages.
// How: The ledger selects the projects before it cuts the page.
func TestListsDefaultToAllReadableProjects(t *testing.T) {
	p, s := startReading(t)
	want := map[writ.ProjectID]int{}
	for _, of := range []struct {
		project writ.ProjectID
		name    string
	}{{blog, "web-blog"}, {shop, "web-shop"}, {wiki, "web-wiki"}, {blog, "web-blog"}, {shop, "web-shop"}} {
		p.runFor(of.project, of.name, "hello.tengo")
		id := writ.ResourceID{Project: of.project, Kind: writ.KindVolume, Name: fmt.Sprint("v", want[of.project])}
		s.tell(writ.Event{Resource: &writ.Resource{ResourceID: id, UID: "u", Deployment: "d-" + id.Name}}, writ.Event{Usage: &writ.Usage{ResourceID: id, UID: "u", Node: "n1", Hour: time.Now().Truncate(time.Hour)}})
		want[of.project]++
	}
	p.await("resources", func() bool {
		list, err := p.Ledger.Usage(t.Context(), ledger.UsageFilter{}, ledger.Page{})
		return err == nil && len(list.Items) == 5
	})
	type page struct {
		Items []struct {
			Project writ.ProjectID `json:"project"`
			Secrets []writ.Secret  `json:"secrets"`
		} `json:"items"`
		Next string `json:"next_cursor"`
	}
	for who, projects := range map[string][]writ.ProjectID{"carol": {shop}, "gina": {shop, wiki}, "erin": {blog}, "bob": {shop, blog, wiki}} {
		token := p.token(who)
		for _, list := range []string{"/v1/runs", "/v1/resources", "/v1/deployments", "/v1/usage"} {
			got := map[writ.ProjectID]int{}
			most := 0
			for path := list + "?limit=1"; path != ""; most++ {
				status, body := p.as(token, http.MethodGet, path)
				var shown page
				if err := json.Unmarshal([]byte(body), &shown); err != nil || status != http.StatusOK || len(shown.Items) != 1 || most > 5 {
					t.Fatalf("%s by %s: status %d, %s", path, who, status, body)
				}
				got[shown.Items[0].Project]++
				if path = ""; shown.Next != "" {
					path = list + "?limit=1&cursor=" + shown.Next
				}
			}
			shows := map[writ.ProjectID]int{}
			for _, project := range projects {
				shows[project] = want[project]
			}
			if diff := cmp.Diff(shows, got); diff != "" {
				t.Errorf("%s by %s (-want +got):\n%s", list, who, diff)
			}
		}
		_, body := p.as(token, http.MethodGet, "/v1/secrets")
		var shown page
		if err := json.Unmarshal([]byte(body), &shown); err != nil {
			t.Fatal(err)
		}
		var got []writ.ProjectID
		for _, place := range shown.Items {
			for _, secret := range place.Secrets {
				got = append(got, secret.Project)
			}
		}
		slices.Sort(got)
		slices.Sort(projects)
		if !slices.Equal(got, projects) {
			t.Errorf("secrets for %s: of %v, want %v", who, got, projects)
		}
	}
}

// A logged-in person has the request rate of one address, however many addresses it uses. The log names the refused
// person.
//
// Promise: Load and attackers: A logged-in person gets the request allowance of one address, from any number of
// addresses.
// How: An allowance per name; the log names the refused person.
func TestPersonHasOneRateFromAllAddresses(t *testing.T) {
	p, _ := startReading(t)
	dave, erin := p.token("dave"), p.token("erin")
	p.front.Readers.PerSecond = 50 // a list counts as ten, and the burst is twice the rate
	ask := func(token string, from int) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, p.PublicURL+"/v1/runs", nil)
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:4000", from/250, from%250)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		return w
	}
	refused := 0
	for from := range 200 {
		switch w := ask(dave, from); w.Code {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			if refused++; w.Header().Get("Retry-After") == "" || !testenv.Mentions(w.Body.String(), string(writ.CodeRateLimited), "dave") {
				t.Fatalf("%v %s", w.Header(), w.Body)
			}
		default:
			t.Fatal(w.Code, w.Body)
		}
	}
	if refused < 100 {
		t.Errorf("%d of 200 lists were refused", refused)
	}
	if w := ask(erin, 0); w.Code != http.StatusOK {
		t.Errorf("another person: %d %s", w.Code, w.Body)
	}
	if p.log.Lines("signer=dave") == 0 {
		t.Errorf("the log does not name the refused signer:\n%s", p.log)
	}
}
