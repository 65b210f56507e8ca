// Package holds contains the commands hold and release.
package holds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/held"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
	"writ/sal/catalog"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(holdCommand(env), releaseCommand(env))...)
}

// scopeFlags hold the scope of the work to hold or release.
type scopeFlags struct {
	datacenter string
	project    string
	deployment string
	operation  string
	reason     cli.ReasonFlag
}

func (s *scopeFlags) add(env *cli.Env, c *cobra.Command) {
	f := c.Flags()
	cli.DatacenterFlag(env, c, &s.datacenter, "name or id of the datacenter")
	f.StringVar(&s.project, "project", "", "only the work of this project, by name or id")
	f.StringVar(&s.deployment, "deployment", "",
		"only the work of this deployment, of --project or the project of the context")
	f.StringVar(&s.operation, "operation", "", "only this operation, such as machine.create, or all of a module, such as machine")
	s.reason.Add(c, "writ hold list")
	c.MarkFlagsMutuallyExclusive("project", "operation")
	c.MarkFlagsMutuallyExclusive("deployment", "operation")
	env.CompleteFlag(c, "deployment", cli.SuggestDeployments)
	cli.OneOfLater(c, "operation", operationNames)
}

// operationNames lists the operations that nodes execute, and their modules.
func operationNames() (all []string) {
	for _, o := range catalog.Operations() {
		if o.Effect == catalog.Find {
			continue
		}
		if !slices.Contains(all, o.Module) {
			all = append(all, o.Module)
		}
		all = append(all, o.Name())
	}
	return all
}

func holdCommand(env *cli.Env) *cobra.Command {
	var scope scopeFlags
	c := &cobra.Command{
		Use:   "hold",
		Short: "Stop new work of a datacenter or a part of it, and list holds",
		Long: `Signs a hold: from now on the datacenter sends no jobs. With --dc the hold covers the whole datacenter. Use
--dc even if there is only one. Another flag limits the hold to a project, a deployment, an operation or a module.
The datacenter still accepts submissions. Jobs on nodes continue, and their results are recorded. A waiting run
shows the hold as its reason, with the command that releases it.

A hold does not extend deadlines: a run expires if the hold outlasts its deadline. "writ run cancel" still works. A
hold of a deployment stops its runs, and stops calls of other runs that take over its resources.

For a datacenter or an operation you need the role operator or admin. For a project or a deployment, the right to
control its runs is enough. If an operator of the datacenter signed the hold, an operator must release it.`,
		Example: `  writ hold --dc dc1 --reason "the disks of rack 3 fail"
  writ hold --project shop --reason "the bill is checked"
  writ hold --deployment web --project shop
  writ hold --operation machine.create
  writ hold list`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return decideScope(cmd.Context(), env, scope, identity.DecisionHold)
		},
	}
	scope.add(env, c)
	c.AddCommand(cli.InProject(holdListCommand(env)))
	return c
}

func releaseCommand(env *cli.Env) *cobra.Command {
	var scope scopeFlags
	c := &cobra.Command{
		Use:   "release",
		Short: "Release a datacenter or a part of its work from a hold",
		Long: `Signs that a datacenter may send jobs again. With another flag, this applies only to a project, a
deployment, an operation or a module. For the whole datacenter use --dc, even if there is only one.

While the whole datacenter is on hold, a part can be released. The rest stays on hold. So you can release a
datacenter step by step after "writ supervisor --held". A later hold of the datacenter includes the part again.

The statement names the revision that you saw. If another person has changed the same hold meanwhile, the statement
is rejected. Check the holds and sign again.`,
		Example: `  writ release --project shop
  writ release --operation volume
  writ release --dc dc1 --reason "the disks were replaced"`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return decideScope(cmd.Context(), env, scope, identity.DecisionRelease)
		},
	}
	scope.add(env, c)
	return c
}

