package runs

import (
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
	"writ/cmd/writ/internal/registry"
	"writ/cmd/writ/internal/revision"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/hidden"
	"writ/internal/imageref"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
)

// rollbackFlags hold the options of `writ deployment rollback`.
type rollbackFlags struct {
	submitFlags
	to  int
	yes bool
}

func deploymentRollbackCommand(env *cli.Env) *cobra.Command {
	var f rollbackFlags
	c := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Sign the script and parameters of an earlier revision again, as the next revision",
		Long: `Submits the script, the modules and the parameters of an earlier revision again, as the next revision of the
deployment. The default is the newest earlier revision that succeeded. The images have the digests that
were signed then. Secrets have their newest versions, which fit the present data. Resources that the earlier script
does not name stay too, unless you add --prune.

The command does not trust its coordinator. It verifies the signature of the earlier signer on this
revision, and the signature of the supervisor on the end of its run. Then it shows the difference to the current revision and the
plan, and asks. You sign a new text, so you need the rights for it.

The command stops before it signs if the deployment has an open run, or if a registry no longer has an image
(IMAGE_GONE).`,
		Example: "  writ deployment rollback web\n  writ deployment rollback web --to 3\n  writ deployment rollback web --to 3 --yes --timeout 10m",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return writ.Errorf(writ.CodeUsage, "unexpected argument %q", args[1]).
					WithHint("did you mean `%s %s --to %s`?", cmd.CommandPath(), cli.ShellWord(args[0]), cli.ShellWord(args[1]))
			}
			return cli.Exactly("NAME")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return rollBack(cmd.Context(), env, args[0], &f)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &f.order.Datacenter, "datacenter of the deployment")
	revisionFlag(c, "to", &f.to, "number of the revision; by default the newest earlier revision that succeeded")
	flags := c.Flags()
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	f.order.AddDeletions(c)
	flags.BoolVar(&f.detach, "detach", false, "only submit, and print the id of the run")
	f.watchFlags(c)
	return c
}

// rollback signs the text of an earlier revision again.
type rollback struct {
	*cli.Env
	client     *client.Client
	roster     *identity.Roster
	datacenter *identity.Datacenter
	deployment revision.Deployment
	flags      *rollbackFlags
	newest     *revision.Revision
	old        *revision.Revision
	order      client.Order
	signer     client.Signatory
}

func rollBack(ctx context.Context, env *cli.Env, name string, f *rollbackFlags) error {
	r, err := newRollback(ctx, env, name, f)
	if err != nil {
		return err
	}
	if err := r.mayStart(ctx); err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	if err := r.makeOrder(ctx); err != nil {
		return err
	}
	view, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if err := r.show(view); err != nil {
		return err
	}
	if err := view.Failed(); err != nil {
		return err
	}
	if err := r.imagesPresent(ctx, view); err != nil {
		return err
	}
	what := fmt.Sprintf("roll back the deployment %s of project %s in %s to revision %d", name, r.order.Project.Name,
		r.datacenter.Name, r.old.Number)
	if err := cli.Agree(env, what, f.yes); err != nil {
		return err
	}
	return r.submit(ctx)
}

