package main

import (
	"github.com/spf13/cobra"

	"writ/identity"
)

func (a *app) nodeRemoveCommand() *cobra.Command {
	c := a.nodeDecision("remove", "Remove a node for good; its key is never admitted again")
	c.Long = `Signs that a node is none of the datacenter any more. Its key is never admitted again. You need the role admin.

Nodes that wait may have one name. So the supervisor must have signed that the node is admitted, or you say its
fingerprint.`
	return c
}

// beforeLost is what a person must know who signs that a node is lost.
const beforeLost = "turn its machine off first. Until the node hears of this, its resources and their replacements elsewhere run at the same time"

func (a *app) nodeLostCommand() *cobra.Command {
	node := nodeFlags{removed: true}
	c := &cobra.Command{
		Use:   identity.DecisionLost + " NODE",
		Short: "Remove a node that never comes back, and free the names of what it had",
		Long: `Signs that a node never comes back. It is removed for good, and the names of its resources are free. Calls that make or delete
something there are done by other nodes. Calls on a lost resource end as NODE_LOST. A node that was removed before can be
signed as lost, too: its removal alone frees no names.

Be sure that it is true: ` + beforeLost + `. If the node
comes back, its runner asks first, if its supervisor answers within 10 s. It stops all
machines, containers and databases, says so and ends. Volumes stay on its
disks. "writ node show NODE" lists them with the command that removes each.`,
		Example: "  writ node lost n1 --reason \"the machine burned\"",
		Args:    exactly("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			node.Node = args[0]
			a.Note("%s", beforeLost)
			return a.decideNode(cmd.Context(), node, func(s *identity.Statement) { s.Decision = identity.DecisionLost })
		},
	}
	node.add(a, c)
	return c
}
