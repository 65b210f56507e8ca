package runner_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"os/signal"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/identity/target"
	"writ/runner/member"
	"writ/sal/catalog"
	"writ/supervisor/nodes"
)

func TestMain(m *testing.M) {
	// For tests that fill a disk; here, because the first use of package signal must be outside of a bubble.
	signal.Ignore(unix.SIGXFSZ)
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey() ed25519.PrivateKey {
	_, key, _ := ed25519.GenerateKey(nil) // never fails
	return key
}

// fixture is a datacenter: root, roster, people, and its supervisor. The test acts as the supervisor, with real keys,
// texts and envelopes.
type fixture struct {
	testing.TB
	root, alice, bob sshsig.Signer // bob has no destructive flag
	supervisor       ed25519.PrivateKey
	project          writ.ProjectID
	datacenter       writ.DatacenterID

	mu        sync.Mutex
	roster    *identity.Roster
	rosters   [][]byte // signed, version 1 first
	tokens    map[string]identity.TokenKey
	admission writ.Admission // of joining nodes
	members   map[string]nodes.Welcome
	claims    []nodes.Claim
	// takesSerials is set if the supervisor accepts serial numbers in claims, unlike earlier versions.
	takesSerials bool
	payloads     map[writ.Digest][]byte
	everyday     writ.Digest                    // payload of jobs by default
	others       map[writ.ProjectID]writ.Digest // the same for other projects
	asked        int                            // number of payload requests
	standing     envelope.Kind                  // kind of the envelopes with a node's standing, if set
	spoil        func(m *nodes.Membership)      // modifies memberships before they are signed
	lost         bool                           // a person has declared the nodes lost
	loss         []byte                         // statement of the loss, where it is served
	misstate     func(s *identity.Statement)    // modifies that statement before alice signs it
	fenced       []nodes.FenceAnswer            // answers of nodes to the fence
	away         int                            // number of further requests that fail

	account       func(node writ.NodeID) ([]byte, error) // answer of the node API; if nil, the queue has no accounts
	accountsAsked int
}

const (
	shopProject  = writ.ProjectID("0192f6c2-0000-7000-8000-000000000001")
	labProject   = writ.ProjectID("0192f6c2-0000-7000-8000-000000000002")
	thirdProject = writ.ProjectID("0192f6c2-0000-7000-8000-000000000003")
	datacenterID = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000d")
)

func newFixture(t testing.TB) *fixture {
	s := &fixture{
		TB: t, root: sshsig.NewSigner(newKey()), alice: sshsig.NewSigner(newKey()), bob: sshsig.NewSigner(newKey()),
		supervisor: newKey(), project: shopProject, datacenter: datacenterID,
		tokens: map[string]identity.TokenKey{}, admission: writ.AdmissionApproved, members: map[string]nodes.Welcome{},
		payloads: map[writ.Digest][]byte{},
	}
	now := time.Now().UTC().Truncate(time.Second)
	key := func(signer sshsig.Signer) []identity.PrincipalKey {
		return []identity.PrincipalKey{{Key: signer.PublicKey(), State: identity.Active}}
	}
	s.roster = &identity.Roster{
		Cluster: identity.ClusterOf(s.root.PublicKey()), Version: 1, Created: now, Expires: now.Add(identity.RosterValidity),
		Root: s.root.PublicKey(), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{
			{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: key(s.alice)},
			{Name: "bob", Kind: identity.Person, State: identity.Active, Keys: key(s.bob)},
		},
		Projects: []identity.Project{{ID: shopProject, Name: "shop"}, {ID: labProject, Name: "lab"}, {ID: thirdProject, Name: "third"}},
		Bindings: []identity.Binding{
			{Principal: "alice", Role: identity.Deployer, Project: "*", Destructive: true},
			{Principal: "alice", Role: identity.Admin, Project: "*"},
			{Principal: "bob", Role: identity.Deployer, Project: "*"},
		},
		Datacenters: []identity.Datacenter{{
			Datacenter:    writ.Datacenter{ID: s.datacenter, Name: "home", Region: "here"},
			SupervisorKey: s.supervisor.Public().(ed25519.PublicKey), Enabled: true,
		}},
	}
	s.sign(s.roster)
	s.everyday = s.everydayOf(s.roster.Projects[0])
	s.others = map[writ.ProjectID]writ.Digest{}
	for _, p := range s.roster.Projects {
		s.others[p.ID] = s.everydayOf(p)
	}
	return s
}

// everydayOf returns a payload that allows everything in a project, for the longest possible time.
func (s *fixture) everydayOf(project identity.Project) writ.Digest {
	return s.submission(s.alice, func(p *identity.Payload) {
		p.Project, p.ProjectName = project.ID, project.Name
		p.Allow, p.Targets, p.MaxCalls = everything(), []string{target.Any}, identity.MaxCalls
		p.Expires, p.Deadline = p.Created.Add(identity.MaxValidity), identity.MaxDeadline
	})
}

// everything returns the names of all operations.
func everything() (names []string) {
	for _, o := range catalog.Operations() {
		names = append(names, o.Name())
	}
	return names
}

// sign adds a complete roster to the chain.
func (s *fixture) sign(r *identity.Roster) {
	s.Helper()
	signed, err := identity.SignRoster(r, s.root)
	must(s.TB, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roster, s.rosters = r, append(s.rosters, signed)
}

// amend signs the next version of the roster.
func (s *fixture) amend(change func(r *identity.Roster)) {
	s.Helper()
	next, err := s.roster.Successor(time.Now())
	must(s.TB, err)
	change(next)
	s.sign(next)
}

// token returns a new join token.
func (s *fixture) token() string {
	token, err := identity.NewToken(s.roster.Cluster).For(s.datacenter, s.roster)
	must(s.TB, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token.ID] = token.Key()
	return token.String()
}

// fixture implements the node API of its supervisor.
var _ nodes.Backend = (*fixture)(nil)

// open returns an error while the node API is closed.
func (s *fixture) open() error {
	if s.away > 0 {
		s.away--
		return writ.Errorf(writ.CodeUnreachable, "nobody answers")
	}
	return nil
}

func (s *fixture) Greet(_ context.Context, hello nodes.Hello) (nodes.Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nodes.Proof{}, err
	}
	nonce := make([]byte, identity.NonceSize)
	_, _ = rand.Read(nonce)
	text := identity.JoinProofText(joinerOf(hello), nonce)
	return nodes.Proof{
		Nonce: nonce, Signature: ed25519.Sign(s.supervisor, text), Serial: s.takesSerials,
	}, nil
}

func (s *fixture) Admit(_ context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, claim)
	joiner := joinerOf(claim.Hello)
	joiner.Serial = claim.Serial
	if err := identity.VerifyJoinClaim(joiner, claim.Nonce, s.tokens[claim.Hello.Token], claim.Proof, claim.Signature); err != nil {
		return nodes.Welcome{}, err
	}
	welcome, known := s.members[string(claim.Hello.Key)]
	if !known {
		welcome = nodes.Welcome{
			Node: writ.NodeID(writ.NewUUID()), Name: claim.Hello.Name, Cluster: s.roster.Cluster, Datacenter: s.datacenter, Epoch: 1,
		}
	}
	welcome.Admission = s.admission
	s.members[string(claim.Hello.Key)] = welcome
	var err error
	if welcome.Signed, err = s.membership(envelope.Welcome, claim.Hello.Key, slices.Concat(claim.Hello.Nonce, claim.Nonce)); err != nil {
		return nodes.Welcome{}, err
	}
	return welcome, s.open() // if it closes here, the admission happened and its answer is lost
}

