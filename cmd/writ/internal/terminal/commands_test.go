package terminal

import (
	"fmt"
	"strings"
	"testing"

	"writ"
)

// Promise: Terminals and output: Command output contains no workflow command for GitHub Actions, Azure Pipelines or
// TeamCity.
// How: In their jobs writ breaks each marker with a space, in JSON with an escape.
// Also: TestOtherTextInCIJobsIsUnchanged, TestScripts/ci.
func TestNoTextIsACommandToACISystem(t *testing.T) {
	commands := []string{"::add-mask::x", "##[add-mask]x", "##vso[task.setvariable variable=PATH]/x", "##teamcity[buildStop]", "###[group]x", "#\u00a0##[group]x"}
	is := func(line string) bool { // as the runners of these systems parse it
		return strings.HasPrefix(strings.TrimSpace(line), "::") || bracketed.MatchString(line)
	}
	for _, environ := range []string{"GITHUB_ACTIONS=true", "TF_BUILD=True", "TEAMCITY_VERSION=2026"} {
		for _, format := range []Format{Table, JSON, YAML} {
			term, out, errs := newTest(t, environ)
			term.Format = format
			for _, c := range commands {
				for _, space := range []string{"", "  ", "\u00a0\t"} {
					text := "said\n" + space + c
					term.Note("%s", text)
					term.Warn("%s", text)
					term.Fail(writ.Errorf(writ.CodeUsage, "%s", text).WithHint("%s", text))
					fmt.Fprint(term.Out, space)
					for _, r := range c { // a guest's output arrives in small pieces
						fmt.Fprint(term.Out, string(r))
					}
					fmt.Fprintln(term.Out)
					_ = term.PrintLine(c)
					_ = term.Print(View{Data: map[string]string{"a": text}, Text: func(bool) string { return text + "\n" }})
				}
			}
			for line := range strings.Lines(out() + errs()) {
				if is(line) {
					t.Errorf("%s, %s: %q is a command", environ, format, line)
				}
			}
			term.Command("::error title=x::y")
			if said := errs(); !strings.HasSuffix(said, "\n::error title=x::y\n") {
				t.Errorf("the command of a command is %q", said[len(said)-40:])
			}
		}
	}
}

func TestOtherTextInCIJobsIsUnchanged(t *testing.T) {
	text := "### writ plan: 1 to create\n  at a:1:2: x::y\n # a [b] ##\n[c]\n\U0001f600 1::2\n"
	term, out, _ := newTest(t, "GITHUB_ACTIONS=true")
	fmt.Fprint(term.Out, text)
	if got := out(); got != text {
		t.Errorf("%q becomes %q", text, got)
	}
	term, out, _ = newTest(t)
	fmt.Fprintln(term.Out, "::1 ##[x]")
	if got := out(); got != "::1 ##[x]\n" {
		t.Errorf("elsewhere it is %q", got)
	}
}
