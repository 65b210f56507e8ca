package supervisor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/supervisor/decision"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

const (
	greetingLife = time.Minute
	maxGreetings = 10_000
)

// greetings holds the nonces sent to joiners. A nonce is valid for one minute. If the table is full, the oldest nonce
// is dropped. A stranger that sends hellos continuously cannot keep others out, because a joiner sends its claim within
// milliseconds.
type greetings struct {
	mu    sync.Mutex
	made  map[string]time.Time
	order []string // keys of made, oldest first
}

func newGreetings() *greetings { return &greetings{made: make(map[string]time.Time)} }

func (g *greetings) add(nonce []byte, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) >= maxGreetings {
		delete(g.made, g.order[0])
		g.order = slices.Delete(g.order, 0, 1)
	}
	g.order = append(g.order, string(nonce))
	g.made[string(nonce)] = now
}

func (g *greetings) valid(nonce []byte, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.made[string(nonce)]
	return ok && now.Sub(at) <= greetingLife
}

var (
	_ nodes.Backend = (*Supervisor)(nil)
	_ nodes.Members = (*Supervisor)(nil)
)

// Greet implements nodes.Backend. The supervisor proves its identity before the node sends its claim.
func (s *Supervisor) Greet(_ context.Context, hello nodes.Hello) (nodes.Proof, error) {
	joiner := joinerOf(nodes.Claim{Hello: hello})
	if err := checkJoiner(joiner); err != nil {
		return nodes.Proof{}, err
	}
	nonce := make([]byte, identity.NonceSize)
	_, _ = rand.Read(nonce) // never fails
	s.greeted.add(nonce, time.Now())
	return nodes.Proof{
		Nonce: nonce, Signature: ed25519.Sign(s.Key, identity.JoinProofText(joiner, nonce)), Serial: true,
	}, nil
}

// checkJoiner returns an error if a field of joiner is malformed. Both hello and claim are checked, because the hello
// inside a claim may differ from the hello that was answered.
func checkJoiner(joiner identity.Joiner) error {
	if len(joiner.AgeKey) > maxAgeKey {
		return writ.Errorf(writ.CodeBadRequest, "an age key has at most %d characters", maxAgeKey)
	}
	if joiner.Serial != "" && !identity.ValidSerial(joiner.Serial) {
		return writ.Errorf(writ.CodeBadRequest, "the serial number of a machine has %d to %d visible characters",
			identity.MinSerial, identity.MaxSerial)
	}
	if len(joiner.Key) != ed25519.PublicKeySize || len(joiner.Nonce) != identity.NonceSize ||
		!writ.ValidName(joiner.Name) {
		return writ.Errorf(writ.CodeBadRequest, "a joiner has a name, a key of %d bytes and a nonce of %d bytes",
			ed25519.PublicKeySize, identity.NonceSize)
	}
	return nil
}

func joinerOf(c nodes.Claim) identity.Joiner {
	h := c.Hello
	return identity.Joiner{Token: h.Token, Name: h.Name, Key: h.Key, AgeKey: h.AgeKey, Nonce: h.Nonce, Serial: c.Serial}
}

// Admit implements nodes.Backend. It approves a node with a valid token at once, unless the datacenter has manual
// approval. A node without a token waits for a signed statement, unless a batch approves it. If the node's key was
// decided on before, even if the node was removed, Admit returns that decision and spends no token.
func (s *Supervisor) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	if err := checkJoiner(joiner); err != nil {
		return nodes.Welcome{}, err
	}
	if !s.greeted.valid(claim.Nonce, time.Now()) {
		return nodes.Welcome{}, writ.Errorf(writ.CodeTokenInvalid, "the join took too long, or did not begin here").
			WithHint("join again")
	}
	token, err := s.token(ctx, joiner.Token)
	if err != nil {
		return nodes.Welcome{}, err
	}
	var key identity.TokenKey
	copy(key[:], token.Key)
	if err := identity.VerifyJoinClaim(joiner, claim.Nonce, key, claim.Proof, claim.Signature); err != nil {
		// context for the log
		return nodes.Welcome{}, fmt.Errorf("the claim of %s with the token %q: %w", joiner.Name, joiner.Token, err)
	}
	known := s.fleet.Members.ByKey(joiner.Key)
	byToken := token.ID != "" && known != nil && known.Admission == writ.AdmissionPending && known.Token != token.ID
	switch {
	case known != nil && !byToken:
		return s.welcome(claim, known)
	case token.ID == "":
		return s.admitWaiting(ctx, claim)
	}
	welcome, err := s.admitNew(ctx, claim, known, token)
	if known := s.fleet.Members.ByKey(joiner.Key); known != nil && errors.Is(err, errDecidedMeanwhile) {
		return s.welcome(claim, known)
	}
	return welcome, err
}

// errDecidedMeanwhile reports that the node's record was created or changed after its claim was checked.
var errDecidedMeanwhile = writ.Errorf(writ.CodeConflict, "something was decided about the node meanwhile").
	WithHint("join again")