// membership signs the standing of a node. The caller holds mu.
func (s *fixture) membership(kind envelope.Kind, key, nonce []byte) ([]byte, error) {
	digest, err := s.roster.Digest()
	if err != nil {
		return nil, err
	}
	w := s.members[string(key)]
	m := nodes.Membership{
		Node: w.Node, Name: w.Name, Key: key, Admission: s.admission, Cluster: w.Cluster, Datacenter: w.Datacenter, Epoch: w.Epoch,
		Roster: len(s.rosters), Digest: digest, Nonce: nonce, Made: time.Now().UnixMilli(), Lost: s.loss,
	}
	if s.spoil != nil {
		s.spoil(&m)
	}
	return envelope.Sign(kind, s.supervisor, m)
}

func (s *fixture) Standing(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	for key, w := range s.members {
		if w.Node == node {
			return s.membership(cmp.Or(s.standing, envelope.Standing), []byte(key), nonce)
		}
	}
	return nil, writ.Errorf(writ.CodeNotFound, "unknown node %s", node)
}

// Fence orders a node to stop its resources once lost is set.
func (s *fixture) Fence(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	for key, w := range s.members {
		if w.Node == node && s.lost {
			s.loss = s.signLoss(w, []byte(key))
			defer func() { s.loss = nil }()
			return s.membership(cmp.Or(s.standing, envelope.Fence), []byte(key), nonce)
		}
	}
	return nil, writ.Errorf(writ.CodeNotFound, "no person has signed that the node %s is lost", node)
}

