package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/envelope"
	"writ/supervisor/link"
)

// standingWithin limits a request for signed status.
const standingWithin = 5 * time.Second

// newNonce returns a random nonce. A signed answer that contains it is fresh.
func newNonce() []byte {
	nonce := make([]byte, writ.ClientNonce)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

// standing asks the datacenter of a run for its status. The error is UNVERIFIED if the supervisor did not sign the
// answer.
func (c Runs) standing(ctx context.Context, roster *identity.Roster, run api.Run) (link.RunStanding, error) {
	ctx, stop := context.WithTimeout(ctx, standingWithin)
	defer stop()
	nonce := newNonce()
	answer, err := api.Answer[api.RunStanding](c.client.API.GetStanding(ctx, run.ID,
		&api.GetStandingParams{Nonce: hex.EncodeToString(nonce)}))
	if writ.CodeOf(err) == writ.CodeVerbUnsupported {
		return link.RunStanding{}, writ.Errorf(writ.CodeVerbUnsupported,
			"its supervisor has an earlier version, which does not sign the state of runs: upgrade it")
	}
	if err != nil {
		return link.RunStanding{}, err
	}
	d := roster.Datacenter(run.Datacenter)
	stands, err := openSigned[link.RunStanding](d, envelope.RunStanding, answer.Proof)
	switch {
	case err != nil:
		return link.RunStanding{}, unverified(d, "the coordinator reports an answer of %s on the state of run %s: %v", d.Name,
			run.ID, err)
	case stands.Cluster != roster.Cluster || stands.Datacenter != d.ID || stands.Run != run.ID:
		return link.RunStanding{}, unverified(d, "the coordinator returned the state of another run for run %s", run.ID)
	case !bytes.Equal(stands.Nonce, nonce):
		return link.RunStanding{}, unverified(d, "the coordinator returned an earlier state of run %s", run.ID)
	}
	return stands, nil
}

// Standing asks the datacenter of a node for its status. The error is UNVERIFIED if the supervisor did not sign the
// answer for the node with this name, id and key.
func (c Nodes) Standing(ctx context.Context, roster *identity.Roster, n writ.Node) (link.NodeStanding, error) {
	ctx, stop := context.WithTimeout(ctx, standingWithin)
	defer stop()
	nonce := newNonce()
	answer, err := api.Answer[api.NodeStanding](c.client.API.GetNodeStanding(ctx, string(n.Datacenter), n.ID,
		&api.GetNodeStandingParams{Nonce: hex.EncodeToString(nonce)}))
	if writ.CodeOf(err) == writ.CodeVerbUnsupported {
		return link.NodeStanding{}, writ.Errorf(writ.CodeVerbUnsupported,
			"the supervisor of node %s has an earlier version, which does not sign the state of nodes", n.Name).
			WithHint("upgrade the supervisor; until then, check the machine itself")
	}
	if err != nil {
		return link.NodeStanding{}, err
	}
	d := roster.Datacenter(n.Datacenter)
	stands, err := openSigned[link.NodeStanding](d, envelope.NodeStanding, answer.Proof)
	switch {
	case err != nil:
		return link.NodeStanding{}, unverified(d, "the coordinator reports an answer of %s on the state of node %s: %v",
			d.Name,
			n.Name, err)
	case stands.Cluster != roster.Cluster || stands.Datacenter != d.ID || stands.Node != n.ID || stands.Name != n.Name ||
		stands.Key != n.Key:
		return link.NodeStanding{}, unverified(d, "the coordinator returned the state of another node for node %s", n.Name)
	case !bytes.Equal(stands.Nonce, nonce):
		return link.NodeStanding{}, unverified(d, "the coordinator returned an earlier state of node %s", n.Name)
	}
	return stands, nil
}

// Tokens returns the join tokens of a datacenter. The error is UNVERIFIED if the supervisor did not sign them for this
// request.
func (c Statements) Tokens(
	ctx context.Context, roster *identity.Roster, d *identity.Datacenter,
) ([]writ.JoinToken, error) {
	ctx, stop := context.WithTimeout(ctx, standingWithin)
	defer stop()
	nonce := newNonce()
	answer, err := api.Answer[api.TokenStanding](c.client.API.GetTokenStanding(ctx, string(d.ID),
		&api.GetTokenStandingParams{Nonce: hex.EncodeToString(nonce)}))
	if writ.CodeOf(err) == writ.CodeVerbUnsupported {
		return nil, writ.Errorf(writ.CodeVerbUnsupported,
			"its supervisor has an earlier version, which does not sign its tokens: upgrade it, or take the id from the token itself")
	}
	if err != nil {
		return nil, err
	}
	stands, err := openSigned[link.TokenStanding](d, envelope.TokenStanding, answer.Proof)
	switch {
	case err != nil:
		return nil, unverified(d, "the coordinator reports an answer of %s with its tokens: %v", d.Name, err)
	case stands.Cluster != roster.Cluster || stands.Datacenter != d.ID:
		return nil, unverified(d, "the coordinator shows the tokens of another datacenter, for %s", d.Name)
	case !bytes.Equal(stands.Nonce, nonce):
		return nil, unverified(d, "the coordinator returned an earlier list of the tokens of %s", d.Name)
	}
	tokens := []writ.JoinToken{}
	for _, t := range stands.Tokens {
		tokens = append(tokens, writ.JoinToken{
			ID: t.ID, Datacenter: d.ID, CreatedBy: t.CreatedBy, Expires: time.UnixMilli(t.Expires).UTC(), Uses: t.Uses,
			Used: len(t.Nodes), Nodes: t.Nodes,
		})
	}
	return tokens, nil
}

// List returns the holds of a datacenter for the given projects, and the holds that belong to no project. The error is
// UNVERIFIED if the supervisor did not sign them for this request and these projects.
func (c Holds) List(
	ctx context.Context, roster *identity.Roster, d *identity.Datacenter, projects []writ.ProjectID,
) ([]api.Hold, error) {
	ctx, stop := context.WithTimeout(ctx, standingWithin)
	defer stop()
	nonce := newNonce()
	answer, err := api.Answer[api.HoldStanding](c.client.API.GetHoldStanding(ctx, string(d.ID),
		&api.GetHoldStandingParams{Nonce: hex.EncodeToString(nonce), Project: projects}))
	if writ.CodeOf(err) == writ.CodeVerbUnsupported {
		return nil, writ.Errorf(writ.CodeVerbUnsupported,
			"its supervisor has an earlier version, which does not sign its holds: upgrade it")
	}
	if err != nil {
		return nil, err
	}
	stands, err := openSigned[link.HoldStanding](d, envelope.HoldStanding, answer.Proof)
	switch {
	case err != nil:
		return nil, unverified(d, "the coordinator reports an answer of %s with its holds: %v", d.Name, err)
	case stands.Cluster != roster.Cluster || stands.Datacenter != d.ID:
		return nil, unverified(d, "the coordinator returned the holds of another datacenter for %s", d.Name)
	case !slices.Equal(stands.Projects, projects):
		return nil, unverified(d, "the coordinator returned the holds of %s for other projects than the requested ones",
			d.Name)
	case !bytes.Equal(stands.Nonce, nonce):
		return nil, unverified(d, "the coordinator returned an earlier list of the holds of %s", d.Name)
	}
	holds := []api.Hold{}
	for _, h := range stands.Holds {
		holds = append(holds, api.Hold{
			Project: h.Project, ProjectName: h.ProjectName, Deployment: h.Deployment, Operation: h.Operation, Held: h.Held,
			Exempt: h.Exempt, Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		})
	}
	return holds, nil
}

// locate adds the datacenters of a node to the error for a missing --dc. The coordinator only suggests them: a
// statement is signed for the datacenter that the user names.
func (c Nodes) locate(ctx context.Context, roster *identity.Roster, name NodeName, missing error) error {
	e := writ.AsError(missing)
	if e == nil || name.Datacenter != "" || len(roster.Datacenters) < 2 {
		return missing
	}
	nodes, err := c.List(ctx, api.ListNodesParams{})
	if err != nil {
		return missing
	}
	if in := DatacentersOf(name.Node, nodes, roster); len(in) > 0 {
		return e.WithHint("the coordinator lists %s in %s: add --dc %s", name.Node, strings.Join(in, " and "), in[0])
	}
	return missing
}

// DatacentersOf returns the sorted names of the datacenters with a node of this name or id. A coordinator that supplied
// the nodes can hide some and invent others.
func DatacentersOf(node string, nodes []writ.Node, roster *identity.Roster) (names []string) {
	for _, n := range nodes {
		if n.Name != node && string(n.ID) != node {
			continue
		}
		if d := roster.Datacenter(n.Datacenter); d != nil {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
