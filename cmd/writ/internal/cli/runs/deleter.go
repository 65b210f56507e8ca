package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/identity/target"
	"writ/scripts"
	"writ/scripts/deletion"
)

// deleter deletes resources of one owner, a deployment or the project itself, with signed scripts that name each
// resource. Make it with newDeleter.
type deleter struct {
	*cli.Env
	client     *client.Client
	roster     *identity.Roster
	datacenter *identity.Datacenter
	order      client.Order // without a script
	script     string       // file name of the scripts
	watch      watchOptions
}

// newDeleter returns a deleter for the resources of a deployment, or of the project itself if deployment is empty.
func newDeleter(ctx context.Context, env *cli.Env, datacenter, deployment string) (*deleter, error) {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	d := &deleter{Env: env, client: c, roster: roster, script: "destroy.tengo"}
	if d.datacenter, err = client.TheDatacenter(roster, datacenter); err != nil {
		return nil, err
	}
	d.order = client.Order{
		Datacenter: d.datacenter.ID, Deployment: identity.Deployment{Name: deployment},
		Expires: identity.DefaultValidity, Deadline: signing.DefaultDeadline, MaxCalls: scripts.UsualCalls,
	}
	d.order.Project, err = cli.ProjectOf(c, roster)
	return d, err
}

// mayDelete returns an error if the owner of the signing key may not delete data in the project.
func (d *deleter) mayDelete(ctx context.Context) error {
	by, err := d.client.Keys.Owner(ctx, d.roster)
	if err != nil {
		return err
	}
	return d.roster.Allows(by.Name, identity.ActionDestroy, d.order.Project.ID, time.Now())
}

// batch is a script that deletes the resources of one batch that client.Batches returns.
type batch struct {
	resources []deletion.Resource // one for each call of the script, in order
	order     client.Order
	preview   writ.Preview
}

// plan returns the scripts that delete resources, in order, each with its expected effect.
func (d *deleter) plan(ctx context.Context, resources []writ.KeptResource) ([]batch, error) {
	var all []deletion.Resource
	for _, r := range resources {
		all = append(all, deletion.Resource{Kind: r.Kind, Name: r.Name})
	}
	var batches []batch
	for _, some := range client.Batches(all, nil) {
		b := batch{resources: some, order: d.order}
		comment := "Deletes resources of project " + d.order.Project.Name
		if name := d.order.Deployment.Name; name != "" {
			comment = "Deletes resources of the deployment " + name
		}
		b.order.Script = client.NewScript(d.script, deletion.Script(comment+", written by the command line.", some))
		for _, r := range some {
			b.order.Targets = append(b.order.Targets, target.Of(r.Kind, r.Name))
		}
		plan, err := b.order.Plan(ctx, d.roster)
		if err != nil {
			return nil, err
		}
		b.order.PlanDigest = plan.Digest
		if _, b.preview, err = d.client.Orders.Foresee(ctx, b.order, d.roster, plan, true); err != nil {
			return nil, err
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// text formats the deletions like a plan.
func (d *deleter) text(title string, owned writ.Preview, batches []batch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", terminal.Clean(title))
	deleted := 0
	for _, batch := range batches {
		for i, c := range batch.preview.Calls {
			mark, tone := "-", terminal.Bad
			switch c.Action {
			case writ.ActionRefused:
				mark = "!"
			case writ.ActionUnchanged: // deleted in the meantime
				mark, tone = "=", terminal.Dim
			default:
				deleted++
			}
			line := fmt.Sprintf("%s %s", batch.resources[i].Kind, batch.resources[i].Name)
			if c.NodeName != "" {
				line += " on " + c.NodeName
			}
			fmt.Fprintf(&b, "%s %s\n", d.Paint(tone, mark), terminal.Clean(line))
			if c.Error != nil {
				fmt.Fprintf(&b, "      %s\n", terminal.Clean(c.Error.Message))
			}
		}
	}
	if owned.KeptMore > 0 {
		fmt.Fprintf(&b, "  and %d more, which are listed after these\n", owned.KeptMore)
	}
	fmt.Fprintf(&b, "\n%d to delete, with their data\n", deleted)
	return b.String()
}

// awaitEnd waits until a run has ended. Its outcome does not matter.
func (d *deleter) awaitEnd(ctx context.Context, id writ.RunID) error {
	_, err := watchProgress(ctx, d.client, id, runview.NewProgress(d.Terminal, d.roster, time.Time{}))
	if cli.IsInterrupt(ctx, err) {
		return terminal.Interrupted("no resource was deleted")
	}
	return err
}

// submit signs and submits scripts one after the other, and waits for the end of each.
func (d *deleter) submit(ctx context.Context, batches []batch) error {
	by, err := d.client.Person(ctx, d.roster)
	if err != nil {
		return err
	}
	defer by.Close()
	for i, b := range batches {
		if b.order.Deployment.Name != "" {
			b.order.Deployment.Base += i
		}
		flags := signing.OrderFlags{Expires: b.order.Expires}
		endWithCertificate(d.Env, by.Signatory().Certificate(d.roster), &flags)
		b.order.Expires = flags.Expires
		signed, err := b.order.Sign(d.roster, by)
		if err != nil {
			return err
		}
		d.Note("signed by %s", by.Name)
		submission, err := d.client.Orders.Submit(ctx, signed)
		if err != nil {
			return err
		}
		d.client.Orders.Remember(signed)
		d.watch.bundle = b.order.Script.Bundle
		if err := watch(ctx, d.Env, d.client, submission.Run, d.watch); err != nil {
			return err
		}
	}
	return nil
}

// refusedCall returns the error of the first deletion that would be refused, or nil.
func refusedCall(batches []batch) error {
	for _, b := range batches {
		if b.preview.Refused != nil {
			return b.preview.Refused
		}
		for _, c := range b.preview.Calls {
			if c.Error != nil {
				return writ.Errorf(c.Error.Code, "%s: no script was signed", c.Error.Message).WithHint("%s", c.Error.Hint)
			}
		}
	}
	return nil
}

// agreeToDelete returns nil if the user agrees to a deletion: with --yes, or by typing the name of the object.
func agreeToDelete(env *cli.Env, what, object, name string, yes bool) error {
	if yes {
		return nil
	}
	if !env.Interactive() {
		return cli.Agree(env, what, false) // returns its usual error
	}
	typed, err := terminal.Typed(env.Terminal, "type the name of the "+object+" to delete all of this, with its data", name)
	switch {
	case errors.Is(err, context.Canceled):
		return terminal.Interrupted("no script was signed")
	case err != nil:
		return fmt.Errorf("ask for the name of the %s: %w", object, err)
	case !typed:
		return writ.Errorf(writ.CodeUsage, "that is not the name %s: no script was signed", name)
	}
	return nil
}
