// Package doctor contains the commands that examine an installation: doctor and support.
package doctor

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration,
		env.ClientCommands(doctorCommand(env), cli.InProject(supportCommand(env)))...)
}
