// Package services contains the commands about a running service: status, logs and exec.
package services

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Everyday, env.ClientCommands(
		cli.InProject(statusCommand(env)), cli.InProject(logsCommand(env)), cli.InProject(execCommand(env)),
	)...)
}
