package author

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
)

// explanation describes a code of an error or of a diagnostic.
type explanation struct {
	Code      string    `json:"code"`
	Kind      writ.Kind `json:"kind,omitempty"`
	Severity  string    `json:"severity,omitempty"` // of a diagnostic
	Title     string    `json:"title,omitempty"`    // of a diagnostic
	Retryable bool      `json:"retryable"`
	Status    int       `json:"status,omitempty"`
	Exit      int       `json:"exit"`
	Explain   string    `json:"explain"`
	Wrong     string    `json:"wrong,omitempty"` // of a diagnostic: an example that causes it
	Right     string    `json:"right,omitempty"` // of a diagnostic: the corrected example
}

func explainCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE|OPERATION|MODULE]",
		Short: "Explain a code or an operation",
		Long: `Explains the meaning and the remedy of an error code (NO_CAPACITY) or of a diagnostic of scripts (W0104).
Without an argument it lists all codes. For a module (container) it lists the operations.

For an operation (container.create) it shows the arguments with their types and limits, the result and the errors. It
also shows the possible loss of data, and an example.`,
		Example: "  writ explain NO_CAPACITY\n  writ explain W0104\n  writ explain container.create",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				if op, ok := catalog.Lookup(strings.ToLower(args[0] + "." + args[1])); ok {
					return writ.Errorf(writ.CodeUsage, "unexpected argument %q", args[1]).
						WithHint("did you mean `writ explain %s`?", op.Name())
				}
			}
			return cli.AtMost(1)(cmd, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return slices.Concat(codeNames(), everyOperation()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return env.Print(listExplanations())
			}
			if op, ok := catalog.Lookup(strings.ToLower(args[0])); ok {
				return env.Print(explainOperation(op).view(env.Columns))
			}
			if e, ok := explainCode(strings.ToUpper(args[0])); ok {
				return env.Print(e.view(env.Columns))
			}
			if ops := catalog.Of(strings.ToLower(args[0])); len(ops) > 0 {
				return env.Print(listOperations(ops))
			}
			return unexplained(args[0])
		},
	}
}

// unexplained returns the error for a word that is neither a code nor an operation.
func unexplained(what string) error {
	err := writ.Errorf(writ.CodeNotFound, "unknown code or operation %q", what)
	module, _, isMember := strings.Cut(strings.ToLower(what), ".")
	if closest := meant.Closest(what, everyOperation()); closest != "" && isMember {
		return err.WithHint("did you mean %q?", closest)
	}
	if closest := meant.Closest(what, lowered(codeNames())); closest != "" && !isMember {
		return err.WithHint("did you mean `writ explain %s`?", strings.ToUpper(closest))
	}
	if members := interpreter.MemberText(module); members != "" {
		return err.WithHint("%s", members)
	}
	return err.WithHint("`writ explain` lists the codes; the operations are in the modules %s: `writ explain MODULE` lists its operations",
		strings.Join(catalog.Modules(), ", "))
}

func lowered(all []string) []string {
	var lower []string
	for _, text := range all {
		lower = append(lower, strings.ToLower(text))
	}
	return lower
}

func codeNames() []string {
	var names []string
	for _, c := range writ.Codes {
		names = append(names, string(c.Code))
	}
	for _, c := range diagnostic.Codes {
		names = append(names, c.Code)
	}
	return names
}

// explainCode looks up a code of an error or of a diagnostic.
func explainCode(code string) (explanation, bool) {
	if i := slices.IndexFunc(writ.Codes, func(c writ.CodeInfo) bool { return string(c.Code) == code }); i >= 0 {
		c := writ.Codes[i]
		return explanation{
			Code: code, Kind: c.Kind, Retryable: c.Retryable, Status: c.Status, Exit: c.Exit, Explain: c.Explain(),
		}, true
	}
	if c, ok := diagnostic.Lookup(code); ok {
		e := explanation{
			Code: code, Severity: string(c.Severity), Title: c.Title, Explain: c.Explain, Wrong: c.Wrong, Right: c.Right,
		}
		if c.Severity == diagnostic.SeverityError {
			e.Exit = writ.CodeScriptInvalid.Info().Exit
		}
		return e, true
	}
	return explanation{}, false
}

// view shows an explanation in lines of at most width columns; 0 means no limit.
func (e explanation) view(width int) terminal.View {
	return terminal.View{Data: e, Names: []string{e.Code}, Text: func(bool) string {
		var b strings.Builder
		text := terminal.Hanging("", 0, width, e.Explain)
		if e.Title != "" {
			fmt.Fprintf(&b, "%s (%s): %s\n\n%s\nWrong:\n\n%s\n\nRight:\n\n%s\n", e.Code, e.Severity, e.Title, text,
				indented(e.Wrong), indented(e.Right))
			return b.String()
		}
		again := "the same request will fail again"
		if e.Retryable {
			again = "the same request may succeed later"
		}
		fmt.Fprintf(&b, "%s (%s)\n\n%s\n%s; exit code %d, HTTP status %d\n", e.Code, e.Kind, text, again, e.Exit, e.Status)
		return b.String()
	}}
}

// indented indents an example.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.ReplaceAll(text, "\t", "  "), "\n", "\n    ")
}

func listExplanations() terminal.View {
	var all []explanation
	for _, name := range codeNames() {
		e, _ := explainCode(name) // codeNames lists only known codes
		all = append(all, e)
	}
	return terminal.List(all, all, func(e explanation) string { return e.Code },
		cli.Column("CODE", func(e explanation) string { return e.Code }),
		cli.Column("EXIT", func(e explanation) string { return fmt.Sprint(e.Exit) }),
		cli.Column("MEANING", firstSentence),
	)
}

// listedOperation is the JSON and YAML form of an operation in a list.
type listedOperation struct {
	Operation string `json:"operation"`
	Help      string `json:"help"`
}

func listOperations(ops []*catalog.Operation) terminal.View {
	var all []listedOperation
	for _, op := range ops {
		all = append(all, listedOperation{op.Name(), op.Help})
	}
	return terminal.List(all, all, func(o listedOperation) string { return o.Operation },
		cli.Column("OPERATION", func(o listedOperation) string { return o.Operation }),
		cli.Column("MEANING", func(o listedOperation) string { return o.Help }),
	)
}

func firstSentence(e explanation) string {
	if e.Title != "" {
		return e.Title
	}
	if i := strings.Index(e.Explain, ". "); i > 0 {
		return e.Explain[:i+1]
	}
	return e.Explain
}
