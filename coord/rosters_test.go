package coord

import (
	"crypto/ed25519"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
	"writ/supervisor/link"
)

// successor returns the next version of a roster.
func successor(t testing.TB, r *identity.Roster, change func(next *identity.Roster)) *identity.Roster {
	t.Helper()
	next, err := r.Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	change(next)
	return next
}

func nothing(*identity.Roster) {}

// A request without a version gets the newest roster as it was signed, regardless of pages that other callers
// requested.
func TestDefaultPageIsTheNewestRoster(t *testing.T) {
	p := start(t, nil)
	roster := firstRoster()
	var text []byte
	for range 3 {
		roster = successor(t, roster, nothing)
		text = signedRoster(t, roster)
		if status, body := p.post("/v1/roster", text); status != 200 {
			t.Fatalf("status %d, %s", status, body)
		}
	}
	after := 1
	for _, params := range []*api.GetRosterParams{{After: &after}, {}} {
		got, err := api.Answer[api.Rosters](p.client.GetRoster(t.Context(), params))
		if err != nil || len(got.Signed) != 1 {
			t.Fatalf("%d rosters, %v", len(got.Signed), err)
		}
		if plain := string(got.Signed[0]) == string(text); plain != (params.After == nil) {
			t.Errorf("a version is named: %t, the answer is the signed text alone: %t", params.After != nil, plain)
		}
	}
}

func TestRosterReachesEveryDatacenter(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	second := successor(t, firstRoster(), func(r *identity.Roster) {
		r.Projects = append(r.Projects, identity.Project{ID: writ.ProjectID(writ.NewUUID()), Name: "bank"})
	})
	text := signedRoster(t, second)
	status, body := p.post("/v1/roster", text)
	if status != 200 || !strings.Contains(body, `"version":2`) {
		t.Fatalf("status %d, %s", status, body)
	}
	has := func(s *supervisor, version int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.roster.Version == version
		}
	}
	p.await("the connected one has it", has(s, 2))
	late := connect(p, graz, nil)
	p.await("the roster at the later datacenter", has(late, 2))
	if status, _ := p.post("/v1/roster", text); status != 200 {
		t.Errorf("the same again: status %d", status)
	}

	got, err := api.Answer[api.Rosters](p.client.GetRoster(t.Context(), &api.GetRosterParams{}))
	if err != nil || got.Version != 2 || len(got.Signed) != 1 || string(got.Signed[0]) != string(text) || got.Cluster != second.Cluster {
		t.Errorf("newest: %+v, %v", got, err)
	}
	all := 0
	got, err = api.Answer[api.Rosters](p.client.GetRoster(t.Context(), &api.GetRosterParams{After: &all}))
	if err != nil || len(got.Signed) != 2 {
		t.Fatalf("all: %+v, %v", got, err)
	}
	if r, err := identity.VerifyRosters(second.Cluster, got.Signed, time.Now()); err != nil || r.Version != 2 {
		t.Errorf("the chain does not verify: %v", err)
	}
	var asked link.Rosters
	if err := late.dialer.Request(t.Context(), link.VerbRoster, link.RosterVersion{Version: 1}, &asked); err != nil || len(asked.Signed) != 1 {
		t.Errorf("a supervisor that asks gets %d rosters, %v", len(asked.Signed), err)
	}
	projects, err := api.Answer[api.ProjectList](p.client.ListProjects(t.Context()))
	if err != nil || len(projects.Items) != 3 {
		t.Errorf("projects: %+v, %v", projects, err)
	}
}

func TestUnrelatedRosterIsRefused(t *testing.T) {
	p := start(t, nil)
	second := successor(t, firstRoster(), nothing)
	unsigned, err := identity.SignRoster(second, signer("bob"))
	if err != nil {
		t.Fatal(err)
	}
	third := successor(t, second, nothing)
	altered := slices.Clone(signedRoster(t, second))
	altered[len("writ-roster: v1\ncluster: ")] ^= 1
	for name, bad := range map[string]struct {
		text []byte
		code writ.Code
	}{
		"not by an operator": {unsigned, writ.CodeRosterInvalid},
		"without the second": {signedRoster(t, third), writ.CodeRosterInvalid},
		"altered":            {altered, writ.CodeSignatureInvalid},
		"nothing":            {nil, writ.CodeSignatureMalformed},
	} {
		status, body := p.post("/v1/roster", bad.text)
		wantProblem(t, name, status, body, bad.code)
	}
	if r, err := p.rosters.Newest(t.Context()); err != nil || r.Version != 1 {
		t.Errorf("the roster is version %d, %v", r.Version, err)
	}
}

