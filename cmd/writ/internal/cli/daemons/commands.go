// Package daemons contains the commands that run daemons, measure them and back up their data: coord, supervisor,
// runner, dev, demo, bench, backup, restore and webhook.
package daemons

import (
	"slices"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return slices.Concat(
		cli.InGroup(cli.Administration, backupCommand(env), restoreCommand(env)),
		cli.InGroup(cli.Daemons, demoCommand(env), devCommand(env), coordCommand(env), supervisorCommand(env),
			runnerCommand(env), webhookCommand(env)),
		cli.InGroup(cli.Daemons, benchCommands(env)...),
	)
}
