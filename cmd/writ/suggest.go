package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/help"
	"writ/sal/catalog"
)

// valuesMark is the annotation of a flag with its possible values.
const valuesMark = "writ_values"

// oneOf restricts a flag to fixed values, which shells complete. checkFlags rejects other values.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	complete(cmd, flag, values...)
	flags := cmd.Flags()
	if flags.Lookup(flag) == nil {
		flags = cmd.PersistentFlags()
	}
	if err := flags.SetAnnotation(flag, valuesMark, values); err != nil {
		panic(err) // complete found the flag
	}
}

// checkValues rejects values of flags that oneOf restricts.
func checkValues(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		possible := f.Annotations[valuesMark]
		if len(possible) == 0 || err != nil {
			return
		}
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		for _, value := range given {
			if !slices.Contains(possible, value) {
				err = notPossible("--"+f.Name, value, possible)
				return
			}
		}
	})
	return err
}

// mostNamed is the number of possible values that are named beside a suggestion.
const mostNamed = 12

// notPossible is the error for a value of an enumeration that does not exist.
func notPossible(what, value string, possible []string) error {
	hint := "it must be one of " + strings.Join(possible, ", ")
	switch meant := meantWord(value, possible); {
	case len(possible) > mostNamed && meant != "":
		hint = meant
	case meant != "":
		hint = meant + "; " + hint
	}
	return writ.Errorf(writ.CodeUsage, "%s: %q is unknown", what, value).WithHint("%s", hint)
}

// meantWord returns "did you mean X?" if a candidate is close to a word, and "" otherwise.
func meantWord(word string, candidates []string) string {
	// Of equally close candidates, one of about the same length: "machine.creat" is not "machine".
	near := slices.SortedStableFunc(slices.Values(candidates), func(a, b string) int {
		return cmp.Compare(max(len(a)-len(word), len(word)-len(a)), max(len(b)-len(word), len(word)-len(b)))
	})
	if meant := catalog.Closest(word, near); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return ""
}

// suggestFlag returns the hint for an unknown flag.
func suggestFlag(cmd *cobra.Command, unknown string) string {
	var names []string
	for _, scope := range []help.Scope{help.Own, help.Client, help.Every} {
		for _, f := range help.Flags(cmd, scope) {
			names = append(names, f.Name)
		}
	}
	if meant := catalog.Closest(unknown, names); meant != "" {
		return fmt.Sprintf("did you mean --%s? (%s --help)", meant, cmd.CommandPath())
	}
	return cmd.CommandPath() + " --help"
}
