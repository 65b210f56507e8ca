package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/terminal"
)

// printList prints a list. People are told of an empty one, beside its titles, that there is nothing and which command makes the first item: that is
// what none says. Programs get the empty list only.
func (a *app) printList(list terminal.View, none string) error {
	if err := a.Print(list); err != nil {
		return err
	}
	if list.Empty() && (a.Format == terminal.Table || a.Format == terminal.Wide) {
		a.Note("%s", none)
	}
	return nil
}

// modes are flags of lists that select nothing: they say what is listed, and how much of it.
var modes = []string{"orphans", "nodes", "by", "limit", "why"}

// unlessSelected is a sentence for printList, of a command whose flags can select. If some are given, something may be there that they leave out.
func unlessSelected(cmd *cobra.Command, none string) string {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own := cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil; (own || f.Name == "project") && !slices.Contains(modes, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) == 0 {
		return none
	}
	return "nothing matches " + strings.Join(given, " and ")
}

// answered returns those of the owners of a list that could be asked, mostly datacenters, and warns of the others. The error is for the end of the
// command: that of the first owner if none could be asked, so that there is no list, or of an owner for whom a coordinator shows what is not signed.
func answered[T any](a *app, owners []T, failure func(T) (name string, err *writ.Error)) (those []T, err error) {
	var failed []*writ.Error
	for _, o := range owners {
		name, why := failure(o)
		switch {
		case why == nil:
			those = append(those, o)
		case why.Code == writ.CodeUnverified: // it names its owner
			err = cmp.Or(err, error(why))
		default:
			said := *why
			said.Message = name + " cannot be asked: " + why.Message
			failed = append(failed, &said)
		}
	}
	if err == nil && len(those) == 0 && len(failed) > 0 {
		err, failed = failed[0], failed[1:]
	}
	for _, f := range failed {
		a.Warn("%v", f)
	}
	return those, err
}