// signLoss returns alice's statement that a node is lost. The caller holds mu.
func (s *fixture) signLoss(w nodes.Welcome, key ed25519.PublicKey) []byte {
	digest, err := s.roster.Digest()
	must(s.TB, err)
	now := time.Now().UTC().Truncate(time.Second)
	statement := &identity.Statement{
		Format: identity.FormatV2, Cluster: s.roster.Cluster, Datacenter: s.datacenter, DatacenterName: s.roster.Datacenters[0].Name,
		Roster: s.roster.Version, RosterDigest: digest, Subject: "node/" + string(w.Node), Decision: identity.DecisionLost, Signer: "alice",
		Seen:    identity.Seen{Name: w.Name, Fingerprint: sshsig.Fingerprint(key)},
		Created: now, Expires: now.Add(15 * time.Minute), Nonce: identity.NewNonce(),
	}
	if s.misstate != nil {
		s.misstate(statement)
	}
	signer := s.alice
	if statement.Signer == "bob" {
		signer = s.bob
	}
	text, err := statement.Text()
	must(s.TB, err)
	armored, err := signer.Sign(sshsig.StatementNamespace, text)
	must(s.TB, err)
	return sshsig.Join(text, armored)
}

func (s *fixture) Fenced(_ context.Context, node writ.NodeID, signed []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	for key, w := range s.members {
		if w.Node != node {
			continue
		}
		answers, _, err := envelope.Open[nodes.FenceAnswer](envelope.Fenced, signed, envelope.Only(ed25519.PublicKey(key)))
		if err != nil {
			return err
		}
		s.fenced = append(s.fenced, answers...)
	}
	return nil
}

func (s *fixture) Rosters(_ context.Context, after int) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rosters[min(after, len(s.rosters)):]), s.open()
}

func (s *fixture) Account(_ context.Context, node writ.NodeID, _ []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accountsAsked++
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.account != nil {
		return s.account(node)
	}
	return envelope.Sign(envelope.Account, s.supervisor, nodes.Account{Node: node})
}

func (s *fixture) Payload(_ context.Context, digest writ.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	s.asked++
	signed, ok := s.payloads[digest]
	if !ok {
		return nil, writ.Errorf(writ.CodeNotFound, "unknown payload %s", digest)
	}
	return signed, nil
}

func joinerOf(h nodes.Hello) identity.Joiner {
	return identity.Joiner{Token: h.Token, Name: h.Name, Key: h.Key, AgeKey: h.AgeKey, Nonce: h.Nonce}
}

func (s *fixture) setAdmission(a writ.Admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admission = a
}

func (s *fixture) setKey(key ed25519.PrivateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.supervisor = key
}

func (s *fixture) setRosters(signed [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rosters = signed
}

// closeAPI makes the next requests fail.
func (s *fixture) closeAPI(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = requests
}

// join creates a member with a token.
func (s *fixture) join(dir string) *member.Member {
	s.Helper()
	m, err := member.Join(s.Context(), member.Joining{Dir: dir, API: s, Token: s.token(), Name: "n1", Version: "test"})
	must(s.TB, err)
	return m
}

// submission signs a script and returns its digest. The id of its run is writ.RunIDOf of the digest.
func (s *fixture) submission(signer sshsig.Signer, change func(p *identity.Payload)) writ.Digest {
	s.Helper()
	name := "alice"
	if signer == s.bob {
		name = "bob"
	}
	now := time.Now().UTC().Truncate(time.Second)
	seen, err := s.roster.Digest()
	must(s.TB, err)
	p := &identity.Payload{
		Format: identity.FormatV2, Cluster: s.roster.Cluster, Datacenter: s.datacenter, Roster: s.roster.Version, RosterDigest: seen, Project: shopProject, ProjectName: "shop",
		Signer: name, Created: now, Expires: now.Add(15 * time.Minute), Deadline: time.Hour, Nonce: identity.NewNonce(),
		Engine: "tengo/2.17.0 api/1", Allow: []string{"volume.create", "volume.delete"}, Targets: []string{"volume/data"}, MaxCalls: 10,
		Script: identity.File{Name: "test.tengo", Text: []byte("// nothing\n")},
	}
	if change != nil {
		change(p)
	}
	text, err := p.Text()
	must(s.TB, err)
	armored, err := signer.Sign(sshsig.ScriptNamespace, text)
	must(s.TB, err)
	digest := writ.DigestOf(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payloads[digest] = sshsig.Join(text, armored)
	return digest
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }
