package dashboard_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/identity/expiring"
	"writ/identity/sshsig"
	"writ/internal/httpguard"
	"writ/ledger"
	"writ/ledger/sqlstore"
	"writ/supervisor/link"
)

const (
	ams  = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
	gent = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000b")
	fra  = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000c")
	shop = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c1")
	bank = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c2")
)

// ci is the machine that the authority certifies.
const ci = "ci-release"

// hang limits a wait.
const hang = 30 * time.Second

// fixture is a dashboard with a real ledger. It implements LiveView instead of a coordinator.
type fixture struct {
	t      testing.TB
	ledger *sqlstore.Store
	board  *dashboard.Dashboard
	url    string
	seq    map[writ.DatacenterID]int64

	mu          sync.Mutex
	datacenters []api.Datacenter
	queues      []api.DatacenterQueues
	holds       []api.DatacenterHolds
	boots       []api.DatacenterBoots
	news        chan struct{}
	reader      page.Reader
	values      api.RunValues // the datacenter's answers about values, and about the log
	lines       []writ.LogLine
	kept        []api.DatacenterSecrets    // the secrets of the datacenters
	reasons     map[writ.RunID]writ.Reason // reasons of waiting runs, if not the default
	asked       []writ.RunID               // runs whose values or log were requested
	notice      atomic.Value               // string
	ledgerDown  atomic.Bool
	looked      chan struct{} // gets a token whenever a stream has sent all its changes
	log         api.NodeLog
	askedLogs   []link.LogOfNode
	loads       map[string]*api.Load // by name of the resource
	askedLoads  []writ.Resource
	code        string // handed in by a browser to log in
	ended       bool   // all logins have ended
	ends        []expiring.Item
	// ahead is added to the times of open runs in the scene. Without it they become stuck during a test of minutes, and
	// the pages change.
	ahead time.Duration
}

func (w *fixture) Datacenters(context.Context) ([]api.Datacenter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.datacenters, nil
}

func (w *fixture) Queues(context.Context) ([]api.DatacenterQueues, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues, nil
}

func (w *fixture) Holds(context.Context, writ.DatacenterID) ([]api.DatacenterHolds, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds, nil
}

func (w *fixture) Boots(context.Context, writ.DatacenterID, int) ([]api.DatacenterBoots, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boots, nil
}

func (w *fixture) News() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.looked <- struct{}{}:
	default:
	}
	return w.news
}

// awaitLook returns when the open stream has read everything stored before, and sent its changes.
func (w *fixture) awaitLook() {
	w.t.Helper()
	for len(w.looked) > 0 {
		<-w.looked
	}
	late := time.After(hang)
	for range 2 { // the first may have started before
		select {
		case <-w.looked:
		case <-late:
			w.t.Fatal("no stream looks")
		}
	}
}

// readAs sets the reader of all requests.
func (w *fixture) readAs(r page.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reader = r
}

func (w *fixture) whoReads(context.Context) page.Reader {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reader
}

