// Package runs contains the commands that sign and submit scripts and follow their runs: submit, run, logs, payload and
// sign.
package runs

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Everyday, env.ClientCommands(
		cli.InProject(submitCommand(env)), cli.InProject(runCommand(env)), cli.InProject(logsCommand(env)),
		cli.InProject(payloadCommand(env)), cli.InProject(signCommand(env)),
	)...)
}
