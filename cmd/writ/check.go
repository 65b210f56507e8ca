package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// checked is what a check found of one file.
type checked struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	scripts.Report
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE…",
		Short: "Check scripts before they are signed",
		Long: `Checks scripts without running anything: everything that is wrong is said at once, each with its place. It also tells what a
script is: its parameters and the operations that its signature will allow.

In GitHub Actions it annotates the files besides.`,
		Example: "  writ check web.tengo\n  writ check -o json *.tengo",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("FILE")(cmd, args)
			}
			return a.check(args)
		},
	}
}

func (a *app) check(paths []string) error {
	all := []checked{}
	mistakes := 0
	for _, path := range paths {
		s, err := client.ReadScript(path)
		if err != nil {
			return err
		}
		all = append(all, checked{path, s.Report.OK(), s.Report})
		mistakes += s.Report.Errors()
	}
	err := a.Print(terminal.View{Data: all, Names: okNames(all), Text: func(wide bool) string {
		var b strings.Builder
		for _, c := range all {
			b.WriteString(c.text(wide))
		}
		return b.String()
	}})
	if err != nil {
		return err
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		a.annotate(all)
	}
	if mistakes > 0 {
		return writ.Errorf(writ.CodeScriptInvalid, "%s in %s", count(mistakes, "error"), strings.Join(badNames(all), ", ")).
			WithHint("`writ explain CODE` tells more about each")
	}
	return nil
}

func okNames(all []checked) (names []string) {
	for _, c := range all {
		if c.OK {
			names = append(names, c.File)
		}
	}
	return names
}

func badNames(all []checked) (names []string) {
	for _, c := range all {
		if !c.OK {
			names = append(names, c.File)
		}
	}
	return names
}

// text shows the diagnostics, or what the script is.
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
		{Title: "  destructive", Value: destroys(c.Destructive)},
		{Title: "  modules", Value: strings.Join(c.Modules, " ")},
	}, wide))
	for _, p := range params {
		fmt.Fprintf(&b, "  -p %s\n", terminal.Clean(p))
	}
	return b.String()
}

func destroys(yes bool) string {
	if yes {
		return "yes: it may delete or overwrite data, so --destructive must be said"
	}
	return ""
}

// describe shows a parameter in one line: "count=2  int 1…50: how many".
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
		text = fmt.Sprintf("%s=%v  %s", p.Name, p.Default, kind)
	}
	if p.Help != "" {
		text += ": " + p.Help
	}
	return text
}

// annotate writes the diagnostics in the form that GitHub shows beside the lines of a file.
func (a *app) annotate(all []checked) {
	escape := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	for _, c := range all {
		for _, d := range c.Diagnostics {
			fmt.Fprintf(a.Err, "::%s file=%s,line=%d,col=%d,title=%s::%s\n",
				d.Severity, escape.Replace(c.File), d.Line, d.Column, d.Code, escape.Replace(d.Message))
		}
	}
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