// welcome returns the signed membership of node n, bound to the nonces of hello and claim.
func (s *Supervisor) welcome(claim nodes.Claim, n *journal.Node) (nodes.Welcome, error) {
	signed, err := s.membership(envelope.Welcome, n, slices.Concat(claim.Hello.Nonce, claim.Nonce))
	return nodes.Welcome{
		Node: n.ID, Name: n.Name, Admission: n.Admission, Cluster: s.Pin, Datacenter: s.Datacenter, Epoch: s.epoch,
		Signed: signed,
	}, err
}

// membership signs the membership of node n as an envelope of the given kind, bound to nonce.
func (s *Supervisor) membership(kind envelope.Kind, n *journal.Node, nonce []byte) ([]byte, error) {
	roster := s.rosters.Current()
	digest, err := roster.Digest()
	if err != nil {
		return nil, err
	}
	m := nodes.Membership{
		Node: n.ID, Name: n.Name, Key: n.PublicKey, Admission: n.Admission, Cluster: s.Pin, Datacenter: s.Datacenter,
		Epoch: s.epoch, Roster: roster.Version, Digest: digest, Nonce: nonce, Made: s.Now().UnixMilli(),
	}
	if kind == envelope.Fence { // earlier nodes reject the field in other kinds
		m.Lost = n.Lost
	}
	return envelope.Sign(kind, s.Key, m)
}

// Standing implements nodes.Backend.
func (s *Supervisor) Standing(_ context.Context, node writ.NodeID, nonce []byte) ([]byte, error) {
	if len(nonce) != identity.NonceSize {
		return nil, writ.Errorf(writ.CodeBadRequest, "a nonce has %d bytes", identity.NonceSize)
	}
	n := s.node(node)
	if n == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "there is no node %s", node)
	}
	return s.membership(envelope.Standing, n, nonce)
}

// Member implements nodes.Members.
func (s *Supervisor) Member(key ed25519.PublicKey) *writ.Node {
	n := s.node(nodeIDOf(s.Datacenter, key))
	if n == nil || !key.Equal(ed25519.PublicKey(n.PublicKey)) {
		n = s.fleet.Members.ByKey(key) // the id of an older record was derived in another way
	}
	if n == nil {
		return nil
	}
	return &n.Node
}

// node returns the record of a decided or pending node, or nil if the node is unknown.
func (s *Supervisor) node(node writ.NodeID) *journal.Node {
	if n := s.fleet.Members.Record(node); n != nil {
		return n
	}
	return s.pending.get(node)
}

// newNode returns the record of a joiner in the pending state.
func (s *Supervisor) newNode(joiner identity.Joiner) *journal.Node {
	var host *writ.Host
	if joiner.Serial != "" {
		host = &writ.Host{Serial: joiner.Serial}
	}
	return &journal.Node{
		Node: writ.Node{
			ID: nodeIDOf(s.Datacenter, joiner.Key), Datacenter: s.Datacenter, Name: joiner.Name,
			Key: sshsig.Fingerprint(joiner.Key), Admission: writ.AdmissionPending, Scheduling: writ.SchedulingOpen,
			Liveness: writ.LivenessSilent, Joined: s.Now().UTC(),
			HostFacts: writ.HostFacts{Host: host},
		},
		PublicKey: slices.Clone(joiner.Key), AgeKey: joiner.AgeKey, Serial: joiner.Serial,
	}
}

// admitWaiting handles a claim without a token. It approves the node if a batch lists its serial number; otherwise the
// node waits for a statement. A waiting node does not reserve its name. A name that an admitted node has is refused.
func (s *Supervisor) admitWaiting(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	if isTaken(s.fleet.Members, joiner.Name) {
		return nodes.Welcome{}, decision.NameTaken(joiner.Name)
	}
	asks := s.newNode(joiner)
	if !s.mayReportSerial(asks, nodes.Remote(ctx)) {
		asks.Serial, asks.Host = "", nil
	}
	if b := s.batchFor(asks.Serial); b != nil {
		n, err := s.admitByBatch(ctx, *asks, b.ID)
		if known := s.fleet.Members.ByKey(joiner.Key); known != nil && errors.Is(err, errDecidedMeanwhile) {
			return s.welcome(claim, known)
		}
		if !errors.Is(err, errNotApproved) {
			if err != nil {
				return nodes.Welcome{}, err
			}
			return s.welcome(claim, n)
		}
	}
	return s.keepPending(ctx, claim, asks)
}

// keepPending adds a node to the waiting ones.
func (s *Supervisor) keepPending(ctx context.Context, claim nodes.Claim, asks *journal.Node) (nodes.Welcome, error) {
	n, news, crowded := s.pending.ask(*asks, nodes.Remote(ctx), time.Now())
	if crowded {
		s.Log.Warn("too many nodes ask for admission: new requests displace old ones", "most", maxPending)
	} else if news && s.pending.mayLog(time.Now()) {
		s.Log.Info("node waits to be admitted", "node", n.Name, "id", n.ID, "key", n.Key)
	}
	return s.welcome(claim, &n)
}

