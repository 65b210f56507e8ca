package supervisor_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/identity/target"
	"writ/internal/cbor"
	"writ/internal/test/testenv"
	"writ/runner/queue"
	"writ/runner/queue/memory"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
	"writ/supervisor"
	"writ/supervisor/decision"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
	"writ/supervisor/takeover"
)

// sim is a datacenter with a real supervisor, a real journal and a queue in memory. The test plays its nodes.
type sim struct {
	t       testing.TB
	dir     string
	place   string // path or address of the journal
	person  sshsig.Signer
	key     ed25519.PrivateKey
	roster  *identity.Roster
	rosters [][]byte
	queue   *memory.Queue
	way     queue.Queue // queue of the next supervisor; nil is the sim's queue
	nodes   []*testNode
	api     nodeAPI // forwards to the current supervisor; runners keep connecting while it is replaced

	evaluator    scripts.Evaluator // evaluator of the next supervisor
	maxOpen      int               // MaxOpenRuns of the next supervisor
	maxCalls     int               // MaxOpenCalls of the next supervisor
	weights      map[string]int    // weights of projects by name, for the next supervisor
	keep         time.Duration     // KeepRuns of the next supervisor
	accounts     queue.Accounts
	marks        takeover.Marks // marks of the next supervisor
	held         bool           // the next supervisor starts held
	coordinators []string       // coordinators of the next supervisor
	dialWith     *http.Client   // client for the coordinators
	// certificates issues the certificates of the next supervisor.
	certificates decision.CertificateIssuer
	logs         testenv.Log
	level        slog.Level  // log level of supervisors
	clock        *clock      // clock of supervisors, and of nodes without their own
	captured     *logCapture // if not nil, collects the log of supervisors

	*supervisor.Supervisor
	journal *journal.Journal
	stop    context.CancelFunc
	ended   chan error
}

const (
	theDatacenter = writ.DatacenterID("01920000-0000-7000-8000-000000000001")
	theProject    = writ.ProjectID("01920000-0000-7000-8000-000000000002")
)

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAge(t testing.TB) *age.X25519Identity {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// inProcess evaluates in this process, because child processes do not work in virtual time.
type inProcess struct{}

func (inProcess) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	program, err := interpreter.Compile(bundle)
	if err != nil {
		return scripts.Outcome{}, err
	}
	whole, journal, err := inputs.WithEarlier(ctx, journal)
	if err != nil {
		return scripts.Outcome{}, err
	}
	return program.Pass(ctx, *whole, journal)
}

func (inProcess) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	return interpreter.PlanOf(ctx, bundle, inputs)
}

// newSim creates a cluster of one datacenter and starts its supervisor. Nodes join with join.
func newSim(t testing.TB) *sim {
	t.Helper()
	s := newCluster(t)
	s.start()
	return s
}

// newSimAt is newSim with a journal at place and a queue with accounts.
func newSimAt(t testing.TB, place string, accounts queue.Accounts) *sim {
	t.Helper()
	s := newCluster(t)
	s.place, s.accounts = place, accounts
	s.start()
	return s
}

