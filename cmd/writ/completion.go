package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
)

// completeParams offers the parameters of the script in the command line, and their choices. It sends no request.
func (o *orderFlags) completeParams(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 { // the flag may precede the file
		return nil, more
	}
	modules, err := o.own.Modules()
	if err != nil {
		return nil, more
	}
	script, err := client.ReadScript(args[0], modules)
	if err != nil {
		return nil, more
	}
	var all []string
	for _, p := range script.Report.Params {
		if !strings.HasPrefix(word, p.Name+"=") {
			all = append(all, cobra.CompletionWithDesc(p.Name+"=", p.Help))
			continue
		}
		for _, choice := range p.Enum {
			all = append(all, fmt.Sprintf("%s=%v", p.Name, choice))
		}
	}
	return cli.SafeCompletions(all), more
}
