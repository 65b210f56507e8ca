// Package contexts contains the commands that select a cluster and log in to it: context, login and logout.
package contexts

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(
		loginCommand(env), logoutCommand(env), contextCommand(env),
	)...)
}