func TestFirstRosterIsOfTheCoordinatorsCluster(t *testing.T) {
	stranger := firstRoster()
	stranger.Root = signer("mallory").PublicKey()
	stranger.Cluster = identity.ClusterOf(stranger.Root)
	text, err := identity.SignRoster(stranger, signer("mallory"))
	if err != nil {
		t.Fatal(err)
	}
	// The fixture's roster is refused too.
	p := start(t, func(c *Config) { c.Cluster = writ.ClusterID(strings.Repeat("1", 64)) })
	if status, body := p.post("/v1/roster", text); status != 403 {
		t.Errorf("status %d, %s", status, body)
	}
	status, body := p.get("/v1/roster")
	wantProblem(t, "no roster", status, body, writ.CodeRosterInvalid)
	if status, _ := p.get("/readyz"); status != 503 {
		t.Errorf("ready without a roster: status %d", status)
	}
}

func TestReplacedKeyEndsTheLink(t *testing.T) {
	p := start(t, nil)
	connect(p, vienna, nil)
	connect(p, graz, nil)
	replaced, _ := p.links.Session(vienna)
	kept, _ := p.links.Session(graz)
	current, err := p.rosters.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, err := current.Successor(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	next.Datacenter(vienna).SupervisorKey = key("another supervisor").Public().(ed25519.PublicKey)
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-replaced.Done():
	case <-time.After(hang):
		t.Fatal("the old supervisor keeps its link")
	}
	select {
	case <-kept.Done():
		t.Error("another datacenter lost its link")
	default:
	}
}

func TestOnlyTheRostersSupervisorConnects(t *testing.T) {
	p := start(t, nil)
	nonce := make([]byte, 32)
	sign := func(key ed25519.PrivateKey, url string, h link.Hello) link.Hello {
		h.Signature = ed25519.Sign(key, identity.LinkHelloText(nonce, url, h.Datacenter, h.Journal))
		return h
	}
	good := link.Hello{Datacenter: vienna, Journal: "j"}
	unknown := link.Hello{Datacenter: writ.DatacenterID(writ.NewUUID()), Journal: "j"}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.PublicURL, "http://"))
	for _, tt := range []struct {
		name  string
		hello link.Hello
		want  writ.Code
	}{
		{"itself", sign(key("supervisor "+string(vienna)), p.PublicURL, good), ""},
		{"itself with a slash", sign(key("supervisor "+string(vienna)), p.PublicURL+"/", good), ""},
		{"itself by another name of loopback", sign(key("supervisor "+string(vienna)), "http://localhost:"+port, good), ""},
		{"another datacenter", sign(key("supervisor "+string(graz)), p.PublicURL, good), writ.CodeSignatureInvalid},
		{"meant for another coordinator", sign(key("supervisor "+string(vienna)), "https://evil.example", good), writ.CodeSignatureInvalid},
		{"nowhere", sign(key("supervisor "+string(vienna)), p.PublicURL, unknown), writ.CodeDatacenterUnknown},
	} {
		if err := (supervisors{p.Coordinator}).authenticate(t.Context(), tt.hello, nonce); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	other := make([]byte, 32)
	other[0] = 1
	if err := (supervisors{p.Coordinator}).authenticate(t.Context(), sign(key("supervisor "+string(vienna)), p.PublicURL, good), other); writ.CodeOf(err) != writ.CodeSignatureInvalid {
		t.Errorf("replayed: %v", err)
	}
}

