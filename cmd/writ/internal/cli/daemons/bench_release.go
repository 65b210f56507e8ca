//go:build release

package daemons

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// benchCommands returns nil: release builds have no benchmarks and no systems to compare with.
func benchCommands(*cli.Env) []*cobra.Command { return nil }
