package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/held"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/coord/api"
	"writ/coord/remedy"
	"writ/identity"
)

// stuckAfter is the time without progress after which an open run is a problem, as on the page of stuck runs.
const stuckAfter = 5 * time.Minute

// assessor collects the facts about a deployment and finds its problems. Make it with newAssessor.
type assessor struct {
	*cli.Env
	client     *client.Client
	roster     *identity.Roster
	deployment revision.Deployment
	datacenter api.Datacenter
	nodes      map[writ.NodeID]writ.Node // of the datacenter; empty if the reader may not list nodes
	newest     *revision.Revision        // nil if it cannot be read or verified
	status     *status
	forged     error // the first claim of the coordinator that no supervisor has signed
}

// newAssessor finds the deployment with a name, and its datacenter.
func newAssessor(ctx context.Context, env *cli.Env, name, datacenter string) (*assessor, error) {
	c, d, err := cli.FindDeployment(ctx, env, name, datacenter)
	if err != nil {
		return nil, err
	}
	a := &assessor{Env: env, client: c, deployment: d}
	if a.roster, err = env.Roster(ctx, c); err != nil {
		return nil, err
	}
	list, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return nil, err
	}
	a.datacenter = api.Datacenter{ID: d.Datacenter, Name: string(d.Datacenter), Health: api.DatacenterHealthAway}
	if i := slices.IndexFunc(list.Items, func(l api.Datacenter) bool { return l.ID == d.Datacenter }); i >= 0 {
		a.datacenter = list.Items[i]
	}
	a.status = &status{
		Deployment: d.Name, Project: d.ProjectName, Datacenter: a.datacenter.Name, Resources: []api.ListedResource{},
		Problems: []problem{},
	}
	return a, nil
}

// assess returns the status. If a request fails, it returns its error and a nil status. If no supervisor has signed a
// claim of the coordinator, it returns the status and an UNVERIFIED error.
func (a *assessor) assess(ctx context.Context) (*status, error) {
	d := a.deployment
	var err error
	a.status.Resources, err = a.client.Listed(ctx, api.ListResourcesParams{
		Project: api.Given(string(d.Project)), Datacenter: api.Given(string(d.Datacenter)), Deployment: &d.Name,
	})
	if err != nil {
		return nil, err
	}
	nodes, err := a.client.Nodes.ListIfAllowed(ctx, api.ListNodesParams{Datacenter: api.Given(string(d.Datacenter))})
	if err != nil {
		return nil, err
	}
	a.nodes = make(map[writ.NodeID]writ.Node)
	for _, n := range nodes {
		a.nodes[n.ID] = n
	}
	if err := a.findRuns(ctx); err != nil {
		return nil, err
	}
	a.assessDatacenter(ctx)
	if err := a.assessRuns(ctx); err != nil {
		return nil, err
	}
	a.assessResources()
	a.status.Verdict = a.verdict()
	return a.status, a.forged
}

// verdict sums up the problems.
func (a *assessor) verdict() string {
	open := func(r *api.Run) bool { return r != nil && !r.State.Ended() }
	switch all := a.status.Problems; {
	case slices.ContainsFunc(all, func(p problem) bool { return !p.outdated }):
		return verdictWrong
	case len(all) > 0:
		return verdictUnknown
	case open(a.status.Run), open(a.status.Submission):
		return verdictChanging
	}
	return verdictWell
}

func (a *assessor) add(p problem) { a.status.Problems = append(a.status.Problems, p) }

// lacks handles the error of a request for a fact. It records an UNVERIFIED error. For any other error, it warns that
// the fact is missing.
func (a *assessor) lacks(what string, err error) {
	switch {
	case err == nil:
	case writ.CodeOf(err) == writ.CodeUnverified:
		a.forged = cmp.Or(a.forged, err)
	default:
		a.Warn("%s: %v", what, err)
	}
}