// newCluster creates a cluster of one datacenter without a supervisor.
func newCluster(t testing.TB) *sim {
	t.Helper()
	dir := t.TempDir()
	s := &sim{
		t: t, dir: dir, place: filepath.Join(dir, "journal.db"), key: newKey(t), person: sshsig.NewSigner(newKey(t)), queue: memory.New(),
		evaluator: inProcess{}, clock: new(clock), level: slog.LevelWarn,
	}
	now := time.Now().UTC().Truncate(time.Second)
	s.adopt(&identity.Roster{
		Cluster: identity.ClusterOf(s.person.PublicKey()), Version: 1, Created: now, Expires: now.Add(identity.RosterValidity),
		Root: s.person.PublicKey(), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: s.person.PublicKey(), State: identity.Active}}}},
		Projects: []identity.Project{{ID: theProject, Name: "shop"}},
		Bindings: []identity.Binding{
			{Principal: "alice", Role: identity.Deployer, Project: "*", Destructive: true},
			{Principal: "alice", Role: identity.Admin, Project: "*"},
			{Principal: "alice", Role: identity.Operator, Project: "*"},
		},
		Datacenters: []identity.Datacenter{{
			Datacenter:    writ.Datacenter{ID: theDatacenter, Name: "ams1", Region: "eu"},
			SupervisorKey: s.key.Public().(ed25519.PublicKey), Enabled: true,
		}},
	})
	t.Cleanup(func() { s.queue.Close() })
	empty, err := emptyJournal()
	if err := errors.Join(err, os.WriteFile(s.place, empty, 0o600)); err != nil {
		t.Fatal(err)
	}
	return s
}

// emptyJournal returns the file of an empty journal. Creating the tables each time would take longer than most tests.
var emptyJournal = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(context.Background(), filepath.Join(dir, "journal.db"))
	if err != nil {
		return nil, err
	}
	if err := j.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "journal.db"))
})

// adopt signs a roster as the next one.
func (s *sim) adopt(r *identity.Roster) {
	s.t.Helper()
	signed, err := identity.SignRoster(r, s.person)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rosters = append(s.rosters, signed)
	if s.roster, err = identity.VerifyRosters(identity.ClusterOf(s.person.PublicKey()), s.rosters, time.Time{}); err != nil {
		s.t.Fatal(err)
	}
}

// start opens the journal and runs a supervisor on it.
func (s *sim) start() {
	s.t.Helper()
	var err error
	if s.journal, err = journal.Open(s.t.Context(), s.place); err != nil {
		s.t.Fatal(err)
	}
	s.Supervisor, err = supervisor.Open(s.t.Context(), supervisor.Config{
		Datacenter: theDatacenter, Pin: identity.ClusterOf(s.person.PublicKey()), Key: s.key, Journal: s.journal,
		Queue: cmp.Or[queue.Queue](s.way, s.queue), Accounts: s.accounts, Marks: s.marks, Certificates: s.certificates, Coordinators: s.coordinators, DialWith: s.dialWith,
		Evaluator: s.evaluator, MaxOpenRuns: s.maxOpen, MaxOpenCalls: s.maxCalls, Weights: s.weights, KeepRuns: s.keep, Held: s.held, Now: s.clock.now,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(s.captured.also(s.t.Output()), &s.logs), &slog.HandlerOptions{Level: s.level})),
	}, s.rosters)
	if err != nil {
		s.t.Fatal(err)
	}
	s.api.set(s.Supervisor, s.journal)
	s.run(s.Supervisor, s.journal)
}

// run runs a supervisor until halt.
func (s *sim) run(sup *supervisor.Supervisor, records *journal.Journal) {
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	s.Supervisor, s.journal, s.stop, s.ended = sup, records, stop, ended
	go func() { ended <- sup.Run(ctx) }()
	s.t.Cleanup(s.halt)
}

// halt stops the supervisor. start starts another one on the same journal.
func (s *sim) halt() {
	if s.stop == nil {
		return
	}
	s.stop()
	if err := <-s.ended; err != nil {
		s.t.Errorf("the supervisor ended with %v", err)
	}
	s.stop = nil
	if err := s.journal.Close(); err != nil {
		s.t.Error(err)
	}
	if strings.Contains(s.logs.String(), supervisor.NoWakeUp) {
		s.t.Error("a run was woken only by the watch")
	}
}

// token creates a join token for one node.
func (s *sim) token() identity.Token { return s.tokenFor(1) }

// tokenFor creates a join token for uses nodes.
func (s *sim) tokenFor(uses int) identity.Token {
	s.t.Helper()
	token, statement := s.grant(uses, 5*time.Minute)
	if _, err := s.Decide(s.t.Context(), s.sign(statement)); err != nil {
		s.t.Fatal(err)
	}
	return token
}

