package client

import (
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/ledger/sqlstore"
)

// fixture is a cluster with a founder and three datacenters.
type fixture struct {
	alice       *Person
	signed      [][]byte
	datacenters map[string]ed25519.PrivateKey
	cluster     writ.ClusterID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	private, public := newKey(t, "", "")
	key := &Key{Signer: sshsig.NewSigner(private)}
	roster, first, err := Found(key, "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{cluster: identity.ClusterOf(public), datacenters: map[string]ed25519.PrivateKey{}, signed: [][]byte{first}}
	w.alice = &Person{Key: key, Name: "alice", Roster: roster}
	w.amend(t, func(next *identity.Roster) error {
		for _, d := range []writ.Datacenter{
			{Name: "graz", Region: "eu"},
			{Name: "linz", Region: "eu", Labels: map[string]string{"tier": "edge"}},
			{Name: "lima", Region: "sa", Labels: map[string]string{"tier": "edge"}},
		} {
			_, w.datacenters[d.Name], err = ed25519.GenerateKey(nil)
			if err != nil {
				return err
			}
			if err := AddDatacenter(next, d, w.datacenters[d.Name].Public().(ed25519.PublicKey)); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

func (w *fixture) amend(t *testing.T, change func(next *identity.Roster) error) {
	t.Helper()
	signed, err := Successor(w.alice.Roster, w.alice, time.Now(), change)
	if err != nil {
		t.Fatal(err)
	}
	w.signed = append(w.signed, signed)
	if w.alice.Roster, err = identity.VerifyRosters(w.cluster, w.signed, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// health returns the status of the datacenters as a coordinator reports it. The named ones are connected.
func (w *fixture) health(connected ...string) []api.Datacenter {
	var all []api.Datacenter
	for _, d := range w.alice.Roster.Datacenters {
		health := api.DatacenterHealthAway
		if slices.Contains(connected, d.Name) {
			health = api.DatacenterHealthHealthy
		}
		all = append(all, api.Datacenter{ID: d.ID, Name: d.Name, Health: health})
	}
	return all
}

func TestDatacenterIsChosenAndExplained(t *testing.T) {
	w := newFixture(t)
	queues := []api.DatacenterQueues{{
		Datacenter: w.alice.Roster.Datacenters.Named("graz").ID,
		Queues:     []writ.QueueDepth{{Planned: 1, Queued: 2}, {Running: 4}},
	}}
	for _, tt := range []struct {
		what      string
		labels    map[string]string
		connected []string
		want      string   // "" for DATACENTER_UNAVAILABLE
		explain   []string // the hint if none is chosen
	}{
		{"the least busy one", nil, []string{"graz", "linz"}, "linz", []string{
			"linz (eu): healthy, 0 open calls: chosen", "not graz (eu): healthy, but 7 open calls", "not lima: it is not connected"}},
		{"by region", map[string]string{"region": "sa"}, []string{"graz", "linz", "lima"}, "lima", []string{
			"lima (sa): healthy, 0 open calls: chosen", `not linz: region is "eu", not "sa"`, `not graz: region is "eu", not "sa"`}},
		{"by a label that some lack", map[string]string{"tier": "edge"}, []string{"graz", "linz"}, "linz", []string{
			"linz (eu): healthy, 0 open calls: chosen", "not lima: it is not connected", `not graz: tier is "", not "edge"`}},
		{"none is connected", nil, nil, "", []string{"with --dc lima, the script waits until this datacenter returns"}},
		{"none has the label", map[string]string{"tier": "core"}, []string{"graz", "linz", "lima"}, "", []string{
			"`writ roster show` shows the datacenters with their labels; choose another label, or one of them with --dc"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			choice, err := choose(w.alice.Roster, tt.labels, w.health(tt.connected...), queues, nil)
			if tt.want == "" {
				if e := writ.AsError(err); e.Code != writ.CodeDatacenterAway || e.Hint != tt.explain[0] {
					t.Errorf("%v with hint %q, want DATACENTER_UNAVAILABLE with %q", err, e.Hint, tt.explain[0])
				}
				return
			}
			if err != nil || choice.Datacenter.Name != tt.want {
				t.Fatalf("%s, %v; want %s", choice.Datacenter.Name, err, tt.want)
			}
			if diff := cmp.Diff(tt.explain, choice.Explain()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestADatacenterWithoutCapacityIsNotChosen(t *testing.T) {
	w := newFixture(t)
	node := func(cpus int64, change func(n *writ.Node)) writ.Node {
		n := writ.Node{
			Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessReady,
			Health: writ.Health{Capacity: writ.Capacity{CPUs: 8, MemoryMiB: 8192, DiskGiB: 100}}, Used: writ.Capacity{CPUs: 8 - cpus},
		}
		if change != nil {
			change(&n)
		}
		return n
	}
	needs := []writ.Capacity{{CPUs: 4, MemoryMiB: 1024}, {CPUs: 2}, {DiskGiB: 10}}
	for _, tt := range []struct {
		what  string
		nodes []writ.Node
		want  string
	}{
		{"room on one", []writ.Node{node(6, nil)}, ""},
		{"room on two", []writ.Node{node(4, nil), node(2, nil)}, ""},
		{"for no single call", []writ.Node{node(3, nil), node(3, nil)}, "no node that accepts work has 4 CPUs and 1024 MiB of memory left"},
		{"for each, not for all", []writ.Node{node(5, nil)}, "its nodes do not have 6 CPUs and 1024 MiB of memory and 10 GiB of disk left in total"},
		{"on a node that is cordoned", []writ.Node{node(8, func(n *writ.Node) { n.Scheduling = writ.SchedulingCordoned })}, "no node that accepts work has 4 CPUs and 1024 MiB of memory left"},
		{"on a node that is silent", []writ.Node{node(8, func(n *writ.Node) { n.Liveness = writ.LivenessSilent })}, "no node that accepts work has 4 CPUs and 1024 MiB of memory left"},
	} {
		if got := lacks(tt.nodes, needs); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
	if got := lacks(nil, nil); got != "" {
		t.Errorf("script without needs: %q", got)
	}
	graz, linz := w.alice.Roster.Datacenters.Named("graz"), w.alice.Roster.Datacenters.Named("linz")
	full := map[writ.DatacenterID]string{linz.ID: "no node has 4 CPUs left"}
	// A submission to a full datacenter fails at once, so the hint must not promise that it waits.
	if _, err := choose(w.alice.Roster, nil, w.health("linz"), nil, full); !strings.HasPrefix(writ.AsError(err).Hint,
		"with --dc ") || !strings.HasSuffix(writ.AsError(err).Hint, "; or add a node, or delete unused resources: `writ node list`, `writ resource list -o wide`") {
		t.Errorf("%v with the hint %q", err, writ.AsError(err).Hint)
	}
	busy := []api.DatacenterQueues{{Datacenter: graz.ID, Queues: []writ.QueueDepth{{Planned: 9}}}}
	choice, err := choose(w.alice.Roster, nil, w.health("graz", "linz"), busy, full)
	if err != nil || choice.Datacenter.ID != graz.ID || !slices.Contains(choice.Explain(), "not linz: no node has 4 CPUs left") {
		t.Errorf("%s, %v: %v", choice.Datacenter.Name, err, choice.Explain())
	}
}

// A resource that the script already made, or makes twice, counts once.
func TestPlanNeedsCapacityForNewResourcesOnly(t *testing.T) {
	order := Order{MaxCalls: 10, Script: NewScript("a.tengo", []byte(`
machine := import("machine")
node := import("node")
run := import("run")
volume := import("volume")
volume.create("data", {size_gib: 1})
volume.create("data", {size_gib: 10})
machine.create("web", {cpus: 2, memory_mib: 512})
machine.create("of-" + run.id, {cpus: 4, memory_mib: 256})
node.ping()
`))}
	plan, err := order.Plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	needs := Needs(plan, "p")
	all := []writ.Capacity{{DiskGiB: 10}, {CPUs: 2, MemoryMiB: 512}, {CPUs: 4, MemoryMiB: 256}}
	web := writ.Resource{ResourceID: writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web"}, Datacenter: "here"}
	other, there, container := web, web, web
	other.Project, there.Datacenter, container.Kind = "q", "there", writ.KindContainer
	for what, tt := range map[string]struct {
		have []writ.Resource
		want []writ.Capacity
	}{
		"nothing is there": {nil, all},
		"one is there":     {[]writ.Resource{web}, []writ.Capacity{all[0], all[2]}},
		"others are there": {[]writ.Resource{other, there, container}, all},
	} {
		if diff := cmp.Diff(tt.want, newIn("here", needs, tt.have)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

func TestDatacenterOutsideTheRosterIsNeverChosen(t *testing.T) {
	w := newFixture(t)
	lie := []api.Datacenter{{ID: writ.DatacenterID(writ.NewUUID()), Name: "graz", Health: api.DatacenterHealthHealthy}}
	if choice, err := choose(w.alice.Roster, nil, lie, nil, nil); err == nil {
		t.Errorf("%s was chosen", choice.Datacenter.Name)
	}
}

func TestOnlyTheSignatureOfTheDatacenterProvesHowARunEnded(t *testing.T) {
	w := newFixture(t)
	graz := w.alice.Roster.Datacenters.Named("graz")
	payload := writ.DigestOf([]byte("a payload"))
	summary := writ.Summary{
		Run: writ.RunIDOf(payload), Datacenter: graz.ID, Payload: payload, State: writ.RunSucceeded, Output: map[string]any{"n": int64(1) << 60},
	}
	signed := func(key ed25519.PrivateKey, kind envelope.Kind, s ...any) []byte {
		b, err := envelope.Sign(kind, key, s...)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	run := api.Run{ID: summary.Run, Datacenter: graz.ID, State: api.RunStateSucceeded, Summary: signed(w.datacenters["graz"], envelope.Summary, summary)}
	got, err := Outcome(w.alice.Roster, run)
	if diff := cmp.Diff(summary, got); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}

	other, later := summary, summary
	other.Run = writ.RunIDOf(writ.DigestOf([]byte("another payload")))
	later.State = writ.RunFailed
	elsewhere := summary
	elsewhere.Datacenter = w.alice.Roster.Datacenters.Named("linz").ID
	for what, change := range map[string]func(r *api.Run){
		"nothing signed":                     func(r *api.Run) { r.Summary = nil },
		"the envelope of another datacenter": func(r *api.Run) { r.Summary = signed(w.datacenters["linz"], envelope.Summary, summary) },
		"an envelope of another kind":        func(r *api.Run) { r.Summary = signed(w.datacenters["graz"], envelope.Result, summary) },
		"a changed byte":                     func(r *api.Run) { r.Summary = slices.Clone(r.Summary); r.Summary[len(r.Summary)/2] ^= 1 },
		"the summary of another run":         func(r *api.Run) { r.Summary = signed(w.datacenters["graz"], envelope.Summary, other) },
		"a run of another payload":           func(r *api.Run) { r.ID, r.Summary = other.Run, signed(w.datacenters["graz"], envelope.Summary, other) },
		"a summary about another datacenter": func(r *api.Run) { r.Summary = signed(w.datacenters["graz"], envelope.Summary, elsewhere) },
		"two summaries":                      func(r *api.Run) { r.Summary = signed(w.datacenters["graz"], envelope.Summary, summary, later) },
		"another end than the signed one":    func(r *api.Run) { r.Summary = signed(w.datacenters["graz"], envelope.Summary, later) },
		"an unknown datacenter":              func(r *api.Run) { r.Datacenter = writ.DatacenterID(writ.NewUUID()) },
	} {
		lie := run
		change(&lie)
		if got, err := Outcome(w.alice.Roster, lie); err == nil {
			t.Errorf("%s: believed: %+v", what, got)
		}
	}
}

// coordinator answers GET /v1/roster with the versions after the requested one.
func coordinator(t *testing.T, version int, signed ...[]byte) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := api.Rosters{Version: version, Signed: signed}
		if r.URL.Query().Get("after") != "0" {
			answer.Signed = nil
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a client that disconnects detects the loss
	}))
	t.Cleanup(s.Close)
	return s
}

func TestNextCoordinatorIsAskedIfOneIsGone(t *testing.T) {
	w := newFixture(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	here := coordinator(t, 2, w.signed...)
	c, err := New(config.Context{Servers: []string{gone.URL, here.URL}, Cluster: w.cluster}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Roster.Newest(t.Context()); err != nil || r.Version != 2 {
		t.Errorf("%v, %v", r, err)
	}
	here.Close()
	_, err = c.Roster.Newest(t.Context())
	if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), gone.URL) || !strings.Contains(err.Error(), here.URL) {
		t.Errorf("all gone: %v, want UNREACHABLE and both addresses", err)
	}
}

// An impostor at the address of a coordinator is reported, even if the other coordinators are unreachable.
func TestAFalseCoordinatorIsNotHiddenByOthersThatAreGone(t *testing.T) {
	w, dir := newFixture(t), t.TempDir()
	if _, err := config.RostersIn(dir, w.cluster).Add(w.signed...); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	defer other.Close()
	for _, addresses := range [][]string{{other.URL}, {other.URL, gone.URL}, {gone.URL, other.URL}} {
		c, err := New(config.Context{Servers: addresses, Cluster: w.cluster}, dir, Keys{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Roster.Newest(t.Context()); writ.CodeOf(err) != writ.CodeCertificateUntrusted {
			t.Errorf("%v: %v", addresses, err)
		}
	}
}

// If the coordinators of the context are unreachable, the client uses the coordinators of the newest stored roster.
//
// Promise: Connections and certificates: The last coordinator of a roster cannot be removed.
func TestAnotherCoordinatorOfTheRosterIsAsked(t *testing.T) {
	w, dir := newFixture(t), t.TempDir()
	_, key, _ := ed25519.GenerateKey(nil)
	public := key.Public().(ed25519.PublicKey)
	w.amend(t, func(next *identity.Roster) error {
		return AddCoordinator(next, "coord2", public, []string{"https://coord2.test:7440", "http://127.0.0.1:1"})
	})
	if _, err := config.RostersIn(dir, w.cluster).Add(w.signed...); err != nil {
		t.Fatal(err)
	}
	asked := func(addresses ...string) string {
		c, err := New(config.Context{Servers: addresses, Cluster: w.cluster}, dir, Keys{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, u := range c.API.Client.(*servers).urls {
			all = append(all, u.String())
		}
		return strings.Join(all, " ")
	}
	if got := asked("http://127.0.0.1:2"); got != "http://127.0.0.1:2 https://coord2.test:7440" {
		t.Errorf("asked are %s", got)
	}
	alone, err := New(config.Context{Servers: []string{"http://127.0.0.1:2"}, Cluster: w.cluster, Alone: true}, dir, Keys{})
	if err != nil || len(alone.API.Client.(*servers).urls) != 1 {
		t.Errorf("with a server that was named for one command: %v, %v", alone, err)
	}
	if got := asked("https://coord2.test:7440"); got != "https://coord2.test:7440" {
		t.Errorf("asked are %s", got)
	}
	for name, again := range map[string]func(*identity.Roster) error{
		"another key": func(r *identity.Roster) error {
			return AddCoordinator(r, "coord2", w.datacenters["graz"].Public().(ed25519.PublicKey), []string{"https://x.test"})
		},
		"the same key": func(r *identity.Roster) error { return AddCoordinator(r, "coord3", public, []string{"https://x.test"}) },
		"the same address": func(r *identity.Roster) error {
			return AddCoordinator(r, "coord3", newPublic(t), []string{"https://coord2.test:7440"})
		},
	} {
		if _, err := Successor(w.alice.Roster, w.alice, time.Now(), again); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if signed, err := Successor(w.alice.Roster, w.alice, time.Now(), func(r *identity.Roster) error {
		return AddCoordinator(r, "coord2", public, []string{"http://127.0.0.1:1", "https://coord2.test:7440"})
	}); signed != nil || err != nil {
		t.Errorf("the same again: %s, %v", signed, err)
	}
	w.amend(t, func(next *identity.Roster) error {
		return AddCoordinator(next, "coord2", public, []string{"https://more.test"})
	})
	if got := w.alice.Roster.Coordinators.At("https://more.test"); got == nil || len(got.URLs) != 3 {
		t.Errorf("with one more address it is %+v", got)
	}
	last := func(r *identity.Roster) error { return RemoveCoordinator(r, "coord2") }
	if _, err := Successor(w.alice.Roster, w.alice, time.Now(), last); writ.CodeOf(err) != writ.CodeConflict || writ.AsError(err).Hint == "" {
		t.Errorf("the last coordinator was removed: %v", err)
	}
	w.amend(t, func(next *identity.Roster) error {
		return AddCoordinator(next, "coord3", newPublic(t), []string{"https://coord3.test:7440"})
	})
	w.amend(t, func(next *identity.Roster) error { return RemoveCoordinator(next, "coord2") })
	if _, err := Successor(w.alice.Roster, w.alice, time.Now(), func(r *identity.Roster) error { return RemoveCoordinator(r, "coord2") }); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func newPublic(t *testing.T) ed25519.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestCoordinatorBehindTheSeenRosterIsRefused(t *testing.T) {
	w, dir := newFixture(t), t.TempDir()
	ask := func(version int, signed ...[]byte) (*identity.Roster, error) {
		c, err := New(config.Context{Servers: []string{coordinator(t, version, signed...).URL}, Cluster: w.cluster}, dir, Keys{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Roster.Newest(t.Context())
	}
	if r, err := ask(2, w.signed...); err != nil || r.Version != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := ask(1, w.signed[0]); writ.CodeOf(err) != writ.CodeRosterTooOld {
		t.Errorf("%v, want ROSTER_TOO_OLD", err)
	}
}

// A coordinator may lack or withhold rosters that the client received from another one. The next command submits them.
//
// Promise: Signatures and rosters: A command uploads the rosters that its coordinator lacks.
// How: The client uploads the rosters that it has seen and repeats its request.
func TestClientHandsInRosters(t *testing.T) {
	w, dir := newFixture(t), t.TempDir()
	for _, name := range []string{"web", "mail", "bank"} {
		w.amend(t, func(next *identity.Roster) error { return AddProject(next, name, "") })
	}
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	behind := httptest.NewUnstartedServer(nil)
	c, err := coord.New(coord.Config{
		Ledger: store, Log: slog.New(slog.DiscardHandler), PublicURL: "http://" + behind.Listener.Addr().String(), Cluster: w.cluster, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	behind.Config.Handler = c.Handler()
	behind.Start()
	t.Cleanup(behind.Close)
	if _, err := c.AddRoster(t.Context(), w.signed[0]); err != nil {
		t.Fatal(err)
	}
	newest := len(w.signed)
	for _, url := range []string{coordinator(t, newest, w.signed...).URL, behind.URL} {
		client, err := New(config.Context{Servers: []string{url}, Cluster: w.cluster}, dir, Keys{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := client.Roster.Newest(t.Context()); err != nil || r.Version != newest {
			t.Fatalf("%s: %v", url, err)
		}
	}
	if links, err := store.RosterLinks(t.Context(), 0); err != nil || len(links) != newest {
		t.Errorf("the coordinator has %d of %d versions, %v", len(links), newest, err)
	}
}

func TestSuccessorNeedsARootOperatorAndAChange(t *testing.T) {
	w := newFixture(t)
	private, public := newKey(t, "", "")
	w.amend(t, func(next *identity.Roster) error {
		return AddPrincipal(next, "bob", identity.Person, public, Grant{Roles: []identity.Role{identity.Admin}, Projects: []writ.ProjectID{identity.AllProjects}})
	})
	bob := &Person{Key: &Key{Signer: sshsig.NewSigner(private)}, Name: "bob"}
	addProject := func(next *identity.Roster) error { return AddProject(next, "web", "acme") }
	if _, err := Successor(w.alice.Roster, bob, time.Now(), addProject); writ.CodeOf(err) != writ.CodeRoleMissing {
		t.Errorf("by bob: %v, want ROLE_MISSING", err)
	}
	w.amend(t, addProject)
	if signed, err := Successor(w.alice.Roster, w.alice, time.Now(), addProject); signed != nil || err != nil {
		t.Errorf("an unchanged roster became a new version: %v", err)
	}
	if p, err := Project(w.alice.Roster, "web"); err != nil || p.Tenant == "" {
		t.Errorf("%+v, %v", p, err)
	}
	w.amend(t, func(next *identity.Roster) error { return AddProject(next, "web", "other") })
	if _, err := Project(w.alice.Roster, "web"); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("two projects of one name: %v, want CONFLICT", err)
	}
}

func TestGrantAddsMissingRights(t *testing.T) {
	w := newFixture(t)
	_, public := newKey(t, "", "")
	project := w.alice.Roster.Projects[0].ID
	grant := Grant{Roles: []identity.Role{identity.Deployer}, Projects: []writ.ProjectID{project}}
	w.amend(t, func(next *identity.Roster) error { return AddPrincipal(next, "bob", identity.Person, public, grant) })
	may := func(a identity.Action) bool { return w.alice.Roster.Allows("bob", a, project, time.Now()) == nil }
	if !may(identity.ActionSubmit) || may(identity.ActionDestroy) {
		t.Error("a deployer submits and does not destroy")
	}
	grant.Destructive = true
	w.amend(t, func(next *identity.Roster) error { return AddPrincipal(next, "bob", identity.Person, nil, grant) })
	if !may(identity.ActionDestroy) {
		t.Error("now he may")
	}
	if n := len(w.alice.Roster.Principal("bob").Keys); n != 1 {
		t.Errorf("%d keys", n)
	}
}

func TestRemovedKeyIsNotAddedAgain(t *testing.T) {
	w := newFixture(t)
	_, first := newKey(t, "", "")
	_, second := newKey(t, "", "")
	add := func(key ssh.PublicKey) error {
		_, err := Successor(w.alice.Roster, w.alice, time.Now(), func(next *identity.Roster) error {
			return AddPrincipal(next, "bob", identity.Person, key, Grant{})
		})
		return err
	}
	w.amend(t, func(next *identity.Roster) error { return AddPrincipal(next, "bob", identity.Person, first, Grant{}) })
	w.amend(t, func(next *identity.Roster) error { return AddPrincipal(next, "bob", identity.Person, second, Grant{}) })
	w.amend(t, func(next *identity.Roster) error {
		return RemovePrincipal(next, "bob", ssh.FingerprintSHA256(first), identity.Revoked)
	})
	if err := add(first); writ.CodeOf(err) != writ.CodeConflict || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked key: %v, want CONFLICT", err)
	}
	w.amend(t, func(next *identity.Roster) error { return RemovePrincipal(next, "bob", "", identity.Removed) })
	if err := add(second); writ.CodeOf(err) != writ.CodeConflict || !strings.Contains(writ.AsError(err).Hint, "bob-2") {
		t.Errorf("a removed name: %v, want CONFLICT and another name", err)
	}
}

func TestARootOperatorIsNotLeftWithoutAKey(t *testing.T) {
	w := newFixture(t)
	keys := w.alice.Roster.Principal(w.alice.Name).Keys
	first := ssh.FingerprintSHA256(keys[0].Key)
	remove := func(fingerprint string) error {
		_, err := Successor(w.alice.Roster, w.alice, time.Now(), func(next *identity.Roster) error {
			return RemovePrincipal(next, w.alice.Name, fingerprint, identity.Removed)
		})
		return err
	}
	for _, fingerprint := range []string{"", first} {
		if e := writ.AsError(remove(fingerprint)); e == nil || e.Code != writ.CodeConflict || e.Hint == "" {
			t.Errorf("remove %q: %v, want a CONFLICT with a hint", fingerprint, e)
		}
	}
	_, second := newKey(t, "", "")
	w.amend(t, func(next *identity.Roster) error {
		return AddPrincipal(next, w.alice.Name, identity.Person, second, Grant{})
	})
	if err := remove(first); err != nil {
		t.Errorf("remove one of two keys: %v", err)
	}
}
