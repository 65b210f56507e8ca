package signing

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/identity/target"
)

// targetsFlag holds the targets that a script may destroy. Without a value, the flag allows the targets that the script
// destroys.
type targetsFlag struct{ client.Destruction }

// bareFlag is the text that pflag passes to Set for a flag without a value.
const bareFlag = "true"

// Type returns "bool", because the flag needs no value.
func (f *targetsFlag) Type() string { return "bool" }

// String returns the named targets.
func (f *targetsFlag) String() string { return strings.Join(f.Named, ",") }

// Set parses a list of targets separated by commas, or a boolean that allows or forbids all targets of the script.
func (f *targetsFlag) Set(value string) error {
	if said, err := strconv.ParseBool(value); err == nil {
		f.Said = said
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		if !target.Valid(name) {
			return writ.Errorf(writ.CodeUsage, "--destructive: %q is not a target", name).
				WithHint("like volume/web-0, or volume/web-* with at least %d letters before the *", target.MinPrefix)
		}
		f.Named = append(f.Named, name)
	}
	f.Said = true
	return nil
}

// pruneFlag holds the resources that a run deletes at its end. Without a value, the datacenter lists them.
type pruneFlag struct{ targetsFlag }

// Set parses a list of resources separated by commas, or a boolean. It rejects patterns, because the signed header
// names each resource.
func (f *pruneFlag) Set(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if strings.HasSuffix(name, "*") {
			return writ.Errorf(writ.CodeUsage, "--prune: %q is a pattern", name).
				WithHint("name each resource, like volume/web-0; `writ plan` with --prune lists them")
		}
	}
	err := f.targetsFlag.Set(value)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "--prune: %q is not a list of resources", value).
			WithHint("like volume/web-0,container/web; `writ plan` with --prune lists them")
	}
	return nil
}

// File checks the arguments of a command that takes one script. --destructive needs no value, so targets after it
// without an equals sign arrive as another argument. File moves them to the flag, and the script to the first argument.
func (o *OrderFlags) File(c *cobra.Command, args []string) error {
	if i := slices.IndexFunc(args, areTargets); o.Destructive.Said && len(args) == 2 && i >= 0 {
		if err := o.Destructive.Set(args[i]); err != nil {
			return err
		}
		args[0], args[1] = args[1-i], args[i]
		return nil
	}
	return cli.Exactly("FILE")(c, args)
}

// areTargets reports whether an argument is a list of targets. A file with such a name needs the prefix ./.
func areTargets(arg string) bool {
	return !slices.ContainsFunc(strings.Split(arg, ","), func(name string) bool { return !target.Valid(name) })
}
