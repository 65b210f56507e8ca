package author

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/diagnostic"
)

// checked is the result of a check of one file.
type checked struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	check.Report
}

// unsaved is the name of a script that is read from standard input.
const unsaved = "stdin.tengo"

func checkCommand(env *cli.Env) *cobra.Command {
	var stdin, strict bool
	var own cli.ModuleFlags
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Check scripts before they are signed",
		Long: `Checks scripts without running them. It reports all errors with their positions. It also lists the
parameters of each script and the operations that its signature will allow.

A warning, such as W0401, marks valid code that is probably a mistake. Warnings do not change the exit code unless
--strict is set. In GitHub Actions the command also annotates the files.`,
		Example: "  writ check web.tengo\n  writ check -o json *.tengo\n  writ check --stdin -o json web.tengo < unsaved",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case stdin && len(args) == 0:
				args = []string{unsaved}
			case stdin || len(args) == 0:
				if err := cli.Exactly("FILE")(cmd, args); err != nil {
					return err
				}
			}
			if err := cli.AtLeast("FILE")(cmd, args); err != nil {
				return err
			}
			return checkFiles(env, args, own, stdin, strict)
		},
	}
	cmd.Flags().BoolVar(&stdin, "stdin", false,
		"read the script from standard input; FILE sets only its name and the directory of its modules")
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings are errors")
	own.Add(cmd)
	return cmd
}

func checkFiles(env *cli.Env, paths []string, own cli.ModuleFlags, stdin, strict bool) error {
	modules, err := own.Modules()
	if err != nil {
		return err
	}
	all := []checked{}
	mistakes, warnings := 0, 0
	for _, path := range paths {
		s, err := scriptToCheck(env, path, modules, stdin)
		if err != nil {
			return err
		}
		errors := s.Report.Errors()
		mistakes += errors
		if strict {
			warnings += len(s.Report.Diagnostics) + s.Report.More - errors
		}
		all = append(all, checked{path, s.Report.OK() && (!strict || len(s.Report.Diagnostics) == 0), s.Report})
	}
	err = env.Print(terminal.View{Data: all, Names: namesWhere(all, true), Text: func(wide bool) string {
		var b strings.Builder
		for _, c := range all {
			b.WriteString(c.text(wide))
		}
		return b.String()
	}})
	if err != nil {
		return err
	}
	if cli.OnGitHub() {
		for _, c := range all {
			cli.Annotate(env, c.Report)
		}
	}
	var found []string
	if mistakes > 0 {
		found = append(found, cli.Count(mistakes, "error"))
	}
	if warnings > 0 {
		found = append(found, cli.Count(warnings, "warning"))
	}
	if len(found) > 0 {
		return writ.Errorf(writ.CodeScriptInvalid, "%s in %s", strings.Join(found, " and "),
			strings.Join(namesWhere(all, false), ", ")).
			WithHint("%s", explainHint(all, strict))
	}
	return nil
}

func scriptToCheck(env *cli.Env, path string, own client.Modules, stdin bool) (client.Script, error) {
	if !stdin {
		return client.ReadScript(path, own)
	}
	text, err := readStdin(env)
	if err != nil {
		return client.Script{}, err
	}
	return client.ReadScriptAs(path, text, own)
}

// readStdin reads a source from standard input. It reads up to one byte more than the limit of a source: the check that
// follows then reports a source that is too long, with a better message.
func readStdin(env *cli.Env) ([]byte, error) {
	text, err := env.Input(scripts.MaxSource + 1)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the standard input: %w", err)
	}
	return text, nil
}

// namesWhere returns the names of the files whose field OK equals ok.
func namesWhere(all []checked, ok bool) (names []string) {
	for _, c := range all {
		if c.OK == ok {
			names = append(names, c.File)
		}
	}
	return names
}

// explainHint returns the hint after failed checks: the command that explains the first operation with invalid
// arguments. Warnings count only if `strict` makes them errors.
func explainHint(all []checked, strict bool) string {
	for _, c := range all {
		for _, d := range c.Diagnostics {
			if d.Operation != "" && (strict || d.Severity == diagnostic.SeverityError) {
				return fmt.Sprintf("`writ explain %s` lists its arguments, and `writ explain CODE` explains each code", d.Operation)
			}
		}
	}
	return "`writ explain CODE` explains each code"
}

// text formats the diagnostics and, if the script is OK, a description of it.
func (c checked) text(wide bool) string {
	var b strings.Builder
	if len(c.Diagnostics) > 0 {
		b.WriteString(terminal.CleanLines(c.Report.String()))
		b.WriteByte('\n')
	}
	if !c.OK {
		return b.String()
	}
	var params []string
	for _, p := range c.Params {
		params = append(params, describe(p))
	}
	fmt.Fprintf(&b, "%s: ok\n", terminal.Clean(c.File))
	b.WriteString(terminal.Fields([]terminal.Field{
		{Title: "  operations", Value: strings.Join(c.Operations, " ")},
		{Title: "  destructive", Value: destroys(c.Report)},
		{Title: "  modules", Value: strings.Join(c.Modules, " ")},
		{Title: "  calls", Value: signing.NeededCalls(c.Report)},
		{Title: "  deadline", Value: signing.NeededDeadline(c.Report)},
		{Title: "  tests", Value: testNames(c.Tests)},
	}, wide))
	for _, p := range params {
		fmt.Fprintf(&b, "  -p %s\n", terminal.Clean(p))
	}
	return b.String()
}

// destroys describes the targets that a script destroys, as far as the source shows them.
func destroys(r check.Report) string {
	targets := strings.Join(r.Targets, ", ")
	switch {
	case !r.Destructive:
		return ""
	case !r.MoreTargets:
		return "yes: " + targets + "; --destructive is required"
	case targets == "":
		return "yes: targets that depend on parameters or results; --destructive is required, perhaps with the names of these targets"
	default:
		return "yes: " + targets +
			", and targets that depend on parameters or results; --destructive is required, perhaps with the names of these targets"
	}
}

// describe formats a parameter in one line: "count=2 int 1…50: how many".
func describe(p scripts.Param) string {
	kind := p.Type
	if p.Of != "" {
		kind += " of " + p.Of
	}
	switch {
	case p.Min != nil && p.Max != nil:
		kind += fmt.Sprintf(" %d…%d", *p.Min, *p.Max)
	case p.Min != nil:
		kind += fmt.Sprintf(" from %d", *p.Min)
	case p.Max != nil:
		kind += fmt.Sprintf(" to %d", *p.Max)
	}
	text := p.Name + "=…  must be given, " + kind
	if p.Default != nil {
		text = fmt.Sprintf("%s=%s  %s", p.Name, asGiven(p.Default), kind)
	}
	if p.Help != "" {
		text += ": " + p.Help
	}
	return text
}

// asGiven formats the value of a parameter in the syntax of -p.
func asGiven(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ",")
}
