// Package author contains the commands for authors of scripts: check, fmt, test, explain and library. They need no
// cluster.
package author

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Everyday, checkCommand(env), fmtCommand(env), testCommand(env), explainCommand(env),
		libraryCommand(env))
}
