package nodes

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/identity"
)

// ending is a decision that ends the work of a node permanently.
type ending struct {
	decision  string
	question  string // format with the node and its datacenter
	resources string // fate of the node's resources
	removed   bool   // also possible for a removed node
}

var (
	removing = ending{
		"remove", "remove node %s of %s permanently", "left on the node, and their names stay in use", false,
	}
	losing = ending{
		identity.DecisionLost, "sign that node %s of %s is permanently lost",
		"stopped when the node learns of the loss, and their names are free at once", true,
	}
)

func nodeRemoveCommand(env *cli.Env) *cobra.Command {
	return nodeEnding(env, removing, &cobra.Command{
		Short: "Remove a node permanently; its key is never admitted again",
		Long: `Signs that a node no longer belongs to the datacenter. Its key is never admitted again. You need the role
admin.

Waiting nodes may share a name. So the supervisor must have signed that the node is admitted, or you must pass its
fingerprint. If the node is ready or has resources, you must confirm the removal or use --yes.`,
		Example: "  writ node remove n1",
	})
}

// beforeLost is the warning before a user signs that a node is lost.
const beforeLost = "turn its machine off first. Until the node learns of its loss, its resources and their replacements " +
	"elsewhere run at the same time"

func nodeLostCommand(env *cli.Env) *cobra.Command {
	return nodeEnding(env, losing, &cobra.Command{
		Short: "Remove a node that never comes back, and free the names of its resources",
		Long: `Signs that a node never comes back. The node is removed permanently, and the names of its resources are
free. Calls that create or delete a resource there run on other nodes. Calls on a lost resource end as NODE_LOST. A
node that was already removed can also be signed as lost, because its removal frees no names. If the node is ready
or has resources, you must confirm or use --yes. Afterwards, the command lists the deployments and runs that had
resources or calls on the node. For each it prints the command that submits it again.

Be certain before you sign: ` + beforeLost + `. If the node comes back and its supervisor
answers within 10 s, its runner learns of the loss before it starts work. The runner stops all machines, containers
and databases, reports this to the supervisor and exits. Volumes stay on the disks of the node. "writ node show NODE"
lists them with the command that removes each.`,
		Example: "  writ node lost n1 --reason \"the machine burned\"",
		PreRun:  func(*cobra.Command, []string) { env.Note("%s", beforeLost) },
	})
}

// nodeEnding completes the command of a decision that ends a node.
func nodeEnding(env *cli.Env, e ending, c *cobra.Command) *cobra.Command {
	node := nodeFlags{removed: e.removed}
	var yes bool
	c.Use = e.decision + " NODE"
	c.Args = cli.Exactly("NODE")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		node.Node = args[0]
		return endNode(cmd.Context(), env, node, e, yes)
	}
	node.add(env, c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// endNode signs a decision that ends a node, after the user has seen the consequences and agreed.
func endNode(ctx context.Context, env *cli.Env, name nodeFlags, e ending, yes bool) error {
	c, roster, n, err := namedNode(ctx, env, name)
	if err != nil {
		return err
	}
	if err := isMeant(ctx, c, roster, n, name); err != nil {
		return err
	}
	if err := agreeToEnd(ctx, env, c, n, fmt.Sprintf(e.question, n.Name, roster.Datacenter(n.Datacenter).Name),
		e.resources, yes); err != nil {
		return err
	}
	var losses []why.Loss
	if e.decision == identity.DecisionLost { // the decision deletes the resources
		finder := why.LossFinder{Client: c, Node: n, Datacenter: roster.Datacenter(n.Datacenter).Name}
		if losses, err = finder.Present(ctx); err != nil {
			env.Warn("cannot list the losses: %v", err)
		}
	}
	if err := signAbout(ctx, env, c, roster, n, name, func(s *identity.Statement) { s.Decision = e.decision }); err !=
		nil {
		return err
	}
	why.NoteLosses(env, n.Name, losses)
	return nil
}

// agreeToEnd shows the state of a node and its resources, as reported by the coordinator, and asks for confirmation. A
// node that is not ready and has no resources needs no confirmation.
func agreeToEnd(
	ctx context.Context, env *cli.Env, c *client.Client, n writ.Node, what, resources string, yes bool,
) error {
	ready := n.Liveness == writ.LivenessReady && n.Admission != writ.AdmissionRemoved
	switch {
	case ready:
		env.Warn("node %s is ready and works: it was last heard from %s", n.Name, heardOf(n))
	case n.Admission == writ.AdmissionRemoved:
		env.Note("node %s was removed before; it was last heard from %s", n.Name, heardOf(n))
	default:
		env.Note("node %s is %s; it was last heard from %s", n.Name, why.NodeStates(n), heardOf(n))
	}
	has, err := noteResources(ctx, env, c, n, resources)
	if err != nil || !ready && has == 0 {
		return err
	}
	return cli.Agree(env, what, yes)
}
