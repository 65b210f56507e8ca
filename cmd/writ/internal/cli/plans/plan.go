// Package plans contains the command plan.
package plans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/planview"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/scripts"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Everyday, env.ClientCommands(cli.InProject(planCommand(env)))...)
}

// planFlags hold the order to plan and the mode of the plan.
type planFlags struct {
	order    signing.OrderFlags
	offline  bool
	exitCode bool
}

func planCommand(env *cli.Env) *cobra.Command {
	var p planFlags
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show the effects of a script before you sign it",
		Long: `Evaluates a script without running it, and shows its calls with their arguments. Values that depend on
results are shown as (known after …). If the next step of the script depends on such a value, the plan ends there
with a note.

If a datacenter answers, the plan shows the effect that each call would have now:

  + create   ~ change   - delete
  = leave alone or read   ? not known yet   ! refused

It also shows the node of each call, and the resources of the deployment that the script does not name. The plan
reserves and records no resources.

You can bind a run to its plan: writ submit FILE --plan DIGEST. The run stops before the first call that is not in
the plan. The digest covers the calls and their arguments. It does not cover their effects, nor project, datacenter
and deployment.

The exit code is 1 if the script would fail, and 10 if no node can run one of its calls now. Otherwise it is 0. With
--exit-code it is 7 if a resource would or may change, if the plan ends before the script, or with --offline.

Without a cluster, or without an answer of its datacenter, the command fails. With --offline it shows the calls of the
script alone.`,
		Example: `  writ plan web.tengo -p count=3
  writ plan web.tengo --offline -o json
  writ plan web.tengo --deployment web --exit-code
  writ plan web.tengo -o markdown
  writ submit web.tengo --plan $(writ plan web.tengo -o name)`,
		Args: p.order.File,
		RunE: func(cmd *cobra.Command, args []string) error { return plan(cmd.Context(), env, args[0], &p) },
	}
	p.order.AddTask(env, c)
	c.Flags().BoolVar(&p.offline, "offline", false, "plan offline, without a coordinator and a datacenter")
	c.Flags().BoolVar(&p.exitCode, "exit-code", false, "exit with code 7 if the script would change a resource")
	return c
}

func plan(ctx context.Context, env *cli.Env, path string, p *planFlags) error {
	view, err := readAndPlan(ctx, env, path, p)
	if ctx.Err() != nil { // an interrupt also causes a missing answer; do not fall back to a plan without a datacenter
		return terminal.Interrupted("")
	}
	if err != nil {
		if env.Format == terminal.Markdown { // the comment shows the error in place of an earlier plan
			if unwritten := env.PrintText(cli.ErrorMarkdown("writ plan: it failed", err)); unwritten != nil {
				env.Warn("%v", unwritten)
			}
		}
		return err
	}
	if view.Preview == nil && env.Format == terminal.Name {
		env.Warn("this is the digest of the script alone: no datacenter has previewed it")
	}
	err = env.Print(terminal.View{
		Data: view, Names: []string{view.Digest.String()},
		Text: func(wide bool) string {
			return planview.Text(env.Terminal, view, wide)
		},
		Markdown: func() string { return planview.Markdown(env.Plain(), view) },
	})
	if err != nil {
		return err
	}
	if failed := view.Failed(); failed != nil {
		return failed
	}
	if unplaced := view.Unplaced(); unplaced != nil {
		return unplaced
	}
	if p.exitCode && view.Changes {
		return &terminal.ExitError{Exit: writ.ExitPlanChanges}
	}
	return nil
}

// readAndPlan reads and plans a script.
func readAndPlan(ctx context.Context, env *cli.Env, path string, p *planFlags) (*planview.View, error) {
	script, err := signing.ReadScript(env, path, p.order.Own)
	if err != nil {
		return nil, err
	}
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	return makePlan(ctx, env, c, script, p)
}

