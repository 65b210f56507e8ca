package coord

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
	"writ/supervisor/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang limits a wait.
const hang = 30 * time.Second

const (
	vienna = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")
	graz   = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000b")
	shop   = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c1")
	blog   = writ.ProjectID("0192f6c2-0000-7000-8000-0000000000c2")
	engine = "tengo/2.17.0 api/1"
)

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func signer(name string) sshsig.Signer { return sshsig.NewSigner(key(name)) }

func supervisorKey(dc writ.DatacenterID) ed25519.PublicKey {
	return key("supervisor " + string(dc)).Public().(ed25519.PublicKey)
}

// founded is the founding time of the test cluster. It is fixed so that the first roster always has the same text.
var founded = time.Now().UTC().Truncate(time.Second)

// firstRoster has alice with all rights, bob as viewer, and two datacenters.
func firstRoster() *identity.Roster {
	root := signer("alice").PublicKey()
	now := founded
	person := func(name string) identity.Principal {
		return identity.Principal{Name: name, Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: signer(name).PublicKey(), State: identity.Active}}}
	}
	place := func(id writ.DatacenterID, name string) identity.Datacenter {
		return identity.Datacenter{Datacenter: writ.Datacenter{ID: id, Name: name, Region: "eu"}, SupervisorKey: supervisorKey(id), Enabled: true}
	}
	return &identity.Roster{
		Cluster: identity.ClusterOf(root), Version: 1, Created: now.Add(-time.Hour), Expires: now.Add(identity.RosterValidity),
		Root: root, Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{person("alice"), person("bob")},
		Projects:   []identity.Project{{ID: shop, Name: "web-shop"}, {ID: blog, Name: "web-blog"}},
		Bindings: []identity.Binding{
			{Principal: "alice", Role: identity.Deployer, Project: "*", Destructive: true},
			{Principal: "alice", Role: identity.Operator, Project: "*"},
			{Principal: "alice", Role: identity.Admin, Project: "*"},
			{Principal: "bob", Role: identity.Viewer, Project: "*"},
		},
		Datacenters: []identity.Datacenter{place(graz, "graz"), place(vienna, "vienna")},
	}
}

// firstDigest returns the digest of firstRoster.
func firstDigest() writ.Digest {
	digest, err := firstRoster().Digest()
	if err != nil {
		panic(err)
	}
	return digest
}

// payload is a script of alice for Vienna.
func payload() *identity.Payload {
	now := time.Now().UTC().Truncate(time.Second)
	return &identity.Payload{
		Format: identity.FormatV2, Cluster: firstRoster().Cluster, Datacenter: vienna, Roster: 1, RosterDigest: firstDigest(), Project: shop, ProjectName: "web-shop", Signer: "alice",
		Created: now, Expires: now.Add(identity.DefaultValidity), Deadline: time.Hour, Nonce: identity.NewNonce(),
		Engine: engine, Allow: []string{"node.ping"}, MaxCalls: 10, Params: map[string]any{},
		Script: identity.File{Name: "hello.tengo", Text: []byte("node := import(\"node\")\nnode.ping()\n")},
	}
}

func statement(subject, decision string) *identity.Statement {
	now := time.Now().UTC().Truncate(time.Second)
	return &identity.Statement{
		Format: identity.FormatV2, DatacenterName: "vienna", RosterDigest: firstDigest(), Seen: identity.SeenRun("hello.tengo", shop, "web-shop", time.Time{}),
		Cluster: firstRoster().Cluster, Datacenter: vienna, Roster: 1, Subject: subject, Decision: decision, Signer: "alice",
		Created: now, Expires: now.Add(identity.DefaultValidity), Nonce: identity.NewNonce(),
	}
}

// signed signs a payload or statement.
func signed(t testing.TB, who string, namespace sshsig.Namespace, text interface{ Text() ([]byte, error) }) []byte {
	t.Helper()
	b, err := text.Text()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := signer(who).Sign(namespace, b)
	if err != nil {
		t.Fatal(err)
	}
	return sshsig.Join(b, armored)
}

func signedScript(t testing.TB, p *identity.Payload) []byte {
	t.Helper()
	return signed(t, "alice", sshsig.ScriptNamespace, p)
}

