package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/internal/meant"
)

// FlagError returns the usage error for an invalid or unknown flag, with a hint about the accepted values.
func FlagError(cmd *cobra.Command, err error) error {
	if said, ok := errors.AsType[*writ.Error](err); ok { // a flag type of this package returns the complete error
		return said
	}
	e := writ.Errorf(writ.CodeUsage, "%v", err)
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return e.WithHint("%s", unknownFlagHint(cmd, unknown))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return e.WithHint("%s", valueHint(cmd, missing.GetFlag()))
	}
	value, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if !isValue {
		return e.WithHint("%s --help", cmd.CommandPath())
	}
	if value.GetFlag().Value.Type() == "duration" {
		e = writ.Errorf(writ.CodeUsage, "--%s must be a duration such as 30s, 5m or 2h; got %q", value.GetFlag().Name,
			value.GetValue())
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		e = writ.Errorf(writ.CodeUsage, "--%s: %s", value.GetFlag().Name, unparsed(value.GetFlag(), number))
	}
	if question := meant.Question(value.GetValue(), possibleValues(value.GetFlag())); question != "" {
		return e.WithHint("%s (%s --help)", question, cmd.CommandPath())
	}
	return e.WithHint("--%s: %s (%s --help)", value.GetFlag().Name, value.GetFlag().Usage, cmd.CommandPath())
}

// valueHint returns the hint for a flag without a value: an example with this flag, or else its meaning.
func valueHint(cmd *cobra.Command, f *pflag.Flag) string {
	for line := range strings.SplitSeq(cmd.Example, "\n") {
		if line = strings.TrimSpace(line); strings.Contains(line, "--"+f.Name+" ") && !strings.Contains(line, "`") {
			return "for example `" + line + "` (" + cmd.CommandPath() + " --help)"
		}
	}
	return fmt.Sprintf("--%s: %s (%s --help)", f.Name, f.Usage, cmd.CommandPath())
}

// unknownFlagHint returns the hint for an unknown flag, which may be a file whose name begins with a hyphen.
func unknownFlagHint(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	letters := unknown.GetSpecifiedShortnames()
	if letters == "" {
		return suggestFlag(cmd, unknown.GetSpecifiedName())
	}
	if _, err := os.Stat("-" + letters); err == nil {
		return fmt.Sprintf("`%s -- %s` names the file", cmd.CommandPath(), ShellWord("-"+letters))
	}
	return cmd.CommandPath() + " --help"
}

// unparsed explains why a text is not a valid value of a flag. strconv parses numbers and booleans.
func unparsed(f *pflag.Flag, err *strconv.NumError) string {
	if f.Value.Type() == "bool" {
		return strconv.Quote(err.Num) + " is neither true nor false"
	}
	if errors.Is(err.Err, strconv.ErrRange) {
		return err.Num + " is out of range"
	}
	return strconv.Quote(err.Num) + " is not a whole number"
}

// emptyFlag returns the name of a flag that was set to an empty text, for example from an unset variable of a CI job.
// The empty text would make the command list everything, omit the parameters, or use the current context.
func emptyFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if isEmpty(f.Value) && !mayBeEmpty(cmd, f.Name) {
			name = f.Name
		}
	})
	return name
}

// isEmpty reports whether the value of a flag is an empty text, or a list that is empty or has an empty item.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return v.Type() == "string" && v.String() == ""
}

// mayBeEmpty reports whether a flag accepts an empty text. Daemons accept it, because it disables a default.
func mayBeEmpty(cmd *cobra.Command, flag string) bool {
	return flag == "reason" || cmd.GroupID == Daemons && flag != "dc"
}

// CheckFlags returns an error if a required flag is missing, the value of a flag is empty, the command does not read a
// flag, a value is invalid, or flags exclude each other.
func CheckFlags(cmd *cobra.Command) error {
	if name := emptyFlag(cmd); name != "" {
		return writ.Errorf(writ.CodeUsage, "--%s is empty", name).
			WithHint("give a value, or leave the flag out; perhaps a variable is not set")
	}
	if err := checkUnused(cmd); err != nil {
		return err
	}
	if err := checkValues(cmd.Flags()); err != nil {
		return err
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch len(missing) {
	case 0:
	case 1:
		return writ.Errorf(writ.CodeUsage, "%s is missing", missing[0]).WithHint("%s", usageHint(cmd))
	default:
		return writ.Errorf(writ.CodeUsage, "%s are missing", strings.Join(missing, " and ")).
			WithHint("%s --help", cmd.CommandPath())
	}
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	said := err.Error() // ends with "[by nodes] were all set"
	if _, names, ok := strings.Cut(said, "; ["); ok {
		names, _, _ = strings.Cut(names, "]")
		said = "--" + strings.Join(strings.Fields(names), " and --") + " exclude each other"
	}
	return writ.Errorf(writ.CodeUsage, "%s", said).WithHint("%s --help", cmd.CommandPath())
}
