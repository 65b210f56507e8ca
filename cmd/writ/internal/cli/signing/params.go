package signing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/yamltext"
	"writ/scripts"
)

// completeParams offers the parameters of the script in the command line, and their choices. It sends no request.
func (o *OrderFlags) completeParams(
	_ *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 { // the flag may precede the file
		return nil, more
	}
	modules, err := o.Own.Modules()
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

// maxParams limits a file with parameters, in bytes. A signed text has at most 64 KiB; YAML adds comments.
const maxParams = 256 << 10

// readParamsFile reads the parameters of a script from a YAML or JSON file. Errors name the file.
func readParamsFile(in *terminal.Terminal, path string, known scripts.Params) (map[string]any, error) {
	text, err := in.ReadFile(path, maxParams)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the parameters: %w", err).
			WithHint("--params names a file (YAML or JSON) with a line for each parameter: count: 3")
	}
	if len(text) > maxParams {
		return nil, writ.Errorf(writ.CodeUsage, "the parameters in %s have more than %d KiB", path, maxParams>>10)
	}
	v, err := yamltext.Read(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the parameters in %s cannot be read: %v", path, err).
			WithHint("--params names a file (YAML or JSON) with a line for each parameter: count: 3")
	}
	values, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the parameters in %s are not names with values", path).
			WithHint("write a line for each: count: 3")
	}
	given, err := known.FromFile(values)
	if e, ok := errors.AsType[*writ.Error](err); ok {
		return nil, writ.Errorf(e.Code, "%s: %s", path, e.Message).WithHint("%s", e.Hint)
	}
	return given, err
}