func (w *fixture) Why(_ context.Context, runs ...ledger.Run) (map[writ.RunID]writ.Reason, error) {
	why := map[writ.RunID]writ.Reason{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range runs {
		if reason, ok := w.reasons[run.ID]; ok {
			why[run.ID] = reason
			continue
		}
		switch run.State {
		case ledger.StateWaiting:
			why[run.ID] = writ.Reason{Code: writ.ReasonConnect, Datacenter: "fra1"}
		case ledger.State(writ.RunRunning):
			why[run.ID] = writ.Reason{
				Code: writ.ReasonOpenCall, Seq: 4, Call: "container.create web-1", State: "running", Node: "ams1-n3",
			}
		}
	}
	return why, nil
}

// heldBy returns the reason of a run that a hold of a datacenter, or of one of its projects, stops.
func heldBy(signer, datacenter, project string) writ.Reason {
	return writ.Reason{Code: writ.ReasonHold, Hold: &writ.HoldReason{By: signer, Datacenter: datacenter, Project: project}}
}

// because sets the reason why a run waits.
func (w *fixture) because(run writ.RunID, why writ.Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reasons == nil {
		w.reasons = map[writ.RunID]writ.Reason{}
	}
	w.reasons[run] = why
}

// Certificate replaces the lookup with a roster: each text that names a certificate is signed by this one.
func (w *fixture) Certificate(context.Context, []byte) (*identity.Certificate, error) {
	return &identity.Certificate{KeyID: "release-17", Serial: 17, Authority: "forge", Until: time.Unix(1_800_000_000, 0).UTC()}, nil
}

// Output replaces the verification of a summary: here a summary is the output as JSON.
func (w *fixture) Output(_ context.Context, run ledger.Run) (out map[string]any, err error) {
	if len(run.Summary) > 0 {
		err = json.Unmarshal(run.Summary, &out)
	}
	return out, err
}

func (w *fixture) Values(_ context.Context, run writ.RunID, after, max int) (api.RunValues, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.values
	v.Calls = slices.DeleteFunc(slices.Clone(v.Calls), func(c api.CallValues) bool { return c.Seq <= after })
	if v.More = max > 0 && len(v.Calls) >= max; v.More {
		v.Calls = v.Calls[:max]
	}
	w.asked = append(w.asked, run)
	return v, nil
}

// Secrets answers like a coordinator, which filters by the readable projects.
func (w *fixture) Secrets(_ context.Context, only writ.DatacenterID, projects []writ.ProjectID) (all []api.DatacenterSecrets, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dc := range w.kept {
		if only != "" && dc.Datacenter != only {
			continue
		}
		dc.Secrets = slices.DeleteFunc(slices.Clone(dc.Secrets), func(s writ.Secret) bool { return len(projects) > 0 && !slices.Contains(projects, s.Project) })
		all = append(all, dc)
	}
	return all, nil
}

func (w *fixture) LogLines(_ context.Context, run writ.RunID, after, max int) ([]writ.LogLine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, run)
	lines := slices.Clone(w.lines[min(after, len(w.lines)):])
	return lines[:min(max, len(lines))], nil
}

func (w *fixture) NodeLog(_ context.Context, _ writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.askedLogs = append(w.askedLogs, query)
	return w.log, nil
}

func (w *fixture) Loads(_ context.Context, resources []writ.Resource) ([]api.ListedResource, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.askedLoads = append(w.askedLoads, resources...)
	return api.Views(resources, func(r writ.Resource) api.ListedResource {
		return api.ListedResource{Resource: r, Load: w.loads[r.Name]}
	}), nil
}

// wake wakes the pages, like a coordinator after a write to the ledger.
func (w *fixture) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.news)
	w.news = make(chan struct{})
}

// setQueues sets the depths that the datacenters report.
func (w *fixture) setQueues(queues ...api.DatacenterQueues) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = queues
}