func TestHealthOfDatacentersIsDerived(t *testing.T) {
	p := start(t, nil)
	next := successor(t, firstRoster(), func(r *identity.Roster) {
		for i := range r.Datacenters {
			r.Datacenters[i].Enabled = r.Datacenters[i].ID == vienna
		}
	})
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	connect(p, graz, nil)
	list := func() map[writ.DatacenterID]api.Datacenter {
		all, err := api.Answer[api.DatacenterList](p.client.ListDatacenters(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		m := map[writ.DatacenterID]api.Datacenter{}
		for _, d := range all.Items {
			m[d.ID] = d
		}
		return m
	}
	before := list()
	if d := before[vienna]; d.Health != api.DatacenterHealthAway || d.Placeable || d.Reason == "" || d.Region != "eu" || d.Name != "vienna" {
		t.Errorf("away: %+v", d)
	}
	if d := before[graz]; d.Health != api.DatacenterHealthHealthy || d.Placeable || d.Reason == "" {
		t.Errorf("disabled: %+v", d)
	}
	s := connect(p, vienna, nil)
	if d := list()[vienna]; d.Health != api.DatacenterHealthHealthy || !d.Placeable || d.Reason != "" || d.Version != "test" || d.Connected.IsZero() {
		t.Errorf("connected: %+v", d)
	}
	s.leave()
	if d := list()[vienna]; d.Health != api.DatacenterHealthAway {
		t.Errorf("gone: %+v", d)
	}
	regions, err := api.Answer[api.RegionList](p.client.ListRegions(t.Context()))
	if err != nil || len(regions.Items) != 1 || regions.Items[0].Datacenters != 2 {
		t.Errorf("regions: %+v, %v", regions, err)
	}
}

func TestStatementIsDecidedByItsDatacenter(t *testing.T) {
	p := start(t, nil)
	waiting, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	cancel := signed(t, "alice", sshsig.StatementNamespace, statement("run/"+string(waiting.Run), "cancel"))
	status, body := p.post("/v1/statements", cancel)
	wantProblem(t, "while it is away", status, body, writ.CodeDatacenterAway)
	connect(p, vienna, nil)
	status, body = p.post("/v1/statements", cancel)
	if status != 200 || !strings.Contains(body, `"done":"it is done"`) || !strings.Contains(body, string(waiting.Run)) {
		t.Errorf("connected: status %d, %s", status, body)
	}
	unknown := signed(t, "alice", sshsig.StatementNamespace, statement("run/"+string(writ.RunIDOf(writ.Digest{1})), "cancel"))
	status, body = p.post("/v1/statements", unknown)
	wantProblem(t, "about no run", status, body, writ.CodeNotFound)
	byBob := statement("run/"+string(waiting.Run), "cancel")
	byBob.Signer = "bob"
	status, body = p.post("/v1/statements", signed(t, "bob", sshsig.StatementNamespace, byBob))
	wantProblem(t, "without the role", status, body, writ.CodeRoleMissing)
	status, body = p.post("/v1/statements", signedScript(t, payload()))
	wantProblem(t, "a script", status, body, writ.CodeSignatureNamespace)
	if !strings.Contains(p.log.String(), `msg="statement refused"`) {
		t.Error("the log has no refusal")
	}
}

func TestSupervisorAsksForAPlace(t *testing.T) {
	p := start(t, nil)
	name := "north"
	public := key("new supervisor").Public().(ed25519.PublicKey)
	nonce := make([]byte, identity.NonceSize)
	token := identity.NewToken(firstRoster().Cluster)
	good := api.NewRegistration{Token: token.ID, Name: name, Key: public, Nonce: nonce, Proof: token.Prove(identity.RegistrationText(token.ID, name, public, nonce)), URL: "http://10.0.0.7:7441"}
	for range 2 { // the response was lost
		got, err := api.Answer[api.Registration](p.client.Register(t.Context(), good))
		if err != nil || got.Name != name || !strings.HasPrefix(got.Fingerprint, "SHA256:") || got.Received.IsZero() {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	list, err := api.Answer[api.RegistrationList](p.client.ListRegistrations(t.Context()))
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	w := list.Items[0]
	if !token.Key().Verify(identity.RegistrationText(w.Token, w.Name, w.Key, w.Nonce), w.Proof) {
		t.Error("the proof does not survive the way")
	}
	for what, change := range map[string]func(r *api.NewRegistration){
		"a bad name":         func(r *api.NewRegistration) { r.Name = "No Name" },
		"a short key":        func(r *api.NewRegistration) { r.Key = r.Key[1:] },
		"a short nonce":      func(r *api.NewRegistration) { r.Nonce = nil },
		"a proof of nothing": func(r *api.NewRegistration) { r.Token = "" },
		"a token not proved": func(r *api.NewRegistration) { r.Proof = nil },
		"a bad address":      func(r *api.NewRegistration) { r.URL = "javascript:alert(1)" },
		"a proof of 1 MB":    func(r *api.NewRegistration) { r.Proof = make([]byte, 300<<10) },
	} {
		bad := good
		change(&bad)
		if _, err := api.Answer[api.Registration](p.client.Register(t.Context(), bad)); writ.CodeOf(err) != writ.CodeBadRequest && writ.CodeOf(err) != writ.CodeTooLarge {
			t.Errorf("%s: %v", what, err)
		}
	}
	known := good
	known.Key = supervisorKey(vienna)
	if _, err := api.Answer[api.Registration](p.client.Register(t.Context(), known)); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("a key that the roster has: %v", err)
	}
	next := successor(t, firstRoster(), func(r *identity.Roster) {
		r.Datacenters = append(r.Datacenters, identity.Datacenter{
			Datacenter: writ.Datacenter{ID: writ.DatacenterID(writ.NewUUID()), Name: name, Region: "eu"}, SupervisorKey: public, Enabled: true})
	})
	if _, err := p.AddRoster(t.Context(), signedRoster(t, next)); err != nil {
		t.Fatal(err)
	}
	if list, err := api.Answer[api.RegistrationList](p.client.ListRegistrations(t.Context())); err != nil || len(list.Items) != 0 {
		t.Errorf("after it was taken in: %+v, %v", list, err)
	}
}

// Registering needs no right: a flood from one address displaces only registrations from its network; a supervisor from
// elsewhere keeps its place.
//
// Promise: Load and attackers: Unknown clients cannot prevent a new supervisor from registering: 100 may wait, and
// then the largest network loses one, first one without a proof.
// How: The network of each is stored; a registration cannot be replaced; `writ dc add` skips false proofs.
// Also: TestLedgerInMemory/a_flood_of_registrations, TestStrangersUseNoSupervisorSlots,
// TestLedgerInMemory/a_registration_replaces_no_other.
func TestRegistrationFloodDisplacesOnlyItsNetwork(t *testing.T) {
	p := start(t, nil)
	register := func(from string, names ...string) {
		t.Helper()
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		defer transport.CloseIdleConnections()
		client, err := apiclient.NewClient(p.PublicURL, apiclient.WithHTTPClient(&http.Client{Transport: transport}))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			r := api.NewRegistration{Name: name, Key: key(name).Public().(ed25519.PublicKey), Nonce: make([]byte, identity.NonceSize)}
			if _, err := api.Answer[api.Registration](client.Register(t.Context(), r)); err != nil {
				t.Fatalf("%s from %s: %v", name, from, err)
			}
		}
	}
	var flood []string
	for n := range ledger.MaxRegistrations + 20 {
		flood = append(flood, fmt.Sprint("flood-", n))
	}
	register("127.0.0.2", "early")
	register("127.0.0.1", flood...)
	register("127.0.0.3", "late")
	register("127.0.0.1", "last")
	list, err := api.Answer[api.RegistrationList](p.client.ListRegistrations(t.Context()))
	if err != nil || len(list.Items) != ledger.MaxRegistrations {
		t.Fatalf("%d wait, %v", len(list.Items), err)
	}
	for name, want := range map[string]bool{"early": true, "late": true, "last": true, "flood-0": false, "flood-22": false, "flood-23": true} {
		if slices.ContainsFunc(list.Items, func(r api.Registration) bool { return r.Name == name }) != want {
			t.Errorf("%s waits: %v, want %v", name, !want, want)
		}
	}
}