// findRuns finds the run of the newest revision with its signed text and its signed end, and a later submission.
func (a *assessor) findRuns(ctx context.Context) error {
	d := a.deployment
	params := d.Runs()
	all, _, err := a.client.Runs.List(ctx, params, 1)
	if err == nil {
		err = client.Selected(all, params)
	}
	if err != nil {
		return err
	}
	if len(all) > 0 && all[0].Revision == 0 {
		a.status.Submission = &all[0]
		a.verify(ctx, a.status.Submission)
	}
	newest, _, err := d.List(ctx, a.client, 0, 1)
	if err != nil || len(newest) == 0 {
		return err
	}
	a.status.Run = &newest[0]
	a.newest, err = d.ReadRun(ctx, a.client, a.roster, newest[0])
	a.lacks("the script of the newest revision cannot be read", err)
	if r := a.newest; r != nil {
		a.status.Revision = &statusRevision{
			Number: r.Number, Signer: r.Payload.Signer, Certificate: r.Certificate, Revoked: r.Revoked != nil,
			Signed: r.Payload.Created, Script: r.Payload.Script.Name,
		}
	}
	a.verify(ctx, a.status.Run)
	return nil
}

// verify replaces the failure of an ended run by the failure in the signed summary.
func (a *assessor) verify(ctx context.Context, run *api.Run) {
	if !run.State.Ended() {
		return
	}
	end, err := a.client.Runs.End(ctx, a.roster, run)
	if err == nil && run.State.Ended() {
		run.Failure = end.Failure
		err = end.Unsure
	}
	a.lacks("cannot check whether the run was resumed", err)
}

// assessDatacenter adds the problems of the datacenter: it is disconnected or faulty, or the work of the deployment is
// on hold.
func (a *assessor) assessDatacenter(ctx context.Context) {
	d := a.datacenter
	about, list := "datacenter "+d.Name, remedy.List(remedy.ListDatacenters).Line
	switch {
	case !d.IsConnected():
		a.status.AsOf = d.Heard
		p := problem{About: about, What: "is away", Next: list, outdated: true}
		if !d.Heard.IsZero() {
			p.What += " since " + cli.Clock(d.Heard)
		}
		a.add(p)
		return
	case slices.ContainsFunc(a.status.Resources, func(r api.ListedResource) bool {
		return r.Unheard != nil && r.Unheard.State == api.UnheardStateAway
	}):
		a.add(problem{About: about, What: "is connected but does not answer", Next: list, outdated: true})
		return
	case d.Fault != "":
		a.add(problem{About: about, What: "cannot continue: " + d.Fault, Next: list})
	}
	known := a.roster.Datacenter(d.ID)
	if known == nil {
		return
	}
	holds, err := a.client.Holds.List(ctx, a.roster, known, []writ.ProjectID{a.deployment.Project})
	a.lacks("cannot check whether its work is on hold", err)
	scope := identity.Scope{Project: a.deployment.Project, Deployment: a.deployment.Name}
	for _, h := range client.HoldsOf(holds).Over(scope) {
		a.add(problem{
			About: h.Text(), What: "is on hold: " + held.HeldText(h.Last(), "it"),
			Next: h.Release(d.Name, a.deployment.ProjectName),
		})
	}
}

// assessRuns adds the problems of runs: the newest run did not succeed or waits for a person, or an open run is stuck.
func (a *assessor) assessRuns(ctx context.Context) error {
	for _, run := range []*api.Run{a.status.Submission, a.status.Run} {
		if run != nil {
			if err := a.assessRun(ctx, *run); err != nil {
				return err
			}
		}
	}
	params := a.deployment.Runs()
	params.Stuck, params.Why = api.Given(int(stuckAfter/time.Second)), api.Given(true)
	stuck, _, err := a.client.Runs.List(ctx, params, client.PageSize)
	if err != nil {
		return err
	}
	for _, run := range stuck {
		about := "run " + string(run.ID)
		if !slices.ContainsFunc(a.status.Problems, func(p problem) bool { return p.About == about }) {
			next := remedy.For(run.Why, run.ID, a.datacenter.Name)
			a.add(problem{
				About: about, What: "makes no progress: " + why.SentenceOf(run.Why, run.Reason),
				Next: cmp.Or(next.Line, remedy.Run(remedy.ExplainRun, run.ID).Line), Does: next.Effect(),
				outdated: !a.datacenter.IsConnected(),
			})
		}
	}
	return nil
}

