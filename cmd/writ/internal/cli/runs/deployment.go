package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/meant"
)

func deploymentCommand(env *cli.Env) *cobra.Command {
	return cli.Family("deployment", "Show, roll back and destroy deployments, which own the resources of their scripts",
		deploymentListCommand(env), deploymentShowCommand(env), deploymentHistoryCommand(env),
		deploymentScriptCommand(env), deploymentDiffCommand(env), deploymentRollbackCommand(env),
		deploymentDestroyCommand(env))
}

func deploymentListCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the deployments that own resources, each with its newest run",
		Example: "  writ deployment list\n  writ deployment list --project web-shop --dc dc1 -o json",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, where, err := deployments(cmd.Context(), env, api.ListDeploymentsParams{Datacenter: api.Given(datacenter)})
			if err != nil {
				return err
			}
			return env.PrintList(deploymentTable(all, where),
				cli.UnlessSelected(cmd, "no deployment owns a resource: `writ submit FILE --deployment NAME` makes the first"))
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only deployments in this datacenter")
	return c
}

// noDeployment returns the error for a deployment that has no resources.
func noDeployment(ctx context.Context, env *cli.Env, name, datacenter string) error {
	if _, d, err := cli.FindDeployment(ctx, env, name, datacenter); err == nil {
		return writ.Errorf(writ.CodeNotFound, "the deployment %s owns no resource", d.Name).
			WithHint("`writ deployment history %s` lists its revisions", d.Name)
	}
	all, _, err := deployments(ctx, env, api.ListDeploymentsParams{Datacenter: api.Given(datacenter)})
	if err != nil {
		return err
	}
	return writ.Errorf(writ.CodeNotFound, "no deployment %s owns a resource", name).
		WithHint("%s",
			meant.Among(name, all, func(d api.Deployment) string { return d.Name }, "`writ deployment list` shows which do"))
}

// deployments lists all deployments that params select, and maps the ids of datacenters to names.
func deployments(
	ctx context.Context, env *cli.Env, params api.ListDeploymentsParams,
) ([]api.Deployment, map[writ.DatacenterID]string, error) {
	c, err := env.Client()
	if err != nil {
		return nil, nil, err
	}
	names, err := cli.DatacenterNames(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	params.Project, params.Limit = api.Given(env.Flags.Project), api.Given(client.PageSize)
	all, err := client.All(func(cursor string) ([]api.Deployment, string, error) {
		params.Cursor = api.Given(cursor)
		page, err := api.Answer[api.DeploymentPage](c.API.ListDeployments(ctx, &params))
		return page.Items, page.NextCursor, err
	})
	return all, names, err
}

func deploymentTable(all []api.Deployment, datacenters map[writ.DatacenterID]string) terminal.View {
	return terminal.List(api.DeploymentPage{Items: all}, all, func(d api.Deployment) string { return d.Name },
		cli.Column("NAME", func(d api.Deployment) string { return d.Name }),
		cli.Minor(1, cli.Column("PROJECT", func(d api.Deployment) string { return d.ProjectName })),
		cli.Column("DATACENTER", func(d api.Deployment) string { return datacenters[d.Datacenter] }),
		cli.Column("RESOURCES", func(d api.Deployment) string { return fmt.Sprint(d.Resources) }),
		cli.Column("REVISION", func(d api.Deployment) string { return cli.Number(d.Revision) }),
		cli.IDs(cli.Column("NEWEST RUN", func(d api.Deployment) string { return string(newestRun(d).ID) })),
		cli.Column("STATE", func(d api.Deployment) string { return string(newestRun(d).State) }),
		cli.Column("AGE", func(d api.Deployment) string { return cli.Age(newestRun(d).Created) }),
		cli.Wide("SCRIPT", func(d api.Deployment) string { return newestRun(d).Script }),
		cli.Wide("SIGNER", func(d api.Deployment) string { return newestRun(d).Signer }),
	)
}

// newestRun returns the newest run of a deployment. It is empty if the coordinator has deleted all runs.
func newestRun(d api.Deployment) api.Run {
	if d.Run == nil {
		return api.Run{}
	}
	return *d.Run
}
