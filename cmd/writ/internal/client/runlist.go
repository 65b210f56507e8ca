package client

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// AboutRuns starts a statement that cancels or resumes several runs of one datacenter and project.
func AboutRuns(runs []api.Run, resume bool) (identity.Statement, error) {
	l := identity.RunList{Project: runs[0].Project, ProjectName: runs[0].ProjectName, Resume: resume}
	for _, r := range runs {
		if r.Datacenter != runs[0].Datacenter || r.Project != l.Project {
			return identity.Statement{}, writ.Errorf(writ.CodeUsage,
				"the runs belong to several datacenters or projects, and a statement covers only one").
				WithHint("select one with --dc and --project")
		}
		l.Runs = append(l.Runs, identity.SawRun(r.ID, r.Script, resume, r.Ended))
	}
	s := identity.Statement{Datacenter: runs[0].Datacenter}
	l.Statement(&s)
	return s, nil
}

// Decide signs and submits a statement of AboutRuns. The result is signed by the supervisor. It holds for each run
// nil, or the reason why the run is unchanged. If it holds no runs, the supervisor was interrupted.
func (c Runs) Decide(ctx context.Context, by *Person, s identity.Statement) (writ.Answer, error) {
	_, answer, err := c.client.Statements.decide(ctx, by, s)
	return answer, err
}

// List returns at most limit runs that params select, newest first; limit 0 means all. next is the cursor of the
// remaining runs.
func (c Runs) List(
	ctx context.Context, params api.ListRunsParams, limit int,
) (runs []api.Run, next string, err error) {
	runs, err = All(func(cursor string) ([]api.Run, string, error) {
		params.Cursor, params.Limit = api.Given(cursor), api.Given(PageSize)
		if limit > 0 {
			params.Limit = api.Given(min(limit, PageSize))
		}
		page, err := api.Answer[api.RunPage](c.client.API.ListRuns(ctx, &params))
		next = page.NextCursor
		if limit > 0 {
			limit -= len(page.Items)
			if limit <= 0 {
				return page.Items, "", err
			}
		}
		return page.Items, page.NextCursor, err
	})
	return runs, next, err
}

// Selected rejects runs from a coordinator that do not match params. Projects and datacenters are compared by id.
func Selected(runs []api.Run, params api.ListRunsParams) error {
	differs := func(want *string, have string) bool { return want != nil && *want != have }
	for _, r := range runs {
		if differs(params.Project, string(r.Project)) || differs(params.Datacenter, string(r.Datacenter)) ||
			differs(params.Signer, r.Signer) ||
			len(params.State) > 0 && !slices.Contains(params.State, api.RunState(r.State)) || differs(params.Script, r.Script) ||
			differs(params.Deployment, r.Deployment) || params.Since != nil && r.Created.Before(*params.Since) {
			return writ.Errorf(writ.CodeUnverified,
				"the coordinator lists run %s (%s, %s), which was not requested", r.ID, r.Script, r.State).
				WithHint("use another coordinator with --server, and inform the operator of this one; nothing was signed")
		}
	}
	return nil
}
