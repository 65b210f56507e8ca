// Package revision finds the revisions of a deployment at a coordinator, verifies their signed texts, and compares
// them. It must not know commands. A coordinator is not trusted: it can withhold a revision, but cannot forge one.
package revision

import (
	"cmp"
	"context"
	"slices"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
)

// Deployment identifies a deployment.
type Deployment struct {
	Project     writ.ProjectID
	ProjectName string
	Datacenter  writ.DatacenterID
	Name        string
}

// Find returns the deployment with a name, by the lists of a coordinator. project and datacenter are names or ids; ""
// stands for all. The error is NOT_FOUND if no run and no resource belongs to such a deployment, and CONFLICT if
// there are several.
func Find(ctx context.Context, c *client.Client, name, project, datacenter string) (Deployment, error) {
	owners, err := api.Answer[api.DeploymentPage](c.API.ListDeployments(ctx, &api.ListDeploymentsParams{
		Name: &name, Project: api.Given(project), Datacenter: api.Given(datacenter), Limit: api.Given(2),
	}))
	if err != nil {
		return Deployment{}, err
	}
	var found []Deployment
	for _, d := range owners.Items {
		found = append(found, Deployment{d.Project, d.ProjectName, d.Datacenter, d.Name})
	}
	if len(found) == 0 { // a destroyed deployment owns no resource
		runs, _, err := c.Runs.List(ctx, api.ListRunsParams{
			Deployment: &name, Project: api.Given(project), Datacenter: api.Given(datacenter),
		}, client.PageSize)
		if err != nil {
			return Deployment{}, err
		}
		for _, r := range runs {
			if d := (Deployment{r.Project, r.ProjectName, r.Datacenter, r.Deployment}); !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	switch {
	case len(found) == 0:
		return Deployment{}, writ.Errorf(writ.CodeNotFound, "unknown deployment %s", name)
	case len(found) > 1:
		return Deployment{}, writ.Errorf(writ.CodeConflict, "several deployments have the name %s", name).
			WithHint("add --project or --dc")
	case found[0].Name != name:
		return Deployment{}, writ.Errorf(writ.CodeUnverified,
			"the coordinator was asked for the deployment %s and answered with %q", name, found[0].Name).
			WithHint("use another coordinator with --server, and inform the operator of this one")
	}
	return found[0], nil
}

// Runs returns the parameters that select the runs of the deployment.
func (d Deployment) Runs() api.ListRunsParams {
	return api.ListRunsParams{
		Project: api.Given(string(d.Project)), Datacenter: api.Given(string(d.Datacenter)), Deployment: &d.Name,
	}
}

// List returns the runs that made revisions of the deployment, newest first. It returns only revisions before the
// revision `before`, and at most limit of them; 0 means no limit for either. more reports that earlier revisions exist.
// The runs are as the coordinator shows them.
func (d Deployment) List(
	ctx context.Context, c *client.Client, before, limit int,
) (runs []api.Run, more bool, err error) {
	size := client.PageSize
	if limit > 0 && before == 0 {
		size = min(limit+1, size)
	}
	err = d.each(ctx, c, size, func(r api.Run) bool {
		if before > 0 && r.Revision >= before {
			return true
		}
		if more = limit > 0 && len(runs) == limit; more {
			return false
		}
		runs = append(runs, r)
		return true
	})
	slices.SortStableFunc(runs, func(a, b api.Run) int { return cmp.Compare(b.Revision, a.Revision) })
	return runs, more, err
}

// each calls show for each run that made a revision, newest first, as long as show returns true. It skips runs that the
// datacenter did not accept, because they made no revision. It requests size runs at a time.
func (d Deployment) each(ctx context.Context, c *client.Client, size int, show func(api.Run) bool) error {
	params := d.Runs()
	params.Limit = api.Given(size)
	for shown := 0; ; {
		page, err := api.Answer[api.RunPage](c.API.ListRuns(ctx, &params))
		if err == nil {
			err = client.Selected(page.Items, params)
		}
		if err != nil {
			return err
		}
		for _, r := range page.Items {
			if r.Revision > 0 && !show(r) {
				return nil
			}
		}
		if shown += max(len(page.Items), 1); page.NextCursor == "" || shown > client.MostListed {
			return nil
		}
		params.Cursor = api.Given(page.NextCursor)
	}
}
