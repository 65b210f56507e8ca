// Package help writes help pages of commands, for a terminal and for man(1). It lists the flags of a command before the
// flags that clients or all commands share. It must not know any command.
package help

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Scope is the set of commands that have a flag.
type Scope string

// The scopes.
const (
	Own    Scope = ""       // one command
	Client Scope = "client" // each command that talks to a cluster
	Every  Scope = "every"  // each command
)

const (
	scopeMark  = "writ_scope"
	unusedMark = "writ_unused"
)

// Mark puts the named flags into a scope. All commands share one explanation of such a flag.
func Mark(flags *pflag.FlagSet, scope Scope, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, scopeMark, []string{string(scope)}); err != nil {
			panic(err) // no such flag: a mistake in this program
		}
	}
}

// Unused declares the shared flags that a command and its subcommands do not read. It replaces the declaration of the
// command's parent.
func Unused(c *cobra.Command, names ...string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[unusedMark] = strings.Join(names, " ")
}

// DeclaresUnused reports whether Unused was called for the command.
func DeclaresUnused(c *cobra.Command) bool {
	_, declared := c.Annotations[unusedMark]
	return declared
}

// IsUnused reports whether a command has a shared flag that it does not read.
func IsUnused(c *cobra.Command, f *pflag.Flag) bool {
	if scopeOf(f) == Own {
		return false
	}
	for ; c != nil; c = c.Parent() {
		if names, declared := c.Annotations[unusedMark]; declared {
			return slices.Contains(strings.Fields(names), f.Name)
		}
	}
	return false
}

// Flags returns the shown flags of a command that have this scope, sorted by name. It omits unused flags.
func Flags(c *cobra.Command, scope Scope) (flags []*pflag.Flag) {
	c.InitDefaultHelpFlag()
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.AddFlagSet(c.LocalFlags())
	all.AddFlagSet(c.InheritedFlags())
	all.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && scopeOf(f) == scope && !IsUnused(c, f) {
			flags = append(flags, f)
		}
	})
	return flags
}

func scopeOf(f *pflag.Flag) Scope {
	switch mark := f.Annotations[scopeMark]; {
	case len(mark) > 0:
		return Scope(mark[0])
	case f.Name == "help":
		return Every
	}
	return Own
}

// ClientFlags returns the flags with scope Client, taken from the subcommand of root that has most of them.
func ClientFlags(root *cobra.Command) (all []*pflag.Flag) {
	for _, c := range root.Commands() {
		if flags := Flags(c, Client); len(flags) > len(all) {
			all = flags
		}
	}
	return all
}

// Names returns a flag as people type it: "-o, --output FORMAT".
func Names(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	word := Word(f)
	switch {
	case word == "":
		return name
	case f.NoOptDefVal != "":
		return name + "[=" + word + "]"
	}
	return name + " " + word
}

// Usage returns the meaning of a flag and its default. tidy shortens paths.
func Usage(f *pflag.Flag, tidy *strings.Replacer) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return tidy.Replace(f.Usage)
	}
	return tidy.Replace(f.Usage + " (default " + f.DefValue + ")")
}