// open serves the dashboard of an empty ledger with three datacenters. One of them is disconnected.
func open(t testing.TB) *fixture {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	connected := time.Now().Add(-5*time.Hour - 12*time.Minute)
	w := &fixture{
		t: t, ledger: store, seq: map[writ.DatacenterID]int64{}, news: make(chan struct{}), looked: make(chan struct{}, 100), reader: page.Reader{All: true},
		datacenters: []api.Datacenter{
			{ID: ams, Name: "ams1", Region: "eu-west", Key: "SHA256:4dT0bJ5rkK9mQ2xw8Yp1cVnE7sLhUuZfAoRg3iBqXvM", Labels: map[string]string{"tier": "gold", "power": "solar"}, Enabled: true, Health: api.DatacenterHealthHealthy, Placeable: true, Version: "v0.1.0", Roster: 7, Connected: connected},
			{ID: gent, Name: "gent2", Region: "eu-west", Key: "SHA256:Yk2LsQ0aVn8uHcXo5tMZpB3wGfRj7dEiT1rNqK6vC9y", Enabled: true, Health: api.DatacenterHealthHealthy, Placeable: true, Version: "v0.1.0", Roster: 7, Connected: connected.Add(time.Hour)},
			{ID: fra, Name: "fra1", Region: "eu-central", Key: "SHA256:p9VbN4zWc2eXq7TfKhL0mRjYs8uGaD5oI1iE3wQxZtU", Enabled: true, Health: api.DatacenterHealthAway, Reason: "its supervisor is not connected"},
		},
		queues: []api.DatacenterQueues{{Datacenter: ams, Name: "ams1"}, {Datacenter: gent, Name: "gent2"},
			{Datacenter: fra, Name: "fra1", Error: writ.Errorf(writ.CodeDatacenterAway, "the datacenter fra1 is not connected")}},
	}
	w.addRoster()
	stopping := make(chan struct{})
	board := &dashboard.Dashboard{Ledger: store, LiveView: w, Log: slog.New(slog.DiscardHandler), Stopping: stopping, MaxStreams: 4, Reader: w.whoReads, Still: w.still, Ends: w.expiring, LedgerDown: w.ledgerDown.Load,
		Notice: func(context.Context) string { text, _ := w.notice.Load().(string); return text }}
	w.board = board
	routes := chi.NewRouter()
	routes.Use(w.refuse)
	board.Register(routes)
	routes.Post("/login", w.logIn)
	server := httptest.NewServer(routes)
	w.url = server.URL
	t.Cleanup(func() {
		close(stopping)
		server.Close()
		store.Close()
	})
	return w
}

// logIn accepts the code of a browser, from a page of this server only, like the coordinator.
func (w *fixture) logIn(answer http.ResponseWriter, r *http.Request) {
	if err := new(httpguard.Guard).Check(r); err != nil {
		http.Error(answer, err.Error(), http.StatusForbidden)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = r.PostFormValue("code")
	http.Redirect(answer, r, "/", http.StatusSeeOther)
}

// refuse rejects all requests except for files, like the coordinator without a login, once all logins have ended.
func (w *fixture) refuse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if err := w.still(r.Context()); err != nil && !strings.HasPrefix(r.URL.Path, "/static/") {
			w.board.Refuse(answer, r, err)
			return
		}
		next.ServeHTTP(answer, r)
	})
}

func (w *fixture) expiring(context.Context) []expiring.Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends
}

func (w *fixture) still(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		return nil
	}
	return writ.Errorf(writ.CodeLoginRequired, "reading needs a login here")
}

// root is the key of the root operator.
func root() sshsig.Signer {
	return sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
}

// signs gives a submission a signed text with this script, which a page can show.
func (w *fixture) signs(in *ledger.Incoming, script string, params map[string]any, modules ...identity.File) {
	w.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	p := &identity.Payload{
		Format: identity.FormatV2, Cluster: identity.ClusterOf(root().PublicKey()), Datacenter: in.Datacenter, Roster: 1, RosterDigest: writ.DigestOf([]byte("roster")),
		Project: in.Project, ProjectName: "web-shop", Signer: in.Signer, Created: now, Expires: now.Add(identity.DefaultValidity), Deadline: time.Hour,
		Nonce: identity.NewNonce(), Engine: "tengo/2.17.0 api/1", Allow: []string{"volume.create", "machine.create"}, Targets: []string{"volume/web-*"}, MaxCalls: 20,
		Params: params, Modules: modules, Script: identity.File{Name: in.Script, Text: []byte(script)},
	}
	if in.Signer == ci {
		p.Format, p.Certificate = identity.FormatV3, writ.DigestOf([]byte("certificate"))
	}
	text, err := p.Text()
	w.ok(err)
	signature, err := root().Sign(sshsig.ScriptNamespace, text)
	w.ok(err)
	in.Signed = sshsig.Join(text, signature)
}

