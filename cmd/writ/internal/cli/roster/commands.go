// Package roster contains the commands that create and change the roster of a cluster, and that show its content: init,
// roster, user, project, ca, coordinator, dc, pki and whoami.
package roster

import (
	"slices"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return slices.Concat(
		cli.InGroup(cli.Administration, initCommand(env)),
		cli.InGroup(cli.Administration,
			env.ClientCommands(whoamiCommand(env), coordinatorCommand(env), datacenterCommand(env), pkiCommand(env),
				userCommand(env), authorityCommand(env), projectCommand(env), rosterCommand(env))...),
	)
}
