// Package images contains the commands that build node images and serve them to machines: efi and boot.
package images

import (
	"slices"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return slices.Concat(
		cli.InGroup(cli.Administration, efiCommand(env)),
		cli.InGroup(cli.Daemons, bootCommand(env)),
	)
}
