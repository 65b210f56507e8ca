package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
)

// Family returns a command that only has subcommands.
func Family(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  NoSuchCommand,
		RunE:  MissingCommand,
	}
	c.AddCommand(commands...)
	return c
}

// MissingCommand returns the error for a command that only has subcommands, if none is given. Without this error, a
// shell script that takes the subcommand from an unset variable would succeed.
func MissingCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return writ.Errorf(writ.CodeUsage, "%s needs a command", cmd.CommandPath()).
		WithHint("one of %s (%s --help)", strings.Join(names, ", "), cmd.CommandPath())
}

// NoSuchCommand rejects arguments of a command that only has subcommands.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if args[0] == "" {
		return writ.Errorf(writ.CodeUsage, "COMMAND is empty").
			WithHint("perhaps a variable is not set; %s --help", cmd.CommandPath())
	}
	err := writ.Errorf(writ.CodeUsage, "unknown command %q", cmd.CommandPath()+" "+args[0])
	if hint := otherOrder(cmd, args); hint != "" {
		return err.WithHint("%s", hint)
	}
	if hint := habitHint(cmd, args[0]); hint != "" {
		return err.WithHint("%s", hint)
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
		return err.WithHint("did you mean `%s %s`?", cmd.CommandPath(), close[0])
	}
	if cmd.HasParent() && cmd.Example != "" { // it also works without a subcommand
		return err.WithHint("%s", usageHint(cmd))
	}
	return err.WithHint("`%s --help` lists the commands", cmd.CommandPath())
}

// Exactly requires the named arguments and no others. The error names the missing argument.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := AtLeast(names...)(cmd, args); err != nil {
			return err
		}
		if len(names) == 1 && strings.HasSuffix(names[0], "KIND/NAME") && len(args) == 2 && !strings.Contains(args[0], "/") {
			return writ.Errorf(writ.CodeUsage, "unexpected argument %q", args[1]).
				WithHint("did you mean `%s %s`?", cmd.CommandPath(), ShellWord(args[0]+"/"+args[1]))
		}
		return AtMost(len(names))(cmd, args)
	}
}

// AtLeast requires the named arguments. The last one may be repeated. The error names the missing or empty argument.
func AtLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return writ.Errorf(writ.CodeUsage, "%s is missing", names[len(args)]).WithHint("%s", usageHint(cmd))
		}
		if i := slices.Index(args, ""); i >= 0 && len(names) > 0 {
			return writ.Errorf(writ.CodeUsage, "%s is empty", names[min(i, len(names)-1)]).
				WithHint("perhaps a variable is not set; %s --help", cmd.CommandPath())
		}
		return nil
	}
}

// AtMost allows at most n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return writ.Errorf(writ.CodeUsage, "unexpected argument %q", args[n]).WithHint("%s", usageHint(cmd))
		}
		return nil
	}
}

// IsInterrupt reports whether a command ended because the user interrupted it.
func IsInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled))
}

// Groups of commands on the first help page.
const (
	Everyday       = "everyday"
	Administration = "admin"
	Daemons        = "daemons"
)

// InGroup puts commands into a group of the first help page.
func InGroup(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}
