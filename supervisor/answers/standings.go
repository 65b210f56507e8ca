package answers

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Standings signs the present state of the datacenter, bound to the nonce of a client. All fields are required.
type Standings struct {
	Journal    *journal.Journal
	Key        ed25519.PrivateKey
	Cluster    writ.ClusterID
	Datacenter writ.DatacenterID
	Roster     func() *identity.Roster // roster in force
	// RunRecord loads the record of a run. Its error is NOT_FOUND for an unknown run.
	RunRecord func(ctx context.Context, id writ.RunID) (*journal.Run, error)
	// JoinTokens lists the join tokens.
	JoinTokens func(ctx context.Context) ([]writ.JoinToken, error)
	// HoldDecisions lists the current decisions about holds.
	HoldDecisions func() []link.Hold
	Now           func() time.Time
}

// Adopted signs the version and digest of the roster in force.
func (s *Standings) Adopted(_ context.Context, p link.Adopted) (link.AdoptedAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.AdoptedAnswer{}, err
	}
	roster := s.Roster()
	digest, err := roster.Digest()
	if err != nil {
		return link.AdoptedAnswer{}, fmt.Errorf("sign which roster is in force: %w", err)
	}
	proof, err := envelope.Sign(envelope.Adoption, s.Key, writ.Adoption{
		Cluster: s.Cluster, Datacenter: s.Datacenter, Roster: roster.Version, Digest: digest, Nonce: p.Nonce,
		Time: s.Now().UnixMilli(),
	})
	return link.AdoptedAnswer{Proof: proof}, err
}

// Run signs the state of a run.
func (s *Standings) Run(ctx context.Context, p link.Standing) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	run, err := s.RunRecord(ctx, p.Run)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.RunStanding{
		Cluster: s.Cluster, Datacenter: s.Datacenter, Run: p.Run, State: run.State, Resumes: run.Resumes, Nonce: p.Nonce,
		Time: s.Now().UnixMilli(),
	}
	if run.State.Ended() {
		stands.Summary = writ.DigestOf(run.Summary)
	}
	proof, err := envelope.Sign(envelope.RunStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// Node signs the state of a node that has a record in the journal.
func (s *Standings) Node(ctx context.Context, p link.StandingOfNode) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	n, err := journal.Query(ctx, s.Journal, func(tx *journal.Tx) (*journal.Node, error) { return tx.Node(p.Node) })
	switch {
	case err != nil:
		return link.StandingAnswer{}, err
	case n == nil:
		return link.StandingAnswer{}, writ.Errorf(writ.CodeNotFound, "this datacenter has no node %s", p.Node).
			WithHint("`writ node list` lists the nodes")
	}
	proof, err := envelope.Sign(envelope.NodeStanding, s.Key, link.NodeStanding{
		Cluster: s.Cluster, Datacenter: s.Datacenter, Node: p.Node, Name: n.Name, Key: n.Key, Admission: n.Admission,
		Scheduling: n.Scheduling, Revision: n.Decisions, Nonce: p.Nonce, Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// Tokens signs the list of join tokens.
func (s *Standings) Tokens(ctx context.Context, p link.StandingOfTokens) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	tokens, err := s.JoinTokens(ctx)
	if err != nil {
		return link.StandingAnswer{}, err
	}
	stands := link.TokenStanding{
		Cluster: s.Cluster, Datacenter: s.Datacenter, Tokens: []link.StandingToken{}, Nonce: p.Nonce,
		Time: s.Now().UnixMilli(),
	}
	for _, t := range tokens {
		stands.Tokens = append(stands.Tokens, link.StandingToken{
			ID: t.ID, CreatedBy: t.CreatedBy, Expires: t.Expires.UnixMilli(), Uses: t.Uses,
			Nodes: append([]string{}, t.Nodes...),
		})
	}
	proof, err := envelope.Sign(envelope.TokenStanding, s.Key, stands)
	return link.StandingAnswer{Proof: proof}, err
}

// Holds signs the holds of the requested projects and all holds without a project. The coordinator checks which
// projects the client may see.
func (s *Standings) Holds(_ context.Context, p link.StandingOfHolds) (link.StandingAnswer, error) {
	if err := checkNonce(p.Nonce); err != nil {
		return link.StandingAnswer{}, err
	}
	holds := s.HoldDecisions()
	if !slices.Contains(p.Projects, identity.AllProjects) {
		holds = slices.DeleteFunc(holds,
			func(h link.Hold) bool { return h.Project != "" && !slices.Contains(p.Projects, h.Project) })
	}
	proof, err := envelope.Sign(envelope.HoldStanding, s.Key, link.HoldStanding{
		Cluster: s.Cluster, Datacenter: s.Datacenter, Projects: p.Projects, Holds: holds, Nonce: p.Nonce,
		Time: s.Now().UnixMilli(),
	})
	return link.StandingAnswer{Proof: proof}, err
}

// checkNonce returns an error if nonce does not have the length of a client's nonce.
func checkNonce(nonce []byte) error {
	if len(nonce) != writ.ClientNonce {
		return writ.Errorf(writ.CodeBadRequest, "nonce: it has %d bytes, not %d", len(nonce), writ.ClientNonce)
	}
	return nil
}
