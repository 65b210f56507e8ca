package signing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// SignedEnding is the suffix of files with submissions.
const SignedEnding = ".writ"

// ReadScript reads a script and shows its diagnostics. Only errors are returned as an error.
func ReadScript(env *cli.Env, path string, own cli.ModuleFlags) (client.Script, error) {
	modules, err := own.Modules()
	if err != nil {
		return client.Script{}, err
	}
	if scripts.IsTest(path) {
		return client.Script{}, writ.Errorf(writ.CodeUsage, "%s has tests and is not a script", path).
			WithHint("`writ test %s` runs them", path)
	}
	if strings.HasSuffix(path, SignedEnding) {
		return client.Script{}, writ.Errorf(writ.CodeUsage, "%s is already signed and not a script", path).
			WithHint("`writ submit %s` submits it", path)
	}
	script, err := client.ReadScript(path, modules)
	if err != nil {
		return script, err
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		if !slices.ContainsFunc(script.Bundle.Modules, func(s scripts.Source) bool { return s.Name == name }) {
			env.Warn("--module %s: no script imports it", name)
		}
	}
	if len(script.Report.Diagnostics) > 0 {
		fmt.Fprintln(env.Err, terminal.CleanLines(script.Report.String()))
	}
	if cli.OnGitHub() && script.Report.Errors() > 0 { // `writ check` also annotates warnings
		cli.Annotate(env, script.Report)
	}
	return script, script.Report.Err()
}
