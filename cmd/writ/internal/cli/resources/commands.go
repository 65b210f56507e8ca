// Package resources contains the commands about the content of datacenters: resource, deployment and usage.
package resources

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(
		cli.InProject(resourceCommand(env)), cli.InProject(deploymentCommand(env)), cli.InProject(usageCommand(env)),
	)...)
}
