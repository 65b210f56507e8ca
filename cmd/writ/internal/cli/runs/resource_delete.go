package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
)

// resourceDeleteFlags hold the options of `writ resource delete`.
type resourceDeleteFlags struct {
	datacenter string
	yes        bool
	timeout    time.Duration
}

// ResourceDeleteCommand returns the command `writ resource delete`. The caller passes it to Commands of package
// resources.
func ResourceDeleteCommand(env *cli.Env) *cobra.Command {
	var f resourceDeleteFlags
	c := &cobra.Command{
		Use:   "delete KIND/NAME",
		Short: "Delete a resource, with its data",
		Long: `Deletes a resource with its data. The command shows the plan, asks for the name of the resource, and signs a script
that deletes exactly this resource. If a deployment owns the resource, the script is its next revision. You need the
right to delete data in the project.

A resource that another resource uses is not deleted: the command then signs no script and names the user. A deployment
makes the resource again with its next revision that names it.`,
		Example: "  writ resource delete volume/old-data\n  writ resource delete machine/web-3 --project shop --dc dc1 --yes",
		Args:    cli.Exactly("KIND/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return deleteResource(cmd.Context(), env, args[0], f)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestResources)
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the resource")
	flags := c.Flags()
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time to watch the run, which then continues (exit code 6)")
	cli.InRange(flags, "timeout", &f.timeout, time.Millisecond, cli.Longest)
	return c
}

// deleteResource deletes the resource that an argument names.
func deleteResource(ctx context.Context, env *cli.Env, argument string, f resourceDeleteFlags) error {
	kind, name, err := cli.ParseResource(argument)
	if err != nil {
		return err
	}
	d, err := newDeleter(ctx, env, f.datacenter, "")
	if err != nil {
		return err
	}
	d.script, d.watch.timeout = "delete.tengo", f.timeout
	if err := d.mayDelete(ctx); err != nil {
		return err
	}
	found, hint, err := cli.ResourcesNamed(ctx, d.client, api.ListResourcesParams{
		Kind: api.Given(kind), Project: api.Given(string(d.order.Project.ID)),
		Datacenter: api.Given(string(d.datacenter.ID)),
	}, name)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return writ.Errorf(writ.CodeNotFound, "project %s has no %s %s in %s", d.order.Project.Name, kind, name,
			d.datacenter.Name).WithHint("%s", hint)
	}
	what := fmt.Sprintf("the %s %s of project %s in %s", kind, name, d.order.Project.Name, d.datacenter.Name)
	d.order.Deployment.Name = found[0].Deployment // a wrong owner is rejected by the supervisor
	preview, err := d.client.Orders.Preview(ctx, d.order)
	if err != nil {
		return err
	}
	d.order.Deployment.Base = preview.Revision
	batches, err := d.plan(ctx, []writ.KeptResource{{Kind: kind, Name: name}})
	if err != nil {
		return err
	}
	fmt.Fprint(env.Err, d.text("delete "+what, writ.Preview{}, batches))
	if err := refusedCall(batches); err != nil {
		return err
	}
	if batches[0].preview.Calls[0].Action == writ.ActionUnchanged {
		env.Done("%s does not exist any more: no script was signed", what)
		return nil
	}
	if reason := batches[0].preview.Reason; reason != "" {
		env.Note("its run %s", reason)
	}
	if err := agreeToDelete(env, "delete "+what, string(kind), name, f.yes); err != nil {
		return err
	}
	if err := d.submit(ctx, batches); err != nil {
		return err
	}
	env.Done("%s is deleted", what)
	return nil
}
