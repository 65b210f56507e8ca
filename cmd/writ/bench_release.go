//go:build release

package main

import "github.com/spf13/cobra"

// benchCommands: a program of a release measures nothing, and has no system to compare itself with.
func (a *app) benchCommands() []*cobra.Command { return nil }
