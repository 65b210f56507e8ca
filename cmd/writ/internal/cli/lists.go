package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/terminal"
)

// PrintList prints a list. For an empty list, tables are followed by the sentence in `none`, which names the command
// that creates the first item. Other formats contain only the empty list.
func (e *Env) PrintList(list terminal.View, none string) error {
	if err := e.Print(list); err != nil {
		return err
	}
	if list.Empty() && (e.Format == terminal.Table || e.Format == terminal.Wide) {
		e.Note("%s", none)
	}
	return nil
}

// modes lists flags of list commands that do not select items: they change the kind or the number of the items.
var modes = []string{"orphans", "nodes", "by", "limit", "why", "all"}

// UnlessSelected returns the sentence that PrintList prints for an empty list. If the command line has flags that
// select items, the sentence names these flags. Otherwise it is `none`.
func UnlessSelected(cmd *cobra.Command, none string) string {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own := cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil; (own || f.Name == "project") &&
			!slices.Contains(modes, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) == 0 {
		return none
	}
	return "nothing matches " + strings.Join(given, " and ")
}

// Answered returns the owners of a list (mostly datacenters) that answered, and warns of the others. The command must
// return err after it has printed the list. err is the error of the first owner if none answered, or the error of an
// owner with an invalid signature.
func Answered[T any](env *Env, owners []T, failure func(T) (name string, err *writ.Error)) (those []T, err error) {
	var failed []*writ.Error
	for _, o := range owners {
		name, why := failure(o)
		switch {
		case why == nil:
			those = append(those, o)
		case why.Code == writ.CodeUnverified: // the error names its owner
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
		env.Warn("%v", f)
	}
	return those, err
}

// Column returns a column of a table.
func Column[T any](title string, cell func(T) string) terminal.Column[T] {
	return terminal.Column[T]{Title: title, Cell: cell}
}

// Wide returns a column that only wide tables show.
func Wide[T any](title string, cell func(T) string) terminal.Column[T] {
	return terminal.Column[T]{Title: title, Cell: cell, Wide: true}
}

// Minor makes a column optional in a narrow terminal. Columns with a higher rank are dropped first.
func Minor[T any](rank int, c terminal.Column[T]) terminal.Column[T] {
	c.Minor = rank
	return c
}

// Whole prevents truncation of the cells of a column, because users copy them, or because a truncated time is useless.
func Whole[T any](c terminal.Column[T]) terminal.Column[T] {
	c.Whole = true
	return c
}

// Wraps lets the cells of a column continue on further lines in a narrow terminal, because users copy their words.
func Wraps[T any](c terminal.Column[T]) terminal.Column[T] {
	c.Wraps = true
	return c
}

// IDs marks a column of ids. Commands accept prefixes of these ids.
func IDs[T any](c terminal.Column[T]) terminal.Column[T] {
	c.ID = true
	return c
}