// decideScope signs and submits a decision about the work in the scope of the flags.
func decideScope(ctx context.Context, env *cli.Env, flags scopeFlags, decision string) error {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	dc, err := client.TheDatacenter(roster, flags.datacenter)
	if err != nil {
		return err
	}
	scope, projectName, err := flags.scope(c, roster)
	if err != nil {
		return err
	}
	if scope == (identity.Scope{}) && flags.datacenter == "" {
		return flags.nothingNamed(decision, dc.Name)
	}
	if decision == identity.DecisionHold && scope.Deployment != "" {
		warnUnknownDeployment(ctx, env, c, dc, scope, projectName)
	}
	holds, err := holdsOver(ctx, env, c, roster, dc, scope)
	if err != nil {
		return err
	}
	statement := identity.Statement{Datacenter: dc.ID, Decision: decision, Reason: string(flags.reason)}
	scope.Statement(&statement, dc.Datacenter, projectName, holds.Seen(scope))
	env.Note("signing: %s %s in %s", decision, scope.Text(projectName), dc.Name)
	for _, over := range holds.Over(scope) {
		env.Note("%s", held.HeldText(over.Last(), over.Text()))
	}
	err = cli.Decide(ctx, env, c, statement)
	if decision == identity.DecisionRelease && writ.CodeOf(err) == writ.CodeConflict {
		return meantHold(ctx, c, roster, dc, scope, err)
	}
	return err
}

// meantHold adds a suggestion to err, the error about work that is not on hold: the hold with the most similar name.
func meantHold(
	ctx context.Context, c *client.Client, roster *identity.Roster, dc *identity.Datacenter, scope identity.Scope,
	err error,
) error {
	list, failed := held.SignedHolds(ctx, c, roster, dc.Name)
	if failed != nil {
		return err
	}
	var names []string
	for _, d := range list.Items {
		for _, h := range client.HoldsOf(d.Holds) {
			if h.Held {
				names = append(names, h.Deployment, h.Operation)
			}
		}
	}
	if question := meant.Question(cmp.Or(scope.Deployment, scope.Operation), names); question != "" {
		e := *writ.AsError(err)
		return e.WithHint("%s", strings.TrimSpace(question+" "+e.Hint))
	}
	return err
}

// nothingNamed returns the error for a command whose flags name no scope: it would apply to the whole datacenter, but
// the user may have meant a part of its work.
func (s *scopeFlags) nothingNamed(decision, datacenter string) error {
	all := "writ " + decision + " --dc " + datacenter
	if s.reason != "" {
		all += " --reason " + cli.ShellWord(string(s.reason))
	}
	return writ.Errorf(writ.CodeUsage, "no flag selects the work to %s", decision).
		WithHint("for the whole datacenter: %s; for a part of its work use --project, --deployment or --operation", all)
}

// warnUnknownDeployment warns that a hold may have a mistyped name, because no resource and no run belongs to the
// deployment. The hold can also precede the first run, so it is signed anyway. It prints no warning if the coordinator
// does not answer.
func warnUnknownDeployment(
	ctx context.Context, env *cli.Env, c *client.Client, dc *identity.Datacenter, scope identity.Scope,
	projectName string,
) {
	owners, err := api.Answer[api.DeploymentPage](c.API.ListDeployments(ctx, &api.ListDeploymentsParams{
		Project: api.Given(string(scope.Project)), Datacenter: api.Given(string(dc.ID)), Name: api.Given(scope.Deployment),
		Limit: api.Given(1),
	}))
	if err != nil || len(owners.Items) > 0 {
		return
	}
	runs, _, err := c.Runs.List(ctx,
		api.ListRunsParams{
			Project: api.Given(string(scope.Project)), Datacenter: api.Given(string(dc.ID)), Deployment: &scope.Deployment,
		}, 1)
	if err != nil || len(runs) > 0 {
		return
	}
	all, err := api.Answer[api.DeploymentPage](c.API.ListDeployments(ctx, &api.ListDeploymentsParams{
		Project: api.Given(string(scope.Project)), Datacenter: api.Given(string(dc.ID)), Limit: api.Given(client.PageSize),
	}))
	if err != nil {
		all.Items = nil // suggest no name
	}
	env.Warn(
		"in %s, the deployment %s of project %s has no known runs or resources: the hold applies to its first run. %s",
		dc.Name, scope.Deployment, projectName,
		meant.Among(scope.Deployment, all.Items, func(d api.Deployment) string { return d.Name },
			"`writ deployment list` shows deployments"))
}

