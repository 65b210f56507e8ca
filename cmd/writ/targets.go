package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/identity"
)

// targetsFlag says what a script may destroy: what it destroys, if the flag stands alone, or what it names.
type targetsFlag struct{ client.Destruction }

// bareFlag is the value of a flag that stands alone.
const bareFlag = "true"

// Type is that of a flag which may stand alone.
func (f *targetsFlag) Type() string { return "bool" }

// String is what was named.
func (f *targetsFlag) String() string { return strings.Join(f.Named, ",") }

// Set takes names with commas between them, or whether anything may be destroyed.
func (f *targetsFlag) Set(value string) error {
	if said, err := strconv.ParseBool(value); err == nil {
		f.Said = said
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		if !identity.ValidTarget(name) {
			return writ.Errorf(writ.CodeUsage, "--destructive: %q names nothing that can be destroyed", name).
				WithHint("like volume/web-0, or volume/web-* with at least %d letters before the *", identity.MinTargetPrefix)
		}
		f.Named = append(f.Named, name)
	}
	f.Said = true
	return nil
}

// file is for commands that take a script and say how it is signed: exactly one file. As --destructive may stand alone, names that follow it
// without an equals sign come as another argument; they are taken as what they are, and the file becomes the first argument.
func (o *orderFlags) file(c *cobra.Command, args []string) error {
	if i := slices.IndexFunc(args, areTargets); o.destructive.Said && len(args) == 2 && i >= 0 {
		if err := o.destructive.Set(args[i]); err != nil {
			return err
		}
		args[0], args[1] = args[1-i], args[i]
		return nil
	}
	return exactly("FILE")(c, args)
}

// areTargets reports whether an argument names what may be destroyed. A file of such a name is written with ./ before it.
func areTargets(arg string) bool {
	return !slices.ContainsFunc(strings.Split(arg, ","), func(name string) bool { return !identity.ValidTarget(name) })
}