// isTaken reports whether an approved node has this name.
func isTaken(members *fleet.Members, name string) bool {
	return len(members.Select(func(n *journal.Node) bool {
		return n.Name == name && n.Admission == writ.AdmissionApproved
	})) > 0
}

// joinedWith returns the names of the nodes that joined with a token, sorted.
func joinedWith(members *fleet.Members, token string) (names []string) {
	for _, n := range members.Select(func(n *journal.Node) bool { return n.Token == token }) {
		names = append(names, n.Name)
	}
	return names
}

// token loads the token with this id. The zero value stands for no token.
func (s *Supervisor) token(ctx context.Context, id string) (journal.Token, error) {
	if id == "" {
		return journal.Token{}, nil
	}
	var token *journal.Token
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		token, err = tx.Token(id)
		return err
	})
	if err == nil && token == nil {
		err = writ.Errorf(writ.CodeTokenInvalid, "the join token is not known here").
			WithHint("make one for this datacenter with `writ token create`")
	}
	if err != nil {
		return journal.Token{}, err
	}
	return *token, nil
}

// admitNew spends the token and writes the node record in one transaction. known is the node's record from an earlier
// claim, or nil.
func (s *Supervisor) admitNew(
	ctx context.Context, claim nodes.Claim, known *journal.Node, token journal.Token,
) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	// counted in memory: the use count in the database may be forged
	if len(joinedWith(s.fleet.Members, token.ID)) >= token.Uses {
		return nodes.Welcome{}, tokenSpent(token)
	}
	n := s.newNode(joiner)
	if known != nil {
		n.ID, n.Decisions, n.Labels = known.ID, known.Decisions+1, known.Labels
	}
	n.Token = token.ID
	err := s.Journal.Write(failpoint.At(ctx, failpoint.NodeAdmitted), func(tx *journal.Tx) error {
		n.Joined = tx.Now
		was, err := tx.Node(n.ID)
		switch {
		case err != nil:
			return err
		case was != nil && (known == nil || was.Decisions != known.Decisions):
			return errDecidedMeanwhile
		}
		if err := s.checkTokenMaker(token.ID, token.CreatedBy); err != nil {
			return err
		}
		spent, err := tx.SpendToken(token.ID, envelope.IDOf(joiner.Key))
		if err != nil {
			return err
		}
		if !spent {
			return refuseToken(token, tx.Now)
		}
		if !s.rosters.Current().Datacenter(s.Datacenter).ManualApproval {
			n.Admission = writ.AdmissionApproved
		}
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		tx.Then(func() {
			s.fleet.Members.Put(*n)
			s.pending.remove(n.ID)
			s.accounts.rouse()
		})
		return nil
	})
	if sqldb.IsDuplicate(err) {
		return nodes.Welcome{}, decision.NameTaken(joiner.Name)
	}
	if err != nil {
		return nodes.Welcome{}, err
	}
	s.Log.Info("node joined", "node", n.Name, "id", n.ID, "admission", n.Admission, "key", n.Key)
	return s.welcome(claim, n)
}

func refuseToken(token journal.Token, now time.Time) error {
	if token.Revoked() {
		return writ.Errorf(writ.CodeTokenInvalid, "the join token %s was revoked", token.ID).
			WithHint("make another one with `writ token create`")
	}
	if !token.Expires.After(now) {
		return writ.Errorf(writ.CodeTokenInvalid, "the join token expired on %s", token.Expires.Format(time.RFC3339)).
			WithHint("make another one with `writ token create`")
	}
	return tokenSpent(token)
}

func tokenSpent(token journal.Token) error {
	return writ.Errorf(writ.CodeTokenSpent, "the join token %s has admitted %s", token.ID, admitted(token.Uses)).
		WithHint("make another one with `writ token create`")
}

func admitted(uses int) string {
	if uses == 1 {
		return "another node"
	}
	return fmt.Sprintf("all %d nodes that it admits", uses)
}

// Rosters implements nodes.Backend.
func (s *Supervisor) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return s.rosters.Current().Chain().Path(after, s.rosters.Text(ctx))
}

// Gone implements nodes.Members.
func (s *Supervisor) Gone(node writ.NodeID) bool {
	known := s.fleet.Members.Record(node)
	return known != nil && known.Gone
}

// RosterPage implements nodes.Members.
func (s *Supervisor) RosterPage(after int) (start, newest int) {
	roster := s.rosters.Current()
	return roster.Chain().PageStart(after), roster.Version
}

// Account implements nodes.Backend.
func (s *Supervisor) Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error) {
	n := s.node(node)
	if n == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "there is no node %s", node)
	}
	if err := nodes.Admitted(&n.Node); err != nil {
		return nil, err
	}
	return s.accounts.of(ctx, n, asked)
}

// Payload implements nodes.Backend.
func (s *Supervisor) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return s.programs.Payload(ctx, digest)
}
