package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/help"
)

// clientFlags lists the flags of ClientCommands.
var clientFlags = []string{"config", "context", "server", "cluster", "project", "key"}

// InProject declares that a command and its subcommands read --project. Other commands reject the flag.
func InProject(c *cobra.Command) *cobra.Command {
	help.Unused(c)
	return c
}

// OnlyClientFlags declares that a command reads these flags of clients and rejects the others.
func OnlyClientFlags(c *cobra.Command, names ...string) *cobra.Command {
	help.Unused(c, slices.DeleteFunc(slices.Clone(clientFlags),
		func(name string) bool { return slices.Contains(names, name) })...)
	return c
}

// NoProject returns an error if --project is on the command line. `with` is the other flag, which makes the command
// ignore --project.
func NoProject(cmd *cobra.Command, with string) error {
	if f := cmd.Flag("project"); f == nil || !IsTyped(f) {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "%s does not use --project", with).WithHint("leave out one of them")
}

// NoClient returns an error if the command line has a flag of clients. It is for a command that needs a cluster only if
// the flag named in `without` is set.
func NoClient(cmd *cobra.Command, without string) error {
	for _, name := range clientFlags {
		if f := cmd.Flag(name); f != nil && IsTyped(f) {
			return writ.Errorf(writ.CodeUsage, "%s without %s does not use --%s", cmd.CommandPath(), without, name).
				WithHint("add %s, or leave out --%s", without, name)
		}
	}
	return nil
}

// checkUnused returns an error if the command line has a shared flag that the command does not read. It accepts the
// environment variable of such a flag, because other commands read it.
func checkUnused(cmd *cobra.Command) error {
	var unused []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if help.IsUnused(cmd, f) && IsTyped(f) {
			unused = append(unused, "--"+f.Name)
		}
	})
	if len(unused) == 0 {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "%s does not use %s", cmd.CommandPath(), strings.Join(unused, " and ")).
		WithHint("leave out %s; `%s --help` lists the flags of the command", strings.Join(unused, " and "),
			cmd.CommandPath())
}
