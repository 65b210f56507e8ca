package supervisor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/seal"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

const (
	greetingLife = time.Minute
	maxGreetings = 10_000
	// maxPending bounds the nodes that wait for a statement: anybody who reaches the door can make one.
	maxPending = 100
)

// greetings remembers the nonces that joiners were answered with, for the claims of the next minute. When there are too many the
// oldest is forgotten: a stranger who says hello all the time cannot keep others out, because a joiner claims within milliseconds.
type greetings struct {
	mu    sync.Mutex
	made  map[string]time.Time
	order []string // of made, oldest first
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

var _ nodes.Backend = (*Supervisor)(nil)

// Greet implements nodes.Backend: the supervisor proves itself first.
func (s *Supervisor) Greet(ctx context.Context, hello nodes.Hello) (nodes.Proof, error) {
	joiner := joinerOf(hello)
	if len(joiner.Key) != ed25519.PublicKeySize || len(joiner.Nonce) != identity.NonceSize || !writ.ValidName(joiner.Name) {
		return nodes.Proof{}, writ.Errorf(writ.CodeBadRequest, "a joiner has a name, a key of %d bytes and a nonce of %d bytes", ed25519.PublicKeySize, identity.NonceSize)
	}
	rosters, err := s.Rosters(ctx, 0)
	if err != nil {
		return nodes.Proof{}, err
	}
	nonce := make([]byte, identity.NonceSize)
	_, _ = rand.Read(nonce) // never fails
	s.greeted.add(nonce, time.Now())
	return nodes.Proof{Rosters: rosters, Nonce: nonce, Signature: ed25519.Sign(s.Key, identity.JoinProofText(joiner, nonce))}, nil
}

func joinerOf(h nodes.Hello) identity.Joiner {
	return identity.Joiner{Token: h.Token, Name: h.Name, Key: h.Key, AgeKey: h.AgeKey, Nonce: h.Nonce}
}

// Admit implements nodes.Backend. A node with a valid token is approved at once, unless the datacenter approves by hand; one without
// waits for a statement. A key that was admitted before gets its old answer.
func (s *Supervisor) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	joiner := joinerOf(claim.Hello)
	if !s.greeted.valid(claim.Nonce, time.Now()) {
		return nodes.Welcome{}, writ.Errorf(writ.CodeTokenInvalid, "the join took too long, or did not begin here").WithHint("join again")
	}
	token, err := s.token(ctx, joiner.Token)
	if err != nil {
		return nodes.Welcome{}, err
	}
	var key identity.TokenKey
	copy(key[:], token.Key)
	if err := identity.VerifyJoinClaim(joiner, claim.Nonce, key, claim.Proof, claim.Signature); err != nil {
		s.Log.Warn("a node was not admitted", "node", joiner.Name, "token", joiner.Token, "err", err)
		return nodes.Welcome{}, err
	}
	if known := s.fleet.byKey(joiner.Key); known != nil {
		if known.Admission == writ.AdmissionRemoved || known.Admission == writ.AdmissionRejected {
			return nodes.Welcome{}, writ.Errorf(writ.CodeNodeRejected, "the node %s was %s here", known.Name, known.Admission).WithHint("join with a new data directory")
		}
		return s.welcome(known), nil
	}
	return s.admitNew(ctx, joiner, token)
}

func (s *Supervisor) welcome(n *journal.Node) nodes.Welcome {
	return nodes.Welcome{
		Node: n.ID, Name: n.Name, Admission: n.Admission, Cluster: s.Pin, Datacenter: s.Datacenter, Epoch: s.epoch,
	}
}

// token finds the token that a joiner names; the zero value stands for none.
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
		err = writ.Errorf(writ.CodeTokenInvalid, "the join token is not known here").WithHint("make one for this datacenter with `writ token create`")
	}
	if err != nil {
		return journal.Token{}, err
	}
	return *token, nil
}

// admitNew spends the token and records the node in one transaction.
func (s *Supervisor) admitNew(ctx context.Context, joiner identity.Joiner, token journal.Token) (nodes.Welcome, error) {
	n := &journal.Node{
		Node: writ.Node{
			ID: writ.NodeID(writ.NewUUID()), Datacenter: s.Datacenter, Name: joiner.Name, Key: identity.Fingerprint(joiner.Key),
			Admission: writ.AdmissionPending, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessSilent,
		},
		PublicKey: slices.Clone(joiner.Key), AgeKey: joiner.AgeKey,
	}
	if token.ID == "" && s.fleet.count(writ.AdmissionPending) >= maxPending {
		return nodes.Welcome{}, writ.Errorf(writ.CodeRateLimited, "%d nodes wait to be approved already", maxPending).
			WithHint("join with a token, or have waiting ones rejected")
	}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.NodeAdmitted), func(tx *journal.Tx) error {
		n.Joined = tx.Now
		if token.ID != "" {
			spent, err := tx.SpendToken(token.ID, seal.IDOf(joiner.Key))
			if err != nil {
				return err
			}
			if !spent {
				return refuseToken(token, tx.Now)
			}
			if !s.ApproveByHand {
				n.Admission = writ.AdmissionApproved
			}
		}
		if err := tx.PutNode(n); err != nil {
			return err
		}
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		return nil
	})
	if sqldb.IsDuplicate(err) {
		return nodes.Welcome{}, writ.Errorf(writ.CodeConflict, "the datacenter has a node %s already", joiner.Name).WithHint("join with another --name")
	}
	if err != nil {
		return nodes.Welcome{}, err
	}
	s.fleet.put(*n)
	s.accounts.rouse()
	s.Log.Info("node joined", "node", n.Name, "id", n.ID, "admission", n.Admission, "key", n.Key)
	return s.welcome(n), nil
}

func refuseToken(token journal.Token, now time.Time) error {
	if !token.Expires.After(now) {
		return writ.Errorf(writ.CodeTokenInvalid, "the join token expired on %s", token.Expires.Format(time.RFC3339)).WithHint("make another one with `writ token create`")
	}
	return writ.Errorf(writ.CodeTokenSpent, "the join token %s has admitted another node", strings.TrimSpace(token.ID)).WithHint("make another one with `writ token create`")
}

// Rosters implements nodes.Backend.
func (s *Supervisor) Rosters(ctx context.Context, after int) (signed [][]byte, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		signed, err = tx.Rosters(after)
		return err
	})
	return signed, err
}

// Account implements nodes.Backend.
func (s *Supervisor) Account(ctx context.Context, node writ.NodeID) ([]byte, error) {
	n := s.fleet.record(node)
	switch {
	case n == nil:
		return nil, writ.Errorf(writ.CodeNotFound, "there is no node %s", node)
	case n.Admission == writ.AdmissionRemoved || n.Admission == writ.AdmissionRejected:
		return nil, writ.Errorf(writ.CodeNodeRejected, "the node %s was %s here", n.Name, n.Admission).WithHint("join with a new data directory")
	case n.Admission != writ.AdmissionApproved:
		return nil, writ.Errorf(writ.CodeConflict, "the node %s is %s", n.Name, n.Admission).WithHint("`writ node approve %s`", n.Name)
	}
	return s.accounts.of(ctx, n)
}

// Payload implements nodes.Backend.
func (s *Supervisor) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	return s.payload(ctx, digest)
}
