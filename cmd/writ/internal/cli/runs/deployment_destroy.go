package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
)

// destroyFlags hold the options of `writ deployment destroy`.
type destroyFlags struct {
	datacenter      string
	yes, cancelRuns bool
	timeout         time.Duration
}

func deploymentDestroyCommand(env *cli.Env) *cobra.Command {
	var f destroyFlags
	c := &cobra.Command{
		Use:   "destroy NAME",
		Short: "Delete all resources of a deployment, with their data",
		Long: `Deletes all resources that a deployment owns, with their data: first the containers, machines and databases, then
volumes, networks and images.

The command waits for the open runs of the deployment, or cancels them with --cancel-runs. It lists the resources,
asks for the name of the deployment, and signs a script that deletes exactly these resources. The script is the next
revision of the deployment, which stays in the history. You need the right to delete data in the project.

A resource that another deployment uses is not deleted: the command then signs no script and names the user.`,
		Example: "  writ deployment destroy web\n  writ deployment destroy web --project shop --dc dc1 --yes --cancel-runs",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return destroy(cmd.Context(), env, args[0], f)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the deployment")
	flags := c.Flags()
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.cancelRuns, "cancel-runs", false, "cancel the open runs of the deployment instead of waiting for them")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time to watch a run; the run continues (exit code 6)")
	cli.InRange(flags, "timeout", &f.timeout, time.Millisecond, cli.Longest)
	return c
}

// destroy deletes the resources of a deployment.
func destroy(ctx context.Context, env *cli.Env, name string, f destroyFlags) error {
	if !writ.ValidName(name) {
		return writ.Errorf(writ.CodeUsage, "%q is not a valid name of a deployment", name)
	}
	d, err := newDeleter(ctx, env, f.datacenter, name)
	if err != nil {
		return err
	}
	d.watch.timeout = f.timeout
	if err := d.mayDelete(ctx); err != nil {
		return err
	}
	if err := endOpenRuns(ctx, d, f); err != nil {
		return err
	}
	what := fmt.Sprintf("the deployment %s of project %s in %s", name, d.order.Project.Name, d.datacenter.Name)
	agreed := make(map[string]bool)
	for before := -1; ; {
		preview, err := d.client.Orders.Preview(ctx, d.order)
		if err != nil {
			return err
		}
		left := len(preview.Kept) + preview.KeptMore
		switch {
		case preview.Revision == 0:
			return unknownDeployment(ctx, env, name, f.datacenter)
		case left == 0 && before < 0:
			env.Done("%s owns no resource: no script was signed", what)
			return nil
		case left == 0:
			env.Done("%s is destroyed: it owns no resource", what)
			return nil
		case left == before:
			return writ.Errorf(writ.CodeConflict, "%s still owns %s", what, cli.Count(left, "resource")).
				WithHint("`writ resource list --deployment %s` lists the resources", name)
		}
		before, d.order.Deployment.Base = left, preview.Revision
		batches, err := d.plan(ctx, preview.Kept)
		if err != nil {
			return err
		}
		fmt.Fprint(env.Err, d.text("destroy "+what, preview, batches))
		if err := refusedCall(batches); err != nil {
			return err
		}
		if isNew(preview.Kept, agreed) {
			if err := agreeToDelete(env, "destroy "+what, "deployment", name, f.yes); err != nil {
				return err
			}
		}
		if err := d.submit(ctx, batches); err != nil {
			return err
		}
	}
}

// isNew reports whether agreed lacks one of the resources, and adds all of them to agreed. A large deployment is listed
// in several rounds, and a hostile coordinator could list a resource of no deployment after the user has agreed.
func isNew(resources []writ.KeptResource, agreed map[string]bool) (found bool) {
	for _, r := range resources {
		name := string(r.Kind) + "/" + r.Name
		found = found || !agreed[name]
		agreed[name] = true
	}
	return found
}

// unknownDeployment returns the error for a deployment that never had a run.
func unknownDeployment(ctx context.Context, env *cli.Env, name, datacenter string) error {
	all, _, err := deployments(ctx, env, api.ListDeploymentsParams{Datacenter: api.Given(datacenter)})
	if err != nil {
		return err
	}
	return writ.Errorf(writ.CodeNotFound, "unknown deployment %s", name).
		WithHint("%s", meant.Among(name, all, func(d api.Deployment) string { return d.Name },
			"`writ deployment list` shows the deployments with resources"))
}

// endOpenRuns waits until the deployment has no open run, so that no run adds resources while the command deletes them.
// With --cancel-runs it cancels the runs first.
func endOpenRuns(ctx context.Context, d *deleter, f destroyFlags) error {
	params := api.ListRunsParams{
		Project: api.Given(string(d.order.Project.ID)), Datacenter: api.Given(string(d.datacenter.ID)),
		Deployment: api.Given(d.order.Deployment.Name), State: cancelling.fits,
	}
	runs, _, err := d.client.Runs.List(ctx, params, identity.MaxRuns)
	if err != nil || len(runs) == 0 {
		return err
	}
	if f.cancelRuns {
		err = d.client.Runs.ProveSelected(ctx, runs, params)
	} else {
		err = client.Selected(runs, params)
	}
	if err != nil {
		return err
	}
	d.Note("%s of the deployment", cli.Count(len(runs), "open run"))
	fmt.Fprint(d.Err, manyText(runs))
	if f.cancelRuns {
		if err := cancelRuns(ctx, d, runs, f.yes); err != nil {
			return err
		}
	} else {
		d.Note("waiting until they have ended; --cancel-runs cancels them")
	}
	for _, r := range runs {
		if err := d.awaitEnd(ctx, r.ID); err != nil {
			return err
		}
	}
	return nil
}

// cancelRuns signs one statement that cancels open runs of the deployment.
func cancelRuns(ctx context.Context, d *deleter, runs []api.Run, yes bool) error {
	statement, err := client.AboutRuns(runs, false)
	if err != nil {
		return err
	}
	statement.Reason = "the deployment is to be destroyed"
	if err := cli.Agree(d.Env, "cancel "+cli.Count(len(runs), "run"), yes); err != nil {
		return err
	}
	by, err := d.client.Person(ctx, d.roster)
	if err != nil {
		return err
	}
	defer by.Close()
	answer, err := d.client.Runs.Decide(ctx, by, statement)
	if err == nil {
		d.Note("%s", answer.Done)
	}
	return err
}
