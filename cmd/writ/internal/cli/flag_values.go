package cli

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/help"
	"writ/internal/meant"
)

// Complete registers fixed values of a flag for shell completion.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was defined by the caller
	}
}

// valuesMark is the annotation of a flag with its possible values.
const valuesMark = "writ_values"

// OneOf restricts a flag to fixed values, which shells complete. CheckFlags rejects other values.
func OneOf(cmd *cobra.Command, flag string, values ...string) {
	Complete(cmd, flag, values...)
	flags := cmd.Flags()
	if flags.Lookup(flag) == nil {
		flags = cmd.PersistentFlags()
	}
	if err := flags.SetAnnotation(flag, valuesMark, values); err != nil {
		panic(err) // Complete found the flag
	}
}

// OneOfLater is OneOf with values that are computed when they are needed, because computing them takes long. The flag
// is one of the command itself.
func OneOfLater(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return values(), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag was defined by the caller
	}
	f := cmd.Flags().Lookup(flag)
	f.Value = laterValue{f.Value, values}
}

// laterValue is the value of a flag that OneOfLater restricts.
type laterValue struct {
	pflag.Value
	possible func() []string
}

// possibleValues returns the values of a flag that OneOf or OneOfLater restricts, and nil for other flags.
func possibleValues(f *pflag.Flag) []string {
	if v, ok := f.Value.(laterValue); ok {
		return v.possible()
	}
	return f.Annotations[valuesMark]
}

// checkValues rejects values of flags that OneOf or OneOfLater restricts.
func checkValues(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		possible := possibleValues(f)
		if len(possible) == 0 || err != nil {
			return
		}
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		for _, value := range given {
			if !slices.Contains(possible, value) {
				err = NotPossible("--"+f.Name, value, possible)
				return
			}
		}
	})
	return err
}

// mostNamed is the largest number of possible values that a hint lists.
const mostNamed = 12

// NotPossible returns the error for an invalid value of an enumeration.
func NotPossible(what, value string, possible []string) error {
	hint := "it must be one of " + strings.Join(possible, ", ")
	switch question := meant.Question(value, possible); {
	case len(possible) > mostNamed && question != "":
		hint = question
	case len(possible) > mostNamed:
		hint = fmt.Sprintf("it must be one of %s, … (%d in all)", strings.Join(possible[:mostNamed], ", "), len(possible))
	case question != "":
		hint = question + " I" + strings.TrimPrefix(hint, "i")
	}
	return writ.Errorf(writ.CodeUsage, "%s: %q is unknown", what, value).WithHint("%s", hint)
}

// suggestFlag returns the hint for an unknown flag.
func suggestFlag(cmd *cobra.Command, unknown string) string {
	if hint := flagHabit(cmd, unknown); hint != "" {
		return hint
	}
	var names []string
	for _, scope := range []help.Scope{help.Own, help.Client, help.Every} {
		for _, f := range help.Flags(cmd, scope) {
			names = append(names, f.Name)
		}
	}
	if closest := meant.Closest(unknown, names); closest != "" {
		return fmt.Sprintf("did you mean --%s? (%s --help)", closest, cmd.CommandPath())
	}
	if cmd.Flag("param") != nil && token.IsIdentifier(unknown) {
		return fmt.Sprintf("-p %s=VALUE sets a parameter of the script (%s --help)", unknown, cmd.CommandPath())
	}
	return cmd.CommandPath() + " --help"
}