// newRollback selects the deployment by the roster, as for a submission: the coordinator must not choose it.
func newRollback(ctx context.Context, env *cli.Env, name string, f *rollbackFlags) (*rollback, error) {
	if !writ.ValidName(name) {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not a valid name of a deployment", name).
			WithHint("`writ deployment list` shows the names")
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	r := &rollback{Env: env, client: c, roster: roster, flags: f}
	if r.datacenter, err = client.TheDatacenter(roster, f.order.Datacenter); err != nil {
		return nil, err
	}
	if r.order.Project, err = cli.ProjectOf(c, roster); err != nil {
		return nil, err
	}
	r.order.Datacenter, r.order.Deployment.Name = r.datacenter.ID, name
	r.deployment = revision.Deployment{
		Project: r.order.Project.ID, ProjectName: r.order.Project.Name, Datacenter: r.datacenter.ID, Name: name,
	}
	return r, nil
}

// mayStart returns an error if the owner of the signing key may not submit, or if the deployment has an open run.
func (r *rollback) mayStart(ctx context.Context) error {
	var err error
	if r.signer, err = r.client.Keys.Owner(ctx, r.roster); err != nil {
		return err
	}
	action := identity.ActionSubmit
	if r.flags.order.Destructive.Said || r.flags.order.Prune.Said {
		action = identity.ActionDestroy
	}
	if err := r.roster.Allows(r.signer.Name, action, r.order.Project.ID, time.Now()); err != nil {
		return err
	}
	params := r.deployment.Runs()
	params.State = []api.RunState{api.RunStateWaiting, api.RunStateAccepted, api.RunStateRunning}
	open, _, err := r.client.Runs.List(ctx, params, 1)
	if err == nil {
		err = client.Selected(open, params)
	}
	if err != nil || len(open) == 0 {
		return err
	}
	return writ.Errorf(writ.CodeConflict, "run %s of the deployment %s is open (%s): no text was signed", open[0].ID,
		r.deployment.Name, open[0].State).
		WithHint("wait for its end with `writ run watch %s`, or cancel it with `writ run cancel %s`", open[0].ID, open[0].ID)
}

// choose reads the newest revision and the earlier revision to return to.
func (r *rollback) choose(ctx context.Context) error {
	preview, err := r.client.Orders.Preview(ctx, r.order)
	if err != nil {
		return err
	}
	if preview.Revision == 0 {
		return unknownDeployment(ctx, r.Env, r.deployment.Name, r.flags.order.Datacenter)
	}
	r.order.Deployment.Base = preview.Revision
	switch {
	case r.flags.to == preview.Revision:
		return writ.Errorf(writ.CodeUsage, "revision %d is the newest revision: no text was signed", r.flags.to).
			WithHint("choose an earlier one: `writ deployment history %s` lists the revisions", r.deployment.Name)
	case r.flags.to > preview.Revision:
		return writ.Errorf(writ.CodeNotFound, "the deployment %s has no revision %d: the newest one is %d",
			r.deployment.Name, r.flags.to, preview.Revision).
			WithHint("`writ deployment history %s` lists the revisions", r.deployment.Name)
	}
	if r.newest, err = r.deployment.Read(ctx, r.client, r.roster, preview.Revision); err != nil {
		return err
	}
	if r.flags.to == revision.Newest {
		r.old, err = r.deployment.ReadSucceeded(ctx, r.client, r.roster, preview.Revision)
	} else {
		r.old, err = r.deployment.Read(ctx, r.client, r.roster, r.flags.to)
	}
	if err != nil {
		return err
	}
	if err := r.old.Proved(ctx, r.client, r.roster); err != nil {
		return err
	}
	if r.old.Revoked != nil {
		return writ.Errorf(writ.CodeSignerRevoked, "revision %d was signed with a key of %s that was revoked since: no text was signed",
			r.old.Number, r.old.Payload.Signer).
			WithHint("another person may have signed it: read it with `writ deployment script %s --revision %d`, and submit the parts that you accept",
				r.deployment.Name, r.old.Number)
	}
	return nil
}

// makeOrder builds the order from the earlier revision.
func (r *rollback) makeOrder(ctx context.Context) error {
	p, o := r.old.Payload, &r.order
	bundle := r.old.Bundle()
	o.Script = client.Script{Path: p.Script.Name, Bundle: bundle, Report: check.Check(bundle)}
	if err := o.Script.Report.Err(); err != nil {
		e := writ.AsError(err)
		return writ.Errorf(e.Code, "revision %d cannot be signed again: %s", r.old.Number, e.Message).
			WithHint("save the script with `writ deployment script %s --revision %d`, and correct it", r.deployment.Name, r.old.Number)
	}
	o.Params, o.Images, o.Uses = p.Params, p.Images, p.Uses
	o.Expires, o.Deadline, o.MaxCalls = identity.DefaultValidity, p.Deadline, p.MaxCalls
	var err error
	names := slices.Concat(secretNames(p.Secrets), r.flags.order.Secrets)
	if o.Secrets, err = r.client.Secrets.Resolve(ctx, r.datacenter, o.Project, names); err != nil {
		return err
	}
	targets := slices.DeleteFunc(slices.Clone(p.Targets), func(t string) bool { return slices.Contains(p.Prune, t) })
	destruction := r.flags.order.Destructive.Destruction
	if len(targets) > 0 && r.flags.to == revision.Newest {
		return writ.Errorf(writ.CodeDestructiveDenied,
			"revision %d, the newest earlier success, may delete or overwrite data: %s", r.old.Number,
			strings.Join(targets, " ")).
			WithHint("choose a revision with --to: `writ deployment history %s` lists the revisions", r.deployment.Name)
	}
	if destruction.Said && len(destruction.Named) == 0 { // the script may compute its targets
		destruction.Named = targets
	}
	return o.NameTargets(ctx, r.roster, destruction)
}

// secretNames returns the names of secrets without their versions.
func secretNames(refs []string) (names []string) {
	for _, ref := range refs {
		name, _, _ := strings.Cut(ref, "@")
		names = append(names, name)
	}
	return names
}

// plan returns the plan with its effects, and binds the order to it.
func (r *rollback) plan(ctx context.Context) (*planview.View, error) {
	if r.flags.order.Prune.Said {
		if err := r.prune(ctx); err != nil {
			return nil, err
		}
	}
	v := &planview.View{
		Script: r.order.Script.Path, Project: r.order.Project.Name, Datacenter: r.datacenter.Name, Targets: r.order.Targets,
		Prune: r.order.Prune, Bundle: r.order.Script.Bundle,
	}
	var err error
	if v.Plan, err = r.order.Plan(ctx, r.roster); err != nil {
		return nil, err
	}
	r.order.PlanDigest = v.Plan.Digest
	foreseen, preview, err := r.client.Orders.Foresee(ctx, r.order, r.roster, v.Plan, false)
	if err != nil {
		return nil, err
	}
	v.Foreseen, v.Preview = &foreseen, &preview
	v.Conclude()
	return v, nil
}

// prune names the resources to prune. With --yes it returns an error if the datacenter chose them, because no person
// would see the list.
func (r *rollback) prune(ctx context.Context) error {
	plan, err := r.order.Plan(ctx, r.roster)
	if err == nil {
		err = namePruned(ctx, r.Env, r.client, r.roster, &r.order, &r.flags.order, plan)
	}
	if err == nil && r.flags.yes && len(r.flags.order.Prune.Named) == 0 && len(r.order.Prune) > 0 {
		err = unseenPrune(&r.order)
	}
	return err
}

// show writes the difference from the newest revision to the text to sign, and the plan.
func (r *rollback) show(v *planview.View) error {
	text, err := r.order.Payload(r.roster, r.signer)
	if err != nil {
		return err
	}
	next, err := identity.ParsePayload(text)
	if err != nil {
		return err
	}
	noteSigners(r.Env, r.deployment.Name, r.newest, r.old)
	if r.old.Run.State != api.RunStateSucceeded {
		r.Warn("the run of revision %d did not succeed: it is %s", r.old.Number, r.old.Run.State)
	}
	parts := revision.DiffToText(r.newest, next, fmt.Sprint(r.order.Deployment.Base+1))
	if len(parts) == 0 {
		r.Note("revision %d has the same script, parameters, images and secrets as revision %d", r.old.Number, r.newest.Number)
	}
	paint := paintDiff(r.Env)
	for line := range strings.Lines(diffText(parts)) {
		fmt.Fprintln(r.Err, paint(hidden.EscapeText(strings.TrimSuffix(line, "\n"))))
	}
	fmt.Fprintf(r.Err, "\n%s\n", planview.Text(r.Terminal, v, false))
	return nil
}

// imagesPresent returns IMAGE_GONE if a registry no longer has an image that a call of the plan may fetch. It only
// warns if the newest revision uses the image, because the nodes of that revision have it, or if a registry does not
// answer.
func (r *rollback) imagesPresent(ctx context.Context, v *planview.View) error {
	silent := make(map[string]bool) // registries
	for _, text := range r.order.Images {
		ref, err := imageref.Parse(text)
		if err != nil {
			return err
		}
		if silent[ref.Registry] || !mayFetch(v, ref) {
			continue
		}
		err = (registry.Resolver{}).Present(ctx, ref)
		switch code := writ.CodeOf(err); {
		case err == nil:
		case ctx.Err() != nil:
			return terminal.Interrupted("nothing was signed")
		case code == writ.CodeImageGone && slices.Contains(r.newest.Payload.Images, text):
			r.Warn("%v; the nodes of revision %d still have the image", err, r.newest.Number)
		case code == writ.CodeImageGone:
			return err
		default:
			silent[ref.Registry] = code == writ.CodeUnreachable
			r.Warn("cannot check whether %s still has %s: %v", ref.Registry, ref, err)
		}
	}
	return nil
}

// mayFetch reports whether a call may fetch an image: a call of the plan, or a call after the end of the plan.
func mayFetch(v *planview.View, image imageref.Reference) bool {
	if v.Foreseen.Horizon != nil {
		return true
	}
	return slices.ContainsFunc(v.Foreseen.Calls, func(c scripts.PlannedCall) bool {
		op, ok := catalog.Lookup(c.Operation)
		if !ok || !v.Preview.Calls[c.Seq-1].Action.Changes() {
			return false
		}
		return slices.ContainsFunc(catalog.Images(op.Args, c.Args), func(text string) bool {
			r, err := imageref.Parse(text)
			return err == nil && (r.Tagged() == image.Tagged() || r.Digest == image.Digest)
		})
	})
}

// submit signs and submits the order, and watches its run.
func (r *rollback) submit(ctx context.Context) error {
	by, err := r.client.Person(ctx, r.roster)
	if err != nil {
		return err
	}
	defer by.Close()
	flags := signing.OrderFlags{Expires: r.order.Expires}
	endWithCertificate(r.Env, by.Signatory().Certificate(r.roster), &flags)
	r.order.Expires = flags.Expires
	signed, err := r.order.Sign(r.roster, by)
	if err != nil {
		return err
	}
	r.Note("deployment %s: revision %d, signed by %s", r.deployment.Name, r.order.Deployment.Base+1, by.Name)
	submission, err := r.client.Orders.Submit(ctx, signed)
	if err != nil {
		return err
	}
	r.client.Orders.Remember(signed)
	if r.flags.detach {
		return r.Print(terminal.View{
			Data: submission, Names: []string{string(submission.Run)},
			Text: func(bool) string { return string(submission.Run) + "\n" },
		})
	}
	r.flags.bundle = r.order.Script.Bundle
	return watch(ctx, r.Env, r.client, submission.Run, r.flags.watchOptions)
}
