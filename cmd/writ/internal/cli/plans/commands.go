// Package plans contains the command plan.
package plans

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Everyday, env.ClientCommands(cli.InProject(planCommand(env)))...)
}
