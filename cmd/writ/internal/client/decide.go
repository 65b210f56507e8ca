package client

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/meant"
	"writ/internal/sleep"
)

// Decide signs and submits a statement; see Person.SignStatement for the fields to set. The result, done or refused, is
// signed by the supervisor of the datacenter and is for this statement.
func (c Statements) Decide(ctx context.Context, by *Person, s identity.Statement) (api.StatementAnswer, error) {
	answer, _, err := c.DecideAt(ctx, by, s)
	return answer, err
}

// DecideAt works like Decide, and also returns the time of the decision by the supervisor's clock.
func (c Statements) DecideAt(
	ctx context.Context, by *Person, s identity.Statement,
) (api.StatementAnswer, time.Time, error) {
	done, answer, err := c.decide(ctx, by, s)
	return done, time.UnixMilli(answer.Time), err
}

// decide works like Decide, and also returns the complete signed answer of the supervisor.
func (c Statements) decide(
	ctx context.Context, by *Person, s identity.Statement,
) (api.StatementAnswer, writ.Answer, error) {
	signed, err := by.SignStatement(s)
	if err != nil {
		return api.StatementAnswer{}, writ.Answer{}, err
	}
	to, err := newAnswerTo(by.Roster, sshsig.StatementNamespace, signed)
	if err != nil {
		return api.StatementAnswer{}, writ.Answer{}, err
	}
	said, err := api.Answer[api.StatementAnswer](c.client.API.SubmitStatementWithBody(ctx, api.SignedType,
		bytes.NewReader(signed)))
	if err != nil {
		return api.StatementAnswer{}, writ.Answer{}, to.refused(writ.AsError(err))
	}
	return to.done(said)
}

// NewToken holds the properties of a join token.
type NewToken struct {
	Role     string // identity.TokenRoleNode or identity.TokenRoleBoot
	Validity time.Duration
	Uses     int // number of nodes that it admits
}

// CreateToken creates a join token and registers it at the datacenter.
func (c Statements) CreateToken(
	ctx context.Context, by *Person, datacenter writ.DatacenterID, is NewToken,
) (identity.Token, time.Time, error) {
	token, err := identity.NewToken(by.Roster.Cluster).For(datacenter, by.Roster)
	if err != nil {
		return identity.Token{}, time.Time{}, err
	}
	expires := time.Now().Add(is.Validity).UTC().Truncate(time.Second)
	statement := identity.Statement{Datacenter: datacenter}
	identity.TokenGrant{ID: token.ID, Key: token.Key(), Role: is.Role, Expires: expires, Uses: is.Uses}.Statement(
		&statement)
	_, err = c.Decide(ctx, by, statement)
	return token, expires, err
}

// NodeName identifies a node in a user's command. Only these values come from the user. The coordinator supplies the
// node's id, and the supervisor rejects an id that does not belong to these values.
type NodeName struct {
	Datacenter  string // name or id; may be "" if the roster has only one datacenter
	Node        string // name or id
	Fingerprint string // fingerprint of its key, "SHA256:…"; "" if not given
}

// Find queries the coordinator for the node that the user named. The node's name or id equals the user's input, and its
// datacenter has the given name in the roster. Removed nodes are not found.
func (c Nodes) Find(ctx context.Context, roster *identity.Roster, name NodeName) (writ.Node, error) {
	return c.find(ctx, roster, name, "")
}

// FindOrRemoved works like Find, but searches the removed nodes if no other node matches.
func (c Nodes) FindOrRemoved(ctx context.Context, roster *identity.Roster, name NodeName) (writ.Node, error) {
	n, err := c.Find(ctx, roster, name)
	if writ.CodeOf(err) != writ.CodeNotFound {
		return n, err
	}
	removed, other := c.find(ctx, roster, name, writ.AdmissionRemoved)
	if writ.CodeOf(other) == writ.CodeNotFound {
		return writ.Node{}, err
	}
	return removed, other
}

