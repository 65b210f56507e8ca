package admission

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
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

// Joins admits nodes. A node sends a hello, receives a proof of the supervisor's identity, and sends a claim with or
// without a token.
type Joins struct {
	site      *Site
	batches   *Batches
	greetings *greetings
}

// NewJoins returns the joins of a datacenter.
func NewJoins(site *Site, batches *Batches) *Joins {
	return &Joins{site: site, batches: batches, greetings: newGreetings()}
}

// Greet implements nodes.Backend. The supervisor proves its identity before the node sends its claim.
func (j *Joins) Greet(_ context.Context, hello nodes.Hello) (nodes.Proof, error) {
	joiner := joinerOf(nodes.Claim{Hello: hello})
	if err := checkJoiner(joiner); err != nil {
		return nodes.Proof{}, err
	}
	nonce := identity.NewChallenge()
	j.greetings.add(nonce, time.Now())
	return nodes.Proof{
		Nonce: nonce, Signature: ed25519.Sign(j.site.Key, identity.JoinProofText(joiner, nonce)), Serial: true,
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
// approval. A node without a token waits for a signed statement, unless a batch approves it. If the node has a record
// already, even of its removal, Admit returns its admission and spends no token. The exception is a pending node that
// now has another token.
func (j *Joins) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	if err := checkJoiner(joiner); err != nil {
		return nodes.Welcome{}, err
	}
	if !j.greetings.valid(claim.Nonce, time.Now()) {
		return nodes.Welcome{}, writ.Errorf(writ.CodeTokenInvalid, "the join took too long, or did not start at this supervisor").
			WithHint("join again")
	}
	token, err := j.token(ctx, joiner.Token)
	if err != nil {
		return nodes.Welcome{}, err
	}
	var key identity.TokenKey
	copy(key[:], token.Key)
	if err := identity.VerifyJoinClaim(joiner, claim.Nonce, key, claim.Proof, claim.Signature); err != nil {
		// context for the log
		return nodes.Welcome{}, fmt.Errorf("the claim of %s with the token %q: %w", joiner.Name, joiner.Token, err)
	}
	known := j.site.Fleet.Members.ByKey(joiner.Key)
	byToken := token.ID != "" && known != nil && known.Admission == writ.AdmissionPending && known.Token != token.ID
	switch {
	case known != nil && !byToken:
		return j.welcome(claim, known)
	case token.ID == "":
		return j.admitWaiting(ctx, claim)
	}
	welcome, err := j.admitNew(ctx, claim, known, token)
	if known := j.site.Fleet.Members.ByKey(joiner.Key); known != nil && errors.Is(err, errDecidedMeanwhile) {
		return j.welcome(claim, known)
	}
	return welcome, err
}

// errDecidedMeanwhile reports that the node's record was created or changed after its claim was checked.
var errDecidedMeanwhile = writ.Errorf(writ.CodeConflict, "the admission of the node was decided meanwhile").
	WithHint("join again")

// welcome returns the signed membership of node n, bound to the nonces of hello and claim.
func (j *Joins) welcome(claim nodes.Claim, n *journal.Node) (nodes.Welcome, error) {
	signed, err := j.site.membership(envelope.Welcome, n, slices.Concat(claim.Hello.Nonce, claim.Nonce))
	return nodes.Welcome{
		Node: n.ID, Name: n.Name, Admission: n.Admission, Cluster: j.site.Cluster, Datacenter: j.site.Datacenter,
		Epoch:  j.site.Epoch,
		Signed: signed,
	}, err
}

// newNode returns the record of a joiner in the pending state.
func (j *Joins) newNode(joiner identity.Joiner) *journal.Node {
	var host *writ.Host
	if joiner.Serial != "" {
		host = &writ.Host{Serial: joiner.Serial}
	}
	return &journal.Node{
		Node: writ.Node{
			ID: nodeIDOf(j.site.Datacenter, joiner.Key), Datacenter: j.site.Datacenter, Name: joiner.Name,
			Key: sshsig.Fingerprint(joiner.Key), Admission: writ.AdmissionPending, Scheduling: writ.SchedulingOpen,
			Liveness: writ.LivenessSilent, Joined: j.site.Now().UTC(),
			HostFacts: writ.HostFacts{Host: host},
		},
		PublicKey: slices.Clone(joiner.Key), AgeKey: joiner.AgeKey, Serial: joiner.Serial,
	}
}

// admitWaiting handles a claim without a token. It approves the node if a batch lists its serial number; otherwise the
// node waits for a statement. A waiting node does not reserve its name. A claim with the name of
// an approved node is refused.
func (j *Joins) admitWaiting(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	if isTaken(j.site.Fleet.Members, joiner.Name) {
		return nodes.Welcome{}, decision.NameTaken(joiner.Name)
	}
	asks := j.newNode(joiner)
	if !j.batches.mayReport(asks, nodes.Remote(ctx)) {
		asks.Serial, asks.Host = "", nil
	}
	if b := j.batches.forSerial(asks.Serial); b != nil {
		n, err := j.batches.admit(ctx, *asks, b.ID)
		if known := j.site.Fleet.Members.ByKey(joiner.Key); known != nil && errors.Is(err, errDecidedMeanwhile) {
			return j.welcome(claim, known)
		}
		if !errors.Is(err, errNotApproved) {
			if err != nil {
				return nodes.Welcome{}, err
			}
			return j.welcome(claim, n)
		}
	}
	return j.keepPending(ctx, claim, asks)
}

// keepPending adds a node to the nodes that wait for a statement.
func (j *Joins) keepPending(ctx context.Context, claim nodes.Claim, asks *journal.Node) (nodes.Welcome, error) {
	n, news, crowded := j.site.Pending.Ask(*asks, nodes.Remote(ctx), time.Now())
	if crowded {
		j.site.Log.Warn("too many nodes ask for admission: new requests displace old ones", "most", maxPending)
	} else if news && j.site.Pending.mayLog(time.Now()) {
		j.site.Log.Info("node waits to be admitted", "node", n.Name, "id", n.ID, "key", n.Key)
	}
	return j.welcome(claim, &n)
}

// isTaken reports whether an approved node has this name.
func isTaken(members *fleet.Members, name string) bool {
	return len(members.Select(func(n *journal.Node) bool {
		return n.Name == name && n.Admission == writ.AdmissionApproved
	})) > 0
}

// token loads the token with this id. For the id "", it returns the zero value.
func (j *Joins) token(ctx context.Context, id string) (token *journal.Token, err error) {
	if id == "" {
		return new(journal.Token), nil
	}
	token, err = journal.Query(ctx, j.site.Journal, func(tx *journal.Tx) (*journal.Token, error) { return tx.Token(id) })
	if err == nil && token == nil {
		err = writ.Errorf(writ.CodeTokenInvalid, "the join token is not known here").
			WithHint("make one for this datacenter with `writ token create`")
	}
	return token, err
}

// admitNew spends the token and writes the node record in one transaction. `known` is the node's record from an earlier
// claim, or nil.
func (j *Joins) admitNew(
	ctx context.Context, claim nodes.Claim, known *journal.Node, token *journal.Token,
) (nodes.Welcome, error) {
	joiner := joinerOf(claim)
	// counted in memory: the use count in the database may be forged
	if len(JoinedWith(j.site.Fleet.Members, token.ID)) >= token.Uses {
		return nodes.Welcome{}, tokenSpent(token)
	}
	n := j.newNode(joiner)
	if known != nil {
		n.ID, n.Decisions, n.Labels = known.ID, known.Decisions+1, known.Labels
	}
	n.Token = token.ID
	err := j.site.Journal.Write(failpoint.At(ctx, failpoint.NodeAdmitted), func(tx *journal.Tx) error {
		n.Joined = tx.Now
		was, err := tx.Node(n.ID)
		switch {
		case err != nil:
			return err
		case was != nil && (known == nil || was.Decisions != known.Decisions):
			return errDecidedMeanwhile
		}
		if err := checkMaker(j.site.Roster(), token, tx.Now); err != nil {
			return err
		}
		spent, err := tx.SpendToken(token.ID, envelope.IDOf(joiner.Key))
		if err != nil {
			return err
		}
		if !spent {
			return refuseToken(token, tx.Now)
		}
		if !j.site.Roster().Datacenter(j.site.Datacenter).ManualApproval {
			n.Admission = writ.AdmissionApproved
		}
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		tx.Then(func() {
			j.site.Apply(*n)
		})
		return nil
	})
	if sqldb.IsDuplicate(err) {
		return nodes.Welcome{}, decision.NameTaken(joiner.Name)
	}
	if err != nil {
		return nodes.Welcome{}, err
	}
	j.site.Log.Info("node joined", "node", n.Name, "id", n.ID, "admission", n.Admission, "key", n.Key)
	return j.welcome(claim, n)
}
