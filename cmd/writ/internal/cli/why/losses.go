package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

// maxLosses limits the runs that a search for the losses of a node reads, and the losses that it returns.
const maxLosses = 50

// Loss is a deployment, or a run without a deployment, that had resources or calls on a lost node.
type Loss struct {
	Node       string     `json:"node"`
	Project    string     `json:"project"`
	Deployment string     `json:"deployment,omitempty"`
	Run        writ.RunID `json:"run"`     // newest known run
	Command    string     `json:"command"` // command that submits it again
	note       string     // names flags that the coordinator could not restore
}

func (l Loss) String() string {
	if l.Deployment != "" {
		return fmt.Sprintf("deployment %s of project %s: %s", l.Deployment, l.Project, l.Command+l.note)
	}
	return fmt.Sprintf("run %s of project %s: %s", l.Run, l.Project, l.Command+l.note)
}

// LossFinder finds the losses of a node, as the coordinator reports them.
type LossFinder struct {
	Client     *client.Client
	Node       writ.Node
	Datacenter string // name
}

// Present returns the losses that declaring the node lost would cause now: the owners of its resources, and the open
// runs with open calls on it.
func (f LossFinder) Present(ctx context.Context) ([]Loss, error) {
	runs, err := f.openRuns(ctx)
	if err != nil {
		return nil, err
	}
	resources, err := f.Client.Resources(ctx,
		api.ListResourcesParams{Datacenter: api.Given(string(f.Node.Datacenter)), Node: api.Given(f.Node.ID)})
	if err != nil {
		return nil, err
	}
	for _, owner := range ownersOf(resources) {
		run, err := f.newestRun(ctx, owner)
		if err != nil {
			return nil, err
		}
		if run != nil {
			runs = append(runs, *run)
		}
	}
	return f.losses(ctx, newestByDeployment(runs))
}

// past returns the losses of a node that was declared lost before: the runs that failed because of the loss. The
// resources of such a node are no longer recorded.
func (f LossFinder) past(ctx context.Context) ([]Loss, error) {
	failed, err := f.runs(ctx, api.RunStateFailed)
	if err != nil {
		return nil, err
	}
	return f.losses(ctx,
		newestByDeployment(slices.DeleteFunc(failed, func(r api.Run) bool { return !failedWith(r, f.Node.ID) })))
}

// failedWith reports whether a run failed because this node was lost.
func failedWith(r api.Run, node writ.NodeID) bool {
	return r.Failure != nil && r.Failure.Node == node
}

func (f LossFinder) runs(ctx context.Context, states ...api.RunState) ([]api.Run, error) {
	runs, _, err := f.Client.Runs.List(ctx,
		api.ListRunsParams{State: states, Datacenter: api.Given(string(f.Node.Datacenter))},
		maxLosses)
	return runs, err
}

// openRuns returns the open runs that have open calls on the node.
func (f LossFinder) openRuns(ctx context.Context) (there []api.Run, err error) {
	open, err := f.runs(ctx, api.RunStateAccepted, api.RunStateRunning)
	if err != nil {
		return nil, err
	}
	for _, run := range open {
		calls, err := f.Client.Runs.Calls(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(calls, func(c writ.Call) bool { return c.Node == f.Node.ID && !c.State.Ended() }) {
			there = append(there, run)
		}
	}
	return there, nil
}

// owner identifies the owner of a resource: its deployment, or without one, the run that changed it last.
type owner struct {
	project    writ.ProjectID
	deployment string
	run        writ.RunID
}

// ownersOf returns the owners of resources, each once.
func ownersOf(resources []writ.Resource) (owners []owner) {
	for _, r := range resources {
		o := owner{project: r.Project, deployment: r.Deployment}
		if o.deployment == "" {
			o.run = r.Run
		}
		if !slices.Contains(owners, o) && len(owners) < maxLosses {
			owners = append(owners, o)
		}
	}
	return owners
}

// newestRun returns the newest run of an owner, or nil if the coordinator has deleted it.
func (f LossFinder) newestRun(ctx context.Context, o owner) (*api.Run, error) {
	if o.deployment == "" {
		run, err := f.Client.Runs.Get(ctx, o.run)
		if writ.CodeOf(err) == writ.CodeNotFound {
			return nil, nil
		}
		return &run, err
	}
	params := api.ListDeploymentsParams{
		Datacenter: api.Given(string(f.Node.Datacenter)), Project: api.Given(string(o.project)), Name: &o.deployment,
	}
	page, err := api.Answer[api.DeploymentPage](f.Client.API.ListDeployments(ctx, &params))
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return page.Items[0].Run, nil
}

// newestByDeployment keeps the newest run of each deployment, and each run without a deployment, ordered by project and
// name.
func newestByDeployment(runs []api.Run) (newest []api.Run) {
	slices.SortFunc(runs, func(a, b api.Run) int {
		return cmp.Or(cmp.Compare(a.ProjectName, b.ProjectName), cmp.Compare(a.Deployment, b.Deployment),
			b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(runs, func(a, b api.Run) bool {
		return a.ID == b.ID || a.Deployment != "" && a.Project == b.Project && a.Deployment == b.Deployment
	})
}

// losses returns a loss for each run, with the command that submits it again.
func (f LossFinder) losses(ctx context.Context, runs []api.Run) ([]Loss, error) {
	all := make([]Loss, 0, len(runs))
	for _, run := range runs {
		payload, err := payloadOf(ctx, f.Client, run)
		if err != nil {
			return nil, err
		}
		again := resubmit{run, f.Datacenter, payload}
		all = append(all,
			Loss{
				Node: f.Node.Name, Project: run.ProjectName, Deployment: run.Deployment, Run: run.ID, Command: again.submit(),
				note: again.unknown(),
			})
	}
	return all, nil
}

// NoteLosses lists the commands that recreate the losses of a node.
func NoteLosses(env *cli.Env, node string, losses []Loss) {
	if len(losses) == 0 {
		return
	}
	env.Note("%s had resources or calls on %s. To recreate them:", cli.Count(len(losses), "owner"), node)
	for _, l := range losses {
		env.Note("  %s", terminal.Clean(l.String()))
	}
}
