package client

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// AboutRuns begins a statement that cancels or resumes several runs, which are of one datacenter and one project.
func AboutRuns(runs []api.Run, resume bool) (identity.Statement, error) {
	l := identity.RunList{Project: runs[0].Project, ProjectName: runs[0].ProjectName, Resume: resume}
	for _, r := range runs {
		if r.Datacenter != runs[0].Datacenter || r.Project != l.Project {
			return identity.Statement{}, writ.Errorf(writ.CodeUsage, "the runs are of several datacenters or projects, and one statement is about those of one").
				WithHint("say which with --dc and --project")
		}
		l.Runs = append(l.Runs, identity.SawRun(r.ID, r.Script, resume, r.Ended))
	}
	s := identity.Statement{Datacenter: runs[0].Datacenter}
	l.Statement(&s)
	return s, nil
}

// DecideRuns signs a statement of AboutRuns and hands it in. What it returns the supervisor has signed: for each run nil, or why it is as it was.
// Without any the supervisor was interrupted.
func (c *Client) DecideRuns(ctx context.Context, by *Person, s identity.Statement) (writ.Answer, error) {
	_, answer, err := c.decide(ctx, by, s)
	return answer, err
}

// Runs returns the runs that params select, newest first: limit of them at most, all if it is 0. next is where the rest begins.
func (c *Client) Runs(ctx context.Context, params api.ListRunsParams, limit int) (runs []api.Run, next string, err error) {
	runs, err = All(func(cursor string) ([]api.Run, string, error) {
		params.Cursor, params.Limit = api.Given(cursor), api.Given(PageSize)
		if limit > 0 {
			params.Limit = api.Given(min(limit, PageSize))
		}
		page, err := api.Answer[api.RunPage](c.API.ListRuns(ctx, &params))
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

// Selected refuses runs that a coordinator lists and that are not what was asked for. Of project and datacenter it compares the ids.
func Selected(runs []api.Run, params api.ListRunsParams) error {
	differs := func(want *string, have string) bool { return want != nil && *want != have }
	for _, r := range runs {
		if differs(params.Project, string(r.Project)) || differs(params.Datacenter, string(r.Datacenter)) || differs(params.Signer, r.Signer) ||
			len(params.State) > 0 && !slices.Contains(params.State, api.RunState(r.State)) || differs(params.Script, r.Script) ||
			differs(params.Deployment, r.Deployment) || params.Since != nil && r.Created.Before(*params.Since) {
			return writ.Errorf(writ.CodeUnverified, "the coordinator lists run %s (%s, %s), which is none of those that were asked for", r.ID, r.Script, r.State).
				WithHint("ask another one with --server, and tell its operator; nothing was signed")
		}
	}
	return nil
}
