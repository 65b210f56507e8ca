package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	return "nothing is there for " + strings.Join(given, " and ")
}
