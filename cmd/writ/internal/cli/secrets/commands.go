// Package secrets contains the command secret.
package secrets

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(cli.InProject(secretCommand(env)))...)
}
