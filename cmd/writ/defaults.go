package main

import (
	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
)

// addDefaults adds the commands help and completion of cobra and makes them reject unknown words. The output of root
// must be set before.
func addDefaults(env *cli.Env, root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error { return showHelpOf(env, root, args) }
		case "completion":
			c.Args, c.RunE = cli.NoSuchCommand, cli.MissingCommand
			for _, shell := range c.Commands() {
				shell.Args = cli.AtMost(0)
			}
		}
	}
}

// showHelpOf prints the help page of the command that the words name.
func showHelpOf(env *cli.Env, root *cobra.Command, words []string) error {
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cli.NoSuchCommand(c, rest); err != nil {
		return err
	}
	showHelp(env, c)
	return nil
}