func signedRoster(t testing.TB, r *identity.Roster) []byte {
	t.Helper()
	text, err := identity.SignRoster(r, signer("alice"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fixture is a running coordinator with a client.
type fixture struct {
	*Coordinator
	t      testing.TB
	log    *testenv.Log
	client *apiclient.Client
	stop   func() // and waits
}

// made returns a coordinator that does not run.
func made(t testing.TB, config Config) *Coordinator {
	t.Helper()
	config.PublicURL = cmp.Or(config.PublicURL, "http://127.0.0.1:7440")
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	if config.Ledger == nil {
		config.Ledger = struct{ ledger.Ledger }{} // not used
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start serves a coordinator on a free port of loopback. change, if given, changes its configuration, and tune its
// parts before it runs. The default ledger is in memory; an empty ledger gets the first roster.
func start(t testing.TB, change func(c *Config), tune ...func(c *Coordinator)) *fixture {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := new(testenv.Log)
	config := Config{
		Log:       log.Logger(),
		PublicURL: "http://" + listener.Addr().String(), Cluster: firstRoster().Cluster, Version: "test",
	}
	if change != nil {
		change(&config)
	}
	var own ledger.Ledger
	if config.Ledger == nil {
		if own, err = sqlstore.Open(t.Context(), ":memory:"); err != nil {
			t.Fatal(err)
		}
		config.Ledger = own
	}
	c := made(t, config)
	for _, tune := range tune {
		tune(c)
	}
	if _, err := c.AddRoster(t.Context(), signedRoster(t, firstRoster())); err != nil && writ.CodeOf(err) != writ.CodeRosterInvalid && writ.CodeOf(err) != writ.CodeWrongCluster {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	var by http.RoundTripper = described{transport, t}
	if _, measured := t.(*testing.B); measured {
		by = transport
	}
	client, err := apiclient.NewClient(c.PublicURL, apiclient.WithHTTPClient(&http.Client{Transport: by}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, listener) }()
	p := &fixture{Coordinator: c, t: t, log: log, client: client}
	p.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if own != nil {
			if err := own.Close(); err != nil {
				t.Errorf("close ledger: %v", err)
			}
		}
	})
	t.Cleanup(p.stop)
	return p
}

// await waits until the condition holds. It checks the condition at every news.
func (p *fixture) await(what string, holds func() bool) {
	p.t.Helper()
	late := time.After(hang)
	for {
		news := p.news.Next()
		if holds() {
			return
		}
		select {
		case <-news:
		case <-late:
			p.t.Fatalf("%s: still not so; the log:\n%s", what, p.log)
		}
	}
}

// get fetches a path and returns status and body.
func (p *fixture) get(path string) (int, string) {
	p.t.Helper()
	response, err := p.client.Client.(*http.Client).Get(p.PublicURL + path)
	return p.read(response, err)
}

func (p *fixture) post(path string, body []byte) (int, string) {
	p.t.Helper()
	response, err := p.client.Client.(*http.Client).Post(p.PublicURL+path, api.SignedType, bytes.NewReader(body))
	return p.read(response, err)
}

func (p *fixture) read(response *http.Response, err error) (int, string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// submit hands in a signed script.
func (p *fixture) submit(text []byte) (api.Submission, error) {
	return api.Answer[api.Submission](p.client.SubmitWithBody(p.t.Context(), api.SignedType, bytes.NewReader(text)))
}

func (p *fixture) run(id writ.RunID) api.Run {
	p.t.Helper()
	run, err := api.Answer[api.Run](p.client.GetRun(p.t.Context(), id))
	if err != nil {
		p.t.Fatal(err)
	}
	return run
}

// wantProblem compares a response with a code of the table.
func wantProblem(t testing.TB, what string, status int, body string, code writ.Code) {
	t.Helper()
	var problem api.Problem
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Errorf("%s: status %d with %q, want a problem", what, status, body)
		return
	}
	if problem.Code != code || status != code.Info().Status || problem.Status != status || problem.RequestID == "" || problem.Hint == "" || problem.Type != "urn:writ:code:"+string(code) {
		t.Errorf("%s: status %d, %+v; want %s", what, status, problem, code)
	}
}

// supervisor is a datacenter that verifies submissions and reports them as accepted.
type supervisor struct {
	place   *fixture
	dc      writ.DatacenterID
	journal string
	// restored is when it found that its journal is a backup.
	restored time.Time
	dialer   *link.Dialer
	stop     func()       // and waits
	refuses  func() error // called before each submission
	roster   *identity.Roster

	mu       sync.Mutex
	rosters  [][]byte
	accepted []writ.RunID
	events   []writ.EncodedEvent
	nodes    []link.NodeNow // live state of its nodes; the others have the state of their events
	told     map[writ.NodeID]writ.Node
	holds    []link.Hold   // its holds
	starting link.BootList // its booting machines; an answer has bootsAtOnce of them
	changed  chan struct{}

	certificate [2]time.Time // validity of its certificate
}

// connect links a datacenter to a coordinator and waits for the link. change, if given, changes the supervisor first.
func connect(p *fixture, dc writ.DatacenterID, change func(s *supervisor)) *supervisor {
	p.t.Helper()
	s := dial(p, dc, change)
	p.await("connected", func() bool { _, ok := p.links.Session(dc); return ok })
	return s
}

// leave ends the link and returns when the coordinator has noticed.
func (s *supervisor) leave() {
	session, connected := s.place.links.Session(s.dc)
	s.stop()
	if connected {
		<-session.Done()
	}
}

func dial(p *fixture, dc writ.DatacenterID, change func(s *supervisor)) *supervisor {
	s := &supervisor{
		place: p, dc: dc, journal: "journal of " + string(dc), changed: make(chan struct{}), roster: firstRoster(),
		told: make(map[writ.NodeID]writ.Node),
	}
	s.dialer = &link.Dialer{
		URL: p.PublicURL,
		Hello: func() link.Hello {
			s.mu.Lock()
			defer s.mu.Unlock()
			return link.Hello{Datacenter: dc, Journal: s.journal, Version: "test", Epoch: 1, Roster: s.roster.Version, Restored: s.restored,
				Verbs: []link.Verb{link.VerbSubmit, link.VerbStatement, link.VerbRoster, link.VerbPlan, link.VerbLogs, link.VerbValues, link.VerbQueues, link.VerbNodes, link.VerbCertificates, link.VerbHolds, link.VerbBoots}}
		},
		Sign: func(h link.Hello, nonce []byte, url string) ([]byte, error) {
			return ed25519.Sign(key("supervisor "+string(dc)), identity.LinkHelloText(nonce, url, h.Datacenter, h.Journal)), nil
		},
		Events: s, Handle: s.handle, HTTP: &http.Client{Transport: &http.Transport{}}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.dialer.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("dialer: %v", err)
		}
		s.dialer.HTTP.CloseIdleConnections()
	})
	p.t.Cleanup(s.stop)
	return s
}

// EncodedEvents, Agree and Acknowledge make the supervisor the source of its events.

func (s *supervisor) EncodedEvents(ctx context.Context, after int64, most int) (string, []writ.EncodedEvent, error) {
	for {
		s.mu.Lock()
		events, changed := s.events[min(after, int64(len(s.events))):], s.changed
		s.mu.Unlock()
		if len(events) > 0 {
			return s.journal, events[:min(len(events), most)], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

func (s *supervisor) Agree(context.Context, string, int64, time.Time) error { return nil }

func (s *supervisor) Acknowledge(context.Context, int64) error { return nil }

// someRun is the run of events that set no run.
var someRun = writ.RunIDOf(writ.Digest{9})

// whole fills in the fields that every datacenter sets and a test may omit.
func whole(e writ.Event) writ.Event {
	if e.Node != nil {
		n := wholeNode(*e.Node)
		e.Node = &n
	}
	if e.Resource != nil {
		r := *e.Resource
		r.Run = cmp.Or(r.Run, someRun)
		e.Resource = &r
	}
	if e.Log != nil {
		l := *e.Log
		l.Run = cmp.Or(l.Run, someRun)
		e.Log = &l
	}
	return e
}

func wholeNode(n writ.Node) writ.Node {
	n.Admission = cmp.Or(n.Admission, writ.AdmissionApproved)
	n.Scheduling = cmp.Or(n.Scheduling, writ.SchedulingOpen)
	n.Liveness = cmp.Or(n.Liveness, writ.LivenessReady)
	return n
}

// nodesNow returns the live state of its nodes.
func (s *supervisor) nodesNow() []link.NodeNow {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.nodes)
	for id, n := range s.told {
		if !slices.ContainsFunc(all, func(now link.NodeNow) bool { return now.ID == id }) {
			all = append(all, link.NodeNowOf(n))
		}
	}
	for i := range all {
		now := wholeNode(writ.Node{Admission: all[i].Admission, Scheduling: all[i].Scheduling, Liveness: all[i].Liveness})
		all[i].Admission, all[i].Scheduling, all[i].Liveness = now.Admission, now.Scheduling, now.Liveness
		if all[i].Waiting != nil {
			n := wholeNode(*all[i].Waiting)
			all[i].Waiting = &n
		}
	}
	return all
}

// tell sends events of the datacenter.
func (s *supervisor) tell(events ...writ.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		e = whole(e)
		if e.Node != nil {
			s.told[e.Node.ID] = *e.Node
		}
		e.Seq, e.Time = int64(len(s.events)+1), time.Now().UTC()
		text, err := json.Marshal(e)
		if err != nil {
			s.place.t.Fatal(err)
		}
		s.events = append(s.events, writ.EncodedEvent{Seq: e.Seq, JSON: text})
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *supervisor) took() []writ.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]writ.RunID(nil), s.accepted...)
}

func (s *supervisor) handle(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
	switch verb {
	case link.VerbSubmit:
		return s.submit(params)
	case link.VerbStatement:
		var p link.Statement
		if err := link.Decode(params, &p); err != nil {
			return nil, err
		}
		s.mu.Lock()
		verifier := identity.Verifier{Roster: s.roster, Datacenter: s.dc, ProjectOf: func(writ.RunID) (writ.ProjectID, error) { return shop, nil }}
		s.mu.Unlock()
		v, err := verifier.Statement(p.Signed)
		if err != nil {
			return nil, err
		}
		return link.StatementAnswer{Subject: v.Statement.Subject, Done: "it is done"}, nil
	case link.VerbRoster:
		return s.adopt(params)
	case link.VerbPlan:
		var p link.Plan
		if err := link.Decode(params, &p); err != nil {
			return nil, err
		}
		size, err := json.Marshal(p.Calls[0].Args["size_gib"])
		return writ.Preview{Calls: []writ.PreviewedCall{{
			Seq: 1, Action: writ.ActionUpdate, NodeName: "node-1", Fields: []writ.FieldChange{{Field: "size_gib", To: size}},
		}}}, err
	case link.VerbNodes:
		return s.nodesNow(), nil
	case link.VerbLogs:
		var p link.Logs
		if err := link.Decode(params, &p); err != nil {
			return nil, err
		}
		var lines []writ.LogLine
		for n := p.After + 1; n <= min(p.After+p.Max, 3); n++ {
			lines = append(lines, writ.LogLine{Run: p.Run, Ordinal: n, Text: fmt.Sprint("line ", n)})
		}
		return lines, nil
	case link.VerbValues:
		var p link.Values
		if err := link.Decode(params, &p); err != nil {
			return nil, err
		}
		if p.Max > 0 { // large values
			calls := make([]link.CallValues, p.Max)
			for i := range calls {
				calls[i] = link.CallValues{Call: writ.Call{Run: p.Run, Seq: p.After + i + 1, State: writ.CallSucceeded}, Values: map[string]any{"text": strings.Repeat("x", 8_000)}}
			}
			return link.RunValues{Run: writ.Run{ID: p.Run, State: writ.RunRunning}, Calls: calls}, nil
		}
		return link.RunValues{Run: writ.Run{ID: p.Run, State: writ.RunRunning, Output: map[string]any{"n": int64(9007199254740993)}},
			Calls: []link.CallValues{{Call: writ.Call{Run: p.Run, Seq: p.After + 1, State: writ.CallSucceeded}, Values: map[string]any{"pong": true}}}}, nil
	case link.VerbHolds:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.holds, nil
	case link.VerbBoots:
		var asked link.Boots
		if err := link.Decode(params, &asked); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.boots(asked), nil
	case link.VerbCertificates:
		s.mu.Lock()
		defer s.mu.Unlock()
		return []writ.Certificate{{Of: "supervisor", Name: "writ://c/dc/" + string(s.dc) + "/supervisor", From: s.certificate[0], Until: s.certificate[1]}}, nil
	case link.VerbQueues:
		return []writ.QueueDepth{{Node: "n1", NodeName: "node-1", Planned: 3, Queued: 2, Running: 1}}, nil
	}
	return nil, writ.Errorf(writ.CodeVerbUnsupported, "what is %q?", verb)
}

func (s *supervisor) submit(params json.RawMessage) (any, error) {
	var p link.Submit
	if err := link.Decode(params, &p); err != nil {
		return nil, err
	}
	if s.refuses != nil {
		if err := s.refuses(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	verifier := identity.Verifier{Roster: s.roster, Datacenter: s.dc, Engines: []string{engine}}
	v, err := verifier.Submission(p.Signed)
	if err != nil {
		return nil, err
	}
	s.accepted = append(s.accepted, v.Run)
	return runOf(v, writ.RunAccepted), nil
}

func runOf(v *identity.Verified, state writ.RunState) writ.Run {
	return writ.Run{ID: v.Run, Datacenter: v.Payload.Datacenter, Project: v.Payload.Project, ProjectName: v.Payload.ProjectName, Signer: v.Signer,
		Script: v.Payload.Script.Name, Payload: v.Digest, State: state, Accepted: time.Now().UTC(), Deadline: time.Now().UTC().Add(time.Hour)}
}

func (s *supervisor) adopt(params json.RawMessage) (any, error) {
	var p link.Rosters
	if err := link.Decode(params, &p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range p.Signed {
		next, err := identity.VerifyRoster(s.roster, text, time.Now())
		if err != nil {
			return nil, err
		}
		s.roster = next
		s.rosters = append(s.rosters, text)
	}
	s.place.news.Wake() // for callers of await
	return link.RosterVersion{Version: s.roster.Version}, nil
}
