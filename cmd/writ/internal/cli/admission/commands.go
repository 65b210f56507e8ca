// Package admission contains the commands that admit machines as nodes: token and batch.
package admission

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(tokenCommand(env), batchCommand(env))...)
}