// makePlan plans the script and requests a preview from its datacenter, if possible.
func makePlan(
	ctx context.Context, env *cli.Env, c *client.Client, script client.Script, p *planFlags,
) (*planview.View, error) {
	roster, unasked, err := rosterToPlan(ctx, env, c, p.offline)
	if err != nil {
		return nil, err
	}
	order, err := orderToPlan(ctx, env, c, roster, script, &p.order, p.offline)
	if err != nil && !p.offline {
		err = orOffline(err)
	}
	if err != nil {
		return nil, err
	}
	view := &planview.View{Script: script.Path, Project: order.Project.Name, Unasked: unasked, Bundle: script.Bundle}
	if view.Plan, err = order.Plan(ctx, roster); err != nil {
		return nil, err
	}
	if roster != nil {
		if d := roster.Datacenter(order.Datacenter); d != nil {
			view.Datacenter = d.Name
		}
	}
	if script.Report.Destructive {
		targets, all := order.Destroys(&view.Plan)
		view.Targets, view.MoreTargets = targets, !all
	}
	switch d := p.order.Destructive; {
	case len(d.Named) > 0:
		order.Targets = d.Named
	case d.Said:
		order.Targets = view.Targets
	}
	if named := p.order.Prune.Named; len(named) > 0 {
		order.Prune = slices.Compact(slices.Sorted(slices.Values(named)))
		view.Prune = order.Prune
		if view.Plan, err = order.Plan(ctx, roster); err != nil {
			return nil, err
		}
	}
	if unasked == "" {
		newest := !strings.Contains(p.order.Deployment, "@")
		foreseen, preview, err := c.Orders.Foresee(ctx, order, roster, view.Plan, newest)
		if err == nil && p.order.Prune.Said && len(order.Prune) == 0 {
			view.PruneMore = order.PruneKept(preview)
			view.Prune = order.Prune
			if view.Plan, err = order.Plan(ctx, roster); err == nil {
				foreseen, preview, err = c.Orders.Foresee(ctx, order, roster, view.Plan, newest)
			}
		}
		switch {
		case err == nil:
			view.Foreseen, view.Preview = &foreseen, &preview
		case slices.Contains(withoutPreview, writ.CodeOf(err)):
			view.Unasked = writ.AsError(err).Message
		default:
			return nil, orOffline(err)
		}
	}
	if p.order.Prune.Said && len(order.Prune) == 0 && view.Preview == nil {
		return nil, writ.Errorf(writ.CodeUsage, "--prune needs the list of resources, which only the datacenter has: %s",
			view.Unasked).WithHint("name the resources with --prune=KIND/NAME, or plan the script when the datacenter answers")
	}
	view.Conclude()
	if view.Failed() == nil {
		view.Next = nextCommand(env, view, &p.order)
		view.Denied = mayNotSubmit(ctx, c, roster, order)
	}
	return view, nil
}

// mayNotSubmit returns the reason why the owner of the signing key may not sign an order. It returns nil if the owner
// may, or is unknown.
func mayNotSubmit(ctx context.Context, c *client.Client, roster *identity.Roster, order client.Order) *writ.Error {
	if roster == nil {
		return nil
	}
	by, err := c.Keys.Owner(ctx, roster)
	if err != nil {
		return nil
	}
	action := identity.ActionSubmit
	if order.Script.Report.Destructive || len(order.Prune) > 0 {
		action = identity.ActionDestroy
	}
	if err := roster.Allows(by.Name, action, order.Project.ID, time.Now()); err != nil {
		return writ.AsError(err)
	}
	return nil
}

// withoutPreview lists the errors of a datacenter that answers but cannot preview a plan. The plan is shown without a
// preview.
var withoutPreview = []writ.Code{writ.CodeVerbUnsupported, writ.CodeTooLarge}

// orOffline adds the flag that plans without a datacenter to the hint of an error. Other errors are unchanged: --offline
// would not avoid them. A plan never falls back to --offline by itself, because a CI job would then pass without having
// seen any effect.
func orOffline(err error) error {
	e := writ.AsError(err)
	if !slices.Contains(signing.NoPreview, e.Code) {
		return err
	}
	return withOfflineHint(e)
}

func withOfflineHint(e *writ.Error) *writ.Error {
	return e.WithHint("%s; --offline shows the calls of the script without a datacenter",
		cmp.Or(e.Hint, "`writ dc list` shows the state of the datacenters"))
}