// grant returns a token and the statement that creates it.
func (s *sim) grant(uses int, valid time.Duration) (identity.Token, *identity.Statement) {
	s.t.Helper()
	token, err := identity.NewToken(s.Pin).For(theDatacenter, s.roster)
	if err != nil {
		s.t.Fatal(err)
	}
	grant := identity.TokenGrant{ID: token.ID, Key: token.Key(), Role: identity.TokenRoleNode, Expires: s.clock.now().Add(valid).UTC().Truncate(time.Second), Uses: uses}
	statement := s.statement("", "")
	grant.Statement(statement)
	return token, statement
}

func (s *sim) statement(subject, decision string) *identity.Statement {
	now := s.clock.now().UTC().Truncate(time.Second)
	return &identity.Statement{
		Cluster: s.Pin, Datacenter: theDatacenter, Roster: 1, Subject: subject, Decision: decision, Signer: "alice",
		Created: now, Expires: now.Add(15 * time.Minute), Nonce: identity.NewNonce(),
	}
}

// see fills in the state of a statement's subject as a person sees it now. A missing subject looks like a new one.
func (s *sim) see(statement *identity.Statement) {
	s.t.Helper()
	if err := s.seeIn(s.Supervisor, statement); err != nil {
		s.t.Fatal(err)
	}
}

// seeIn is see with the state of a given supervisor. If its journal returns an error, the statement stays unchanged.
func (s *sim) seeIn(sup *supervisor.Supervisor, statement *identity.Statement) error {
	before := *statement
	statement.Format, statement.RosterDigest = identity.FormatV2, s.firstRoster()
	if statement.DatacenterName == "" {
		statement.DatacenterName = s.roster.Datacenter(theDatacenter).Name
	}
	err := sup.Journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		switch statement.Kind() {
		case "node":
			statement.Seen = identity.Seen{Name: "n1", Fingerprint: sshsig.Fingerprint(s.key.Public().(ed25519.PublicKey))}
			n, err := tx.Node(writ.NodeID(statement.ID()))
			if n != nil {
				n.Revision = n.Decisions
				statement.Seen = identity.SeenNode(n.Node)
				return err
			}
			if waits := sup.Known(writ.NodeID(statement.ID())); waits != nil {
				statement.Seen = identity.SeenNode(waits.Node)
			}
			return err
		case "run":
			statement.Seen = identity.SeenRun("test.tengo", theProject, "shop", time.Time{})
			r, err := tx.Run(writ.RunID(statement.ID()))
			if r != nil {
				statement.Seen = identity.SeenRun(r.Script, r.Project, r.ProjectName, r.Ended)
			}
			if statement.Decision != "resume" {
				statement.Seen.Revision = 0
			}
			return err
		case "datacenter":
			statement.Seen = identity.Seen{Name: statement.DatacenterName}
			if statement.Decision == identity.DecisionRotate {
				return nil
			}
			return s.seeHolds(tx, statement)
		case "project", "deployment", "operation":
			return s.seeHolds(tx, statement)
		case "secret":
			newest, err := tx.NewestSecret(theProject, statement.ID())
			statement.Seen = identity.SeenSecret(theProject, "shop", 0)
			if newest != nil {
				statement.Seen.Revision = int64(newest.Version)
			}
			return err
		}
		return nil
	})
	if err != nil {
		*statement = before
	}
	return err
}

func (s *sim) sign(statement *identity.Statement) []byte {
	s.t.Helper()
	if statement.Format == 0 {
		s.see(statement)
	}
	text, err := statement.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	armored, err := s.person.Sign(sshsig.StatementNamespace, text)
	if err != nil {
		s.t.Fatal(err)
	}
	return sshsig.Join(text, armored)
}

