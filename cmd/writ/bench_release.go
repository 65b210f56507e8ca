//go:build release

package main

import "github.com/spf13/cobra"

// benchCommands returns nil: release builds have no benchmarks and no systems to compare with.
func (a *app) benchCommands() []*cobra.Command { return nil }