// assessRun adds the problems of a run. A refused submission is not a problem, because it changed nothing.
func (a *assessor) assessRun(ctx context.Context, run api.Run) error {
	if run.State == api.RunStateSucceeded || run.State.Ended() && run.Accepted.IsZero() {
		return nil
	}
	s, err := why.SituationOf(ctx, a.client, run.ID)
	if err != nil {
		return err
	}
	about := "run " + string(run.ID)
	if run.State.Ended() {
		r := s.Explain()
		p := problem{
			About: about, What: fmt.Sprintf("%s: %s", cli.StateClause(writ.RunState(run.State)), r.Why), Next: r.Next.Line,
			Does: r.Does,
		}
		if r.First != "" {
			p.What += "; first: " + r.First
		}
		a.add(p)
		return nil
	}
	if !a.datacenter.IsConnected() { // the disconnected datacenter is the reason of every wait
		return nil
	}
	for _, w := range s.WaitReasons() {
		if w.Next.IsZero() {
			continue
		}
		p := problem{About: about, What: "waits: " + w.Why, Next: w.Next.Line, Does: w.Next.Effect()}
		if w.Call != "" {
			p.What = "waits for call " + w.Call + ": " + w.Why
		}
		a.add(p)
	}
	return nil
}

// assessResources adds the problems of resources. Resources on the same silent or lost node count as one problem.
func (a *assessor) assessResources() {
	var counted []writ.NodeID
	for _, r := range a.status.Resources {
		all := remedy.Resource(r, a.deployment.ProjectName, a.datacenter.Name)
		if r.Unheard != nil {
			all = all[1:]
			if r.Unheard.State != api.UnheardStateAway && !slices.Contains(counted, r.Node) {
				counted = append(counted, r.Node)
				a.add(a.unheardNode(r))
			}
		}
		for _, t := range all {
			p := problem{About: string(r.Kind) + "/" + r.Name, What: t.What, Next: t.Next.Line}
			if p.Next == "" && a.status.Run != nil {
				p.Next = a.submitAgain()
			}
			a.add(p)
		}
	}
}

// unheardNode returns the problem of a silent or lost node. If the reader may not list nodes, the problem has no node
// name and no command.
func (a *assessor) unheardNode(r api.ListedResource) problem {
	n := 0
	for _, other := range a.status.Resources {
		if other.Node == r.Node {
			n++
		}
	}
	p := problem{About: "the node of " + string(r.Kind) + "/" + r.Name, outdated: true}
	p.What = fmt.Sprintf("is %s, and the state of %s is not current", r.Unheard.State, cli.Count(n, "resource"))
	if !r.Unheard.Since.IsZero() {
		p.What = fmt.Sprintf("is %s since %s, so the state of %s is outdated", r.Unheard.State,
			cli.Clock(r.Unheard.Since), cli.Count(n, "resource"))
	}
	if node, known := a.nodes[r.Node]; known {
		next := remedy.ForNode(node.Name, string(r.Unheard.State), a.datacenter.Name)
		p.About, p.Next, p.Does = "node "+node.Name, next.Line, next.Effect()
	}
	return p
}

// submitAgain returns the command that submits the script of the newest revision again.
func (a *assessor) submitAgain() string {
	if a.newest == nil {
		return why.SubmitAgain(*a.status.Run, a.datacenter.Name, nil)
	}
	return why.SubmitAgain(*a.status.Run, a.datacenter.Name, a.newest.Payload)
}