// payload returns the payload of a script, unsigned.
func (s *sim) payload(script string) *identity.Payload {
	s.t.Helper()
	now := s.clock.now().UTC().Truncate(time.Second)
	bundle, err := scripts.Resolve(scripts.Source{Name: "test.tengo", Text: []byte(script)}, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	if err != nil {
		s.t.Fatal(err)
	}
	report := check.Check(bundle)
	if err := report.Err(); err != nil {
		s.t.Fatalf("%v\n%s", err, report)
	}
	params, err := report.Params.Fill(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	p := &identity.Payload{
		Format: identity.FormatV2, Cluster: s.Pin, Datacenter: theDatacenter, Roster: 1, RosterDigest: s.firstRoster(), Project: theProject, ProjectName: "shop", Signer: "alice",
		Created: now, Expires: now.Add(15 * time.Minute), Deadline: time.Hour, Nonce: identity.NewNonce(), Engine: scripts.Engines()[0],
		Allow: report.Operations, MaxCalls: 200, Params: params,
		Script: identity.File(bundle.Main),
	}
	if report.Destructive {
		p.Targets = []string{target.Any}
	}
	for _, m := range bundle.Modules {
		p.Modules = append(p.Modules, identity.File(m))
	}
	return p
}

// firstRoster returns the digest of version 1 of the roster.
func (s *sim) firstRoster() writ.Digest {
	s.t.Helper()
	text, _, err := sshsig.Split(s.rosters[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return writ.DigestOf(text)
}

func (s *sim) signPayload(p *identity.Payload) []byte { return s.signPayloadBy(s.person, p) }

func (s *sim) signPayloadBy(signer sshsig.Signer, p *identity.Payload) []byte {
	s.t.Helper()
	text, err := p.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	armored, err := signer.Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		s.t.Fatal(err)
	}
	return sshsig.Join(text, armored)
}

// submit signs and submits a script.
func (s *sim) submit(script string) writ.RunID {
	s.t.Helper()
	run, err := s.Submit(s.t.Context(), s.signPayload(s.payload(script)))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// await waits until a run has ended and returns it with its calls.
func (s *sim) await(id writ.RunID) (*journal.Run, []*journal.Call) {
	s.t.Helper()
	var after int64
	for {
		events, err := s.journal.Events(s.t.Context(), after, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			if e.Run != nil && e.Run.ID == id && e.Run.State.Ended() {
				return s.look(id)
			}
		}
	}
}

// awaitCall waits until a call of a run has reached a state.
func (s *sim) awaitCall(id writ.RunID, seq int, state writ.CallState) {
	s.t.Helper()
	var after int64
	for {
		events, err := s.journal.Events(s.t.Context(), after, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			if e.Call != nil && e.Call.Run == id && e.Call.Seq == seq && e.Call.State == state {
				return
			}
			if e.Run != nil && e.Run.ID == id && e.Run.State.Ended() {
				run, calls := s.look(id)
				for _, n := range s.nodes {
					s.t.Logf("%s received the jobs %+v", n.name, n.given())
				}
				s.t.Fatalf("run is %s (%+v), call %d was never %s: %+v", run.State, run.Failure, seq, state, *calls[seq-1])
			}
		}
	}
}

// look reads a run and its calls from the journal.
func (s *sim) look(id writ.RunID) (run *journal.Run, calls []*journal.Call) {
	s.t.Helper()
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) (err error) {
		if run, err = tx.Run(id); err == nil {
			calls, err = tx.Calls(id)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return run, calls
}

// wantState fails the test unless the run ended in a state.
func (s *sim) wantState(id writ.RunID, want writ.RunState) (*journal.Run, []*journal.Call) {
	s.t.Helper()
	run, calls := s.await(id)
	if run.State != want {
		s.t.Fatalf("run is %s (%+v), want %s", run.State, run.Failure, want)
	}
	return run, calls
}

// testNode is a node played by the test. It runs act once per job key, and answers like a real node.
type testNode struct {
	sim      *sim
	id       writ.NodeID
	name     string
	key      ed25519.PrivateKey
	age      *age.X25519Identity
	serial   string // serial number in the claim
	slots    int
	capacity writ.Capacity
	fault    string            // reported in beats
	lacks    map[string]string // missing requirements by module, reported in beats
	// transfers is reported in beats.
	transfers   string
	engines     []writ.Engine // engines of databases, reported in beats
	claims      []writ.JobKey // additional active jobs in beats
	progress    string        // progress text of active jobs
	inventories []int         // calls reported for each requested inventory
	// log answers queries of the log. If it is nil, the node does not answer, like runners of earlier versions.
	log func(q nodes.LogQuery) nodes.LogReport
	act func(ctx context.Context, job writ.Job) writ.Result

	mu       sync.Mutex
	silent   bool
	sequence int64
	// boot identifies the start of the machine, and incarnation counts starts of the runner. Beats have both.
	boot         string
	incarnation  int64
	epoch        int64 // highest epoch received
	active       map[writ.JobKey]bool
	done         map[writ.JobKey]*writ.Result
	jobs         []writ.Job // one entry per delivery
	effects      map[writ.JobKey]int
	acked        map[writ.JobKey]bool
	acknowledged *writ.ReportID                // last acknowledged report
	controls     int                           // number of received controls
	asked        []writ.Inventory              // inventories for the next beat
	stopped      chan struct{}                 // closed at the first cancel
	pretend      func(joiner *identity.Joiner) // changes the claim after the hello; may be nil
}

// join starts a node with a token. It serves until the test ends.
func (s *sim) join(name string, change ...func(n *testNode)) *testNode {
	s.t.Helper()
	n := &testNode{
		sim: s, name: name, key: newKey(s.t), slots: 4, capacity: writ.Capacity{CPUs: 16, MemoryMiB: 65536, DiskGiB: 1000}, act: succeed,
		active: make(map[writ.JobKey]bool), done: make(map[writ.JobKey]*writ.Result), effects: make(map[writ.JobKey]int),
		acked: make(map[writ.JobKey]bool), stopped: make(chan struct{}),
	}
	for _, c := range change {
		c(n)
	}
	welcome, err := n.claim(s.token())
	if err != nil {
		s.t.Fatal(err)
	}
	if welcome.Admission != writ.AdmissionApproved {
		s.t.Fatalf("node %s is %s", name, welcome.Admission)
	}
	n.id, n.epoch = welcome.Node, max(n.epoch, welcome.Epoch)
	s.nodes = append(s.nodes, n)
	ctx, stop := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.queue.Serve(ctx, n.id, n.slots, n.handle) })
	running.Go(func() { n.beat(ctx) })
	running.Go(func() { n.listen(ctx) })
	s.t.Cleanup(func() { stop(); running.Wait() })
	return n
}

// claim sends a hello and a claim with token.
func (n *testNode) claim(token identity.Token) (nodes.Welcome, error) {
	claim, err := n.newClaim(token)
	if err != nil {
		return nodes.Welcome{}, err
	}
	return n.sim.Admit(n.sim.t.Context(), claim)
}

// newClaim sends a hello, and returns the claim that follows.
func (n *testNode) newClaim(token identity.Token) (nodes.Claim, error) {
	if n.age == nil {
		n.age = newAge(n.sim.t)
	}
	joiner := identity.Joiner{Token: token.ID, Name: n.name, Key: n.key.Public().(ed25519.PublicKey), AgeKey: n.age.Recipient().String(), Nonce: make([]byte, identity.NonceSize)}
	rand.Read(joiner.Nonce)
	hello := nodes.Hello{Token: joiner.Token, Name: joiner.Name, Key: joiner.Key, AgeKey: joiner.AgeKey, Nonce: joiner.Nonce}
	proof, err := n.sim.Greet(n.sim.t.Context(), hello)
	if err != nil {
		return nodes.Claim{}, err
	}
	if _, err := identity.VerifyJoinProof(n.sim.Roster(), joiner, proof.Nonce, proof.Signature); err != nil {
		n.sim.t.Errorf("verify the join proof: %v", err)
	}
	joiner.Serial = n.serial
	if n.pretend != nil {
		n.pretend(&joiner)
		hello.Name, hello.AgeKey = joiner.Name, joiner.AgeKey
	}
	text := identity.JoinClaimText(joiner, proof.Nonce)
	claim := nodes.Claim{Hello: hello, Nonce: proof.Nonce, Serial: n.serial, Signature: ed25519.Sign(n.key, text)}
	if token.ID != "" {
		claim.Proof = token.Prove(text)
	}
	return claim, nil
}

// succeed is the default act of a node.
func succeed(_ context.Context, job writ.Job) writ.Result {
	r := writ.Result{Simulated: true, Driver: "test", Values: map[string]any{}}
	op, _ := catalog.Lookup(job.Operation)
	for _, f := range op.Result {
		if f.Required {
			r.Values[f.Name] = map[catalog.Type]any{
				catalog.String: "x", catalog.Int: int64(1), catalog.Bool: true, catalog.List: []any{}, catalog.Map: map[string]any{},
			}[f.Type]
		}
	}
	if op.Named() {
		r.Values["name"], r.Values["uid"] = job.Name, string(job.UID)
	}
	if strings.HasSuffix(job.Operation, ".create") || strings.HasPrefix(job.Operation, "volume.c") {
		r.Change = writ.ChangeCreated
	}
	return r
}

// failing returns an act that fails the operations on one resource.
func failing(name string, code writ.Code) func(context.Context, writ.Job) writ.Result {
	return func(ctx context.Context, job writ.Job) writ.Result {
		if job.Name == name {
			return writ.Result{Error: writ.Errorf(code, "injected failure")}
		}
		return succeed(ctx, job)
	}
}

func (n *testNode) supervisorKey(id envelope.KeyID) (ed25519.PublicKey, error) {
	key := n.sim.key.Public().(ed25519.PublicKey)
	if envelope.IDOf(key) != id {
		return nil, errors.New("another key")
	}
	return key, nil
}

func (n *testNode) handle(ctx context.Context, task queue.Task) {
	job, digest, err := envelope.OpenWith[writ.Job](&envelope.Opener{Keys: n.supervisorKey}, envelope.Job, task.Body)
	if err != nil {
		n.sim.t.Errorf("open job: %v", err)
		return
	}
	n.mu.Lock()
	n.jobs = append(n.jobs, job)
	again := n.done[job.JobKey]
	running := n.active[job.JobKey]
	n.active[job.JobKey] = true
	n.mu.Unlock()
	if running {
		return
	}
	if again == nil {
		started := time.Now()
		r := n.act(ctx, job)
		r.JobKey, r.Job, r.Node = job.JobKey, digest, n.id
		r.Started, r.Ended, r.Incarnation = started.UnixMilli(), n.sim.clock.now().UnixMilli(), 1
		again = &r
	}
	n.mu.Lock()
	if n.done[job.JobKey] == nil {
		n.effects[job.JobKey]++
	}
	n.done[job.JobKey] = again
	delete(n.active, job.JobKey)
	n.mu.Unlock()
	n.send(envelope.Result, *again)
}

func (n *testNode) send(kind envelope.Kind, record any) {
	signed, err := envelope.Sign(kind, n.key, record)
	if err != nil {
		n.sim.t.Error(err)
		return
	}
	_ = n.sim.queue.Send(context.Background(), queue.Stream{Node: n.id, Direction: queue.Out}, signed) // the queue may be cut
}

func (n *testNode) beat(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n.mu.Lock()
		n.sequence++
		b := writ.Beat{Node: n.id, Boot: n.boot, Incarnation: 1 + n.incarnation, Sequence: n.sequence, Epoch: n.epoch, Clock: n.sim.clock.now().UnixMilli(), Health: writ.Health{Slots: n.slots, Capacity: n.capacity, Transfers: n.transfers, Fault: n.fault}}
		b.Active = append(b.Active, n.claims...)
		for _, module := range []string{"image", "volume", "network", "machine", "container", "herodb", "node"} {
			d := writ.NodeDriver{Module: module, Name: "test", Simulated: true, Lacks: n.lacks[module]}
			if module == "herodb" {
				d.Engines = slices.Clone(n.engines)
			}
			b.Drivers = append(b.Drivers, d)
		}
		for key := range n.active {
			b.Active = append(b.Active, key)
			if n.progress != "" {
				b.Progress = append(b.Progress, writ.Progress{JobKey: key, Text: n.progress})
			}
		}
		slices.SortFunc(b.Active, func(a, b writ.JobKey) int { return strings.Compare(a.String(), b.String()) })
		b.Inventories, n.asked = n.asked, nil
		silent := n.silent
		n.mu.Unlock()
		if !silent {
			n.send(envelope.Beat, b)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *testNode) listen(ctx context.Context) {
	for ctx.Err() == nil {
		messages, err := n.sim.queue.Receive(ctx, time.Second, queue.Stream{Node: n.id, Direction: queue.In})
		if err != nil { // the queue is cut; polling without a pause would stop virtual time
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for _, m := range messages {
			controls, _, err := envelope.Open[writ.Control](envelope.Control, m.Body, n.supervisorKey)
			if err != nil {
				n.sim.t.Errorf("open control: %v", err)
				continue
			}
			n.mu.Lock()
			n.controls += len(controls)
			for _, c := range controls {
				n.epoch = max(n.epoch, c.Epoch)
				for _, key := range c.Acks {
					n.acked[key] = true
				}
				if c.Acknowledged != nil {
					n.acknowledged = c.Acknowledged
				}
				if len(c.Log) > 0 && n.log != nil {
					var q nodes.LogQuery
					if err := cbor.Unmarshal(c.Log, &q); err != nil {
						n.sim.t.Error(err)
					}
					n.send(envelope.Log, n.log(q))
				}
				for _, run := range c.Asked {
					n.asked = append(n.asked, writ.Inventory{Run: run, Epoch: c.Epoch, Calls: n.inventory(run)})
				}
				if len(c.Cancels) > 0 {
					select {
					case <-n.stopped:
					default:
						close(n.stopped)
					}
				}
			}
			n.mu.Unlock()
		}
		n.sim.queue.Acknowledge(ctx, messages...)
	}
}

// inventory returns the calls of a run that the node reports. The caller holds mu.
func (n *testNode) inventory(run writ.RunID) []int {
	calls := slices.Clone(n.inventories)
	for key := range n.done {
		if key.Run == run {
			calls = append(calls, key.Seq)
		}
	}
	for key := range n.active {
		if key.Run == run {
			calls = append(calls, key.Seq)
		}
	}
	return calls
}

// acknowledgedReport returns the last report that the supervisor acknowledged.
func (n *testNode) acknowledgedReport() *writ.ReportID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.acknowledged
}

// heardControls returns the number of received controls.
func (n *testNode) heardControls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.controls
}

func (n *testNode) setSilent(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

// wantEffects fails the test unless the nodes have exactly want keys, each with one effect.
func (s *sim) wantEffects(want int) {
	s.t.Helper()
	got := 0
	for _, n := range s.nodes {
		n.mu.Lock()
		for key, times := range n.effects {
			got++
			if times != 1 {
				s.t.Errorf("%s took effect %d times on %s", key, times, n.name)
			}
		}
		n.mu.Unlock()
	}
	if got != want {
		s.t.Errorf("%d jobs took effect, want %d", got, want)
	}
}