// find finds a node among those with this admission state; "" means all nodes except removed ones.
func (c Nodes) find(
	ctx context.Context, roster *identity.Roster, name NodeName, admission writ.Admission,
) (writ.Node, error) {
	dc, err := TheDatacenter(roster, name.Datacenter)
	if err != nil {
		return writ.Node{}, c.locate(ctx, roster, name, err)
	}
	nodes, err := c.List(ctx, api.ListNodesParams{Datacenter: api.Given(string(dc.ID)), Admission: api.Given(admission)})
	if err != nil {
		return writ.Node{}, err
	}
	var found []writ.Node
	for _, n := range nodes {
		if n.Datacenter == dc.ID && (n.Name == name.Node || string(n.ID) == name.Node) &&
			(name.Fingerprint == "" || n.Key == name.Fingerprint) {
			found = append(found, n)
		}
	}
	list := "writ node list -o wide"
	if admission != "" {
		list += " --admission " + string(admission)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return writ.Node{}, writ.Errorf(writ.CodeConflict, "%d nodes of %s are called %q", len(found), dc.Name, name.Node).
			WithHint("add --fingerprint, or use the id; `%s` shows both", list)
	case name.Fingerprint != "":
		return writ.Node{}, writ.Errorf(writ.CodeNotFound, "%s has no node %q with the key %s", dc.Name, name.Node,
			name.Fingerprint).
			WithHint("compare it with the fingerprint that the machine shows; `%s` lists the nodes that wait for approval",
				list)
	}
	return writ.Node{}, writ.Errorf(writ.CodeNotFound, "unknown node %q in %s", name.Node, dc.Name).
		WithHint("%s",
			meant.Among(name.Node, nodes, func(n writ.Node) string { return n.Name }, "`writ node list` lists the nodes"))
}

// TheDatacenter returns the datacenter with a name or id, or the only datacenter of the roster. It uses only the
// roster.
func TheDatacenter(roster *identity.Roster, nameOrID string) (*identity.Datacenter, error) {
	switch {
	case nameOrID != "":
		return Datacenter(roster, nameOrID)
	case len(roster.Datacenters) == 1:
		return &roster.Datacenters[0], nil
	case len(roster.Datacenters) == 0:
		return nil, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter yet").
			WithHint("a root operator adds one with `writ dc add`")
	}
	return nil, SeveralDatacenters(roster).WithHint("choose with --dc NAME")
}

// SeveralDatacenters returns the error of a command that needs one datacenter but names none.
func SeveralDatacenters(roster *identity.Roster) *writ.Error {
	var names []string
	for _, d := range roster.Datacenters {
		names = append(names, d.Name)
	}
	return writ.Errorf(writ.CodeUsage, "there are %d datacenters: %s", len(names), strings.Join(names, ", "))
}

// AboutNode starts a statement about a node.
func AboutNode(n writ.Node) identity.Statement {
	return identity.Statement{Datacenter: n.Datacenter, Subject: "node/" + string(n.ID), Seen: identity.SeenNode(n)}
}

// AboutRun starts a statement about a run. The end of the run is part of it only for a resume.
func AboutRun(run api.Run, decision string) identity.Statement {
	var ended time.Time
	if decision == "resume" {
		ended = run.Ended
	}
	return identity.Statement{
		Datacenter: run.Datacenter, Subject: "run/" + string(run.ID), Decision: decision,
		Seen: identity.SeenRun(run.Script, run.Project, run.ProjectName, ended),
	}
}

// nodeNewsWithin limits the wait of Nodes.AwaitNews.
const nodeNewsWithin = 5 * time.Second

// AwaitNews waits until the coordinator has received a decision about a node. `before` is the node before the decision.
// The answer to a statement arrives before the event, and the next statement must name the next revision. AwaitNews
// gives up without an error after nodeNewsWithin.
func (c Nodes) AwaitNews(ctx context.Context, before writ.Node, decision string) {
	removed := decision == "remove" || decision == identity.DecisionLost
	listed := api.ListNodesParams{Datacenter: api.Given(string(before.Datacenter))}
	if before.Admission == writ.AdmissionRemoved {
		listed.Admission = api.Given(before.Admission)
	}
	ctx, stop := context.WithTimeout(ctx, nodeNewsWithin)
	defer stop()
	for {
		nodes, err := c.List(ctx, listed)
		if err != nil {
			return
		}
		i := slices.IndexFunc(nodes, func(n writ.Node) bool { return n.ID == before.ID })
		if i >= 0 && nodes[i].Revision > before.Revision || i < 0 && removed {
			// a missing node (i < 0) does not prove its removal: a newly admitted node is listed only after its event
			return
		}
		if sleep.For(ctx, newsEvery) != nil {
			return
		}
	}
}