// rosterToPlan returns the roster for a plan, or nil if the plan is offline and no roster is stored. unasked is the
// reason for not requesting a preview.
func rosterToPlan(
	ctx context.Context, env *cli.Env, c *client.Client, offline bool,
) (roster *identity.Roster, unasked string, err error) {
	switch {
	case offline && c.Context.Cluster == "":
		return nil, "--offline", nil
	case offline:
		roster, err = c.Rosters.Latest()
		return roster, "--offline", err
	}
	roster, err = env.Roster(ctx, c)
	switch {
	case err == nil:
		return roster, "", nil
	case c.Context.Cluster == "":
		return nil, "", withOfflineHint(writ.AsError(err))
	}
	return nil, "", orOffline(err)
}

// orderToPlan returns the order that would be signed. Without a roster, some of its fields are unknown. Only a plan
// with --offline has no roster.
func orderToPlan(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, script client.Script,
	o *signing.OrderFlags, offline bool,
) (client.Order, error) {
	o.Planning, o.Offline = true, offline
	if roster != nil && !(offline && o.Datacenter == signing.AnyDatacenter) {
		return signing.Order(ctx, env, c, roster, script, o)
	}
	order := client.Order{Script: script, MaxCalls: o.MaxCalls, Secrets: client.FirstVersions(o.SecretsOf(script))}
	err := o.Check()
	if err != nil {
		return order, err
	}
	signing.WarnOfTimeouts(env, script.Report, o.Deadline)
	if order.Params, err = o.ReadParams(env.Terminal, script.Report.Params); err != nil {
		return order, err
	}
	if order.Deployment, err = signing.ParseDeployment(o.Deployment); err != nil {
		return order, err
	}
	order.Uses = o.Uses
	order.Project.Name = cmp.Or(c.Context.Project, client.DefaultProject)
	return order, nil
}

// nextCommand returns the command that signs and submits exactly this plan.
func nextCommand(env *cli.Env, p *planview.View, o *signing.OrderFlags) string {
	words := []string{"writ", "submit", p.Script}
	add := func(flag string, values ...string) {
		for _, v := range values {
			words = append(words, flag, v)
		}
	}
	add("-p", o.Params...)
	if o.ParamsFile != "" {
		add("--params", o.ParamsFile)
	}
	add("--module", o.Own.Words...)
	add("--secret", o.Secrets...)
	add("--image", o.Images...)
	if env.Flags.Context != "" {
		add("--context", env.Flags.Context)
	}
	if env.Flags.Project != "" {
		add("--project", env.Flags.Project)
	}
	switch {
	case o.Datacenter != "" && p.Datacenter != "":
		add("--dc", p.Datacenter)
	case o.Datacenter != "":
		add("--dc", o.Datacenter)
	}
	switch {
	case o.Deployment != "" && p.Preview != nil && !strings.Contains(o.Deployment, "@"):
		add("--deployment", fmt.Sprintf("%s@%d", o.Deployment, p.Preview.Revision))
	case o.Deployment != "":
		add("--deployment", o.Deployment)
	}
	add("--uses", o.Uses...)
	if o.Deadline != signing.DefaultDeadline {
		add("--deadline", o.Deadline.String())
	}
	if o.MaxCalls != scripts.UsualCalls {
		add("--max-calls", fmt.Sprint(o.MaxCalls))
	}
	switch {
	case len(o.Destructive.Named) > 0:
		words = append(words, "--destructive="+o.Destructive.String())
	case o.Destructive.Said:
		words = append(words, "--destructive")
	}
	if len(p.Prune) > 0 {
		words = append(words, "--prune="+strings.Join(p.Prune, ","))
	}
	add("--plan", p.Digest.String()[:digestDigits])
	for i, w := range words {
		words[i] = cli.ShellWord(w)
	}
	return strings.Join(words, " ")
}

// digestDigits is the number of digits of a digest in a command. It is large enough that two plans of one user never
// collide.
const digestDigits = 16