// holdsOver returns the decisions of a datacenter about a scope and about the scopes that contain it. It requests no
// other decisions, so neither the contents nor the number of other users' holds can block a decision.
func holdsOver(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, dc *identity.Datacenter,
	scope identity.Scope,
) (identity.Holds, error) {
	var projects []writ.ProjectID
	if scope.Project != "" {
		projects = append(projects, scope.Project)
	}
	holds, err := c.Holds.List(ctx, roster, dc, projects)
	if writ.CodeOf(err) == writ.CodeVerbUnsupported {
		env.Warn("the holds in %s are not verified: %v", dc.Name, err)
		holds, err = c.Holds.Listed(ctx, dc)
	}
	return client.HoldsOf(holds), err
}

// scope returns the scope in the flags. The project of the context applies only with a deployment. Otherwise a command
// that is meant for a whole datacenter would hold only one project.
func (s *scopeFlags) scope(
	c *client.Client, roster *identity.Roster,
) (scope identity.Scope, projectName string, err error) {
	scope.Deployment, scope.Operation = s.deployment, s.operation
	if s.deployment != "" && !writ.ValidName(s.deployment) {
		return scope, "", writ.Errorf(writ.CodeUsage, "%q is not the name of a deployment", s.deployment).
			WithHint("`writ resource list -o wide` shows the deployments that own resources")
	}
	if s.operation != "" && !slices.Contains(operationNames(), s.operation) {
		return scope, "", writ.Errorf(writ.CodeUsage, "nodes have no operation %q", s.operation).
			WithHint("%s",
				meant.Hint(s.operation, operationNames(),
					"name an operation such as machine.create, or a module such as machine; docs/operations.md lists all"))
	}
	var project identity.Project
	switch {
	case s.project != "":
		project, err = client.Project(roster, s.project)
	case s.deployment != "":
		project, err = cli.ProjectOf(c, roster)
	}
	scope.Project = project.ID
	return scope, project.Name, err
}

func holdListCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "list",
		Short: "List holds, with their signers and reasons",
		Long: `Lists the holds of each datacenter, signed by its supervisor for this request. You see the holds of the
projects that you may read, and holds without a project. With --project it lists only the holds of this project and
its deployments, not those of its datacenters.

It names each datacenter that does not answer or whose answer has no valid signature.`,
		Example: "  writ hold list\n  writ hold list --project shop\n  writ hold list --dc dc1 -o json",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			list, err := held.SignedHolds(cmd.Context(), c, roster, datacenter)
			if err != nil {
				return err
			}
			if env.Flags.Project != "" {
				only, err := client.Project(roster, env.Flags.Project)
				if err != nil {
					return err
				}
				held.KeepProject(&list, only.ID)
			}
			asked, untrue := cli.Answered(env, list.Items,
				func(d api.DatacenterHolds) (string, *writ.Error) { return d.Name, d.Error })
			if len(asked) == 0 && untrue != nil {
				return untrue
			}
			var rows []held.HeldRow
			for _, d := range asked {
				rows = append(rows, held.HeldRows(d)...)
			}
			err = env.PrintList(terminal.List(list, rows, func(h held.HeldRow) string { return h.What },
				cli.Column("DATACENTER", func(h held.HeldRow) string { return h.Datacenter }),
				cli.Column("WHAT", func(h held.HeldRow) string { return h.What }),
				cli.Column("STATE", func(h held.HeldRow) string { return h.State }),
				cli.Column("SINCE", func(h held.HeldRow) string { return cli.Age(h.Last.Time) }),
				cli.Column("BY", func(h held.HeldRow) string { return h.Last.Signer }),
				cli.Column("REASON", func(h held.HeldRow) string { return h.Last.Reason }),
				cli.Whole(cli.Column("RELEASE", func(h held.HeldRow) string { return h.Release })),
				cli.Wide("REVISION", func(h held.HeldRow) string { return fmt.Sprint(h.Revision) }),
				cli.Wide("BY OPERATOR", func(h held.HeldRow) string { return cli.YesNo(h.ByOperator) }),
			), cli.UnlessSelected(cmd, "no holds are known: `writ hold` stops new work"))
			return cmp.Or(err, untrue)
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only holds of this datacenter")
	return c
}