func (w *fixture) addRoster() {
	root := root()
	now := time.Now()
	roster := &identity.Roster{
		Version: 1, Root: root.PublicKey(), Cluster: identity.ClusterOf(root.PublicKey()),
		Created: now, Expires: now.Add(identity.RosterValidity), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: root.PublicKey(), State: identity.Active}}}},
		Tenants:    []identity.Tenant{{ID: "0192f6c2-0000-7000-8000-0000000000e1", Name: "other"}},
		Projects: []identity.Project{
			{ID: shop, Name: "web-shop"}, {ID: bank, Name: "ledger-bank"}, {ID: "0192f6c2-0000-7000-8000-0000000000e2", Name: "ledger-bank", Tenant: "0192f6c2-0000-7000-8000-0000000000e1"},
		},
	}
	signed, err := identity.SignRoster(roster, root)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ok(w.ledger.AddRoster(w.t.Context(), roster, signed))
}

func (w *fixture) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// submit stores a waiting submission and returns its run.
func (w *fixture) submit(n int, script string, change func(in *ledger.Incoming)) writ.Run {
	w.t.Helper()
	payload := writ.DigestOf(fmt.Appendf(nil, "payload %d", n))
	in := ledger.Incoming{
		Submission: writ.Submission{
			Payload: payload, Run: writ.RunIDOf(payload), Datacenter: ams, Project: shop, Signer: "alice", Script: script,
			State: writ.SubmissionWaiting, Received: time.Now(), Expires: time.Now().Add(15 * time.Minute),
		},
		ProjectName: "web-shop", Signed: []byte("signed"),
	}
	if change != nil {
		change(&in)
	}
	if text, _, err := sshsig.Split(in.Signed); err == nil {
		in.Payload = writ.DigestOf(text)
		in.Run = writ.RunIDOf(in.Payload)
	}
	_, _, err := w.ledger.AddSubmission(w.t.Context(), in)
	w.ok(err)
	return writ.Run{
		ID: in.Run, Datacenter: in.Datacenter, Project: in.Project, ProjectName: in.ProjectName, Deployment: in.Deployment, Signer: in.Signer,
		Script: in.Script, Payload: in.Payload, State: writ.RunAccepted, Accepted: in.Received.Add(40 * time.Millisecond), Deadline: in.Received.Add(time.Hour),
	}
}

// store stores events of a datacenter and wakes the pages.
func (w *fixture) store(dc writ.DatacenterID, events ...writ.Event) {
	w.t.Helper()
	for i := range events {
		w.seq[dc]++
		events[i].Journal, events[i].Seq, events[i].Time = "journal", w.seq[dc], time.Now()
	}
	w.ok(w.ledger.StoreEvents(w.t.Context(), dc, events))
	w.wake()
}

// run stores a run with its calls, like the events of its datacenter.
func (w *fixture) run(run writ.Run, calls ...writ.Call) {
	w.t.Helper()
	events := []writ.Event{{Run: &run}}
	for i := range calls {
		calls[i].Run, calls[i].Seq = run.ID, i+1
		events = append(events, writ.Event{Call: &calls[i]})
	}
	w.store(run.Datacenter, events...)
}

// get requests a path.
func (w *fixture) get(path string) (*http.Response, string) {
	w.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithTimeout(w.t.Context(), hang) // a wrongly admitted request may be a stream
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	w.ok(err)
	response, err := client.Do(request)
	w.ok(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.ok(err)
	return response, string(body)
}

// page returns the HTML at a path, which must exist.
func (w *fixture) page(path string) string {
	w.t.Helper()
	response, body := w.get(path)
	if response.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %s\n%s", path, response.Status, body)
	}
	return body
}

// wants checks that a text contains the parts.
func wants(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing", part)
		}
	}
}
