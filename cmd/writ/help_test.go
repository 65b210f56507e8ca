package main

import (
	"slices"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ/cmd/writ/internal/help"
)

func helpOf(c *cobra.Command, width int) string {
	return help.Page(c, help.Style{Width: width, Title: func(s string) string { return s }, Tidy: homeless()})
}

// allCommands returns all visible commands, including the commands of cobra.
func allCommands() []*cobra.Command {
	root := commandTree()[0]
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	all := []*cobra.Command{root}
	for i := 0; i < len(all); i++ {
		for _, c := range all[i].Commands() {
			if !c.Hidden {
				all = append(all, c)
			}
		}
	}
	return all
}

func TestHelpFitsItsWidth(t *testing.T) {
	for _, c := range allCommands() {
		for _, width := range []int{80, 120} {
			for line := range strings.Lines(helpOf(c, width)) {
				if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width {
					t.Errorf("%s --help has a line of %d columns, want at most %d: %s", c.CommandPath(), w, width, line)
				}
			}
		}
	}
}

// An example with line breaks is equal to a shell.
func TestExamplesInHelpAreComplete(t *testing.T) {
	for _, c := range allCommands() {
		page := strings.ReplaceAll(helpOf(c, 80), " \\\n", " ")
		have := strings.Join(strings.Fields(page), " ")
		for line := range strings.SplitSeq(c.Example, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			if want := strings.Join(strings.Fields(line), " "); !strings.Contains(have, want) {
				t.Errorf("%s --help lacks the example %q:\n%s", c.CommandPath(), want, page)
			}
		}
	}
}

func TestFlagsNameTheirValues(t *testing.T) {
	for _, c := range allCommands() {
		for _, f := range help.Flags(c, help.Own) {
			word := help.Word(f)
			if word == "STRING" || word == "" != (f.Value.Type() == "bool") {
				t.Errorf("%s --%s has the word %q for a %s", c.CommandPath(), f.Name, word, f.Value.Type())
			}
			if !strings.Contains(strings.Join(strings.Fields(helpOf(c, 80)), " "), help.Names(f)) {
				t.Errorf("the help of %s lacks %s", c.CommandPath(), help.Names(f))
			}
		}
	}
}

func TestSharedFlagsAreExplainedOnce(t *testing.T) {
	all := allCommands()
	for _, f := range help.ClientFlags(all[0]) {
		for _, c := range all {
			own := slices.ContainsFunc(help.Flags(c, help.Own), func(o *pflag.Flag) bool { return o.Name == f.Name })
			text := strings.Join(strings.Fields(helpOf(c, 80)), " ")
			explained := strings.Contains(text, help.Names(f)+" "+help.Usage(f, homeless()))
			if want := !c.HasParent(); explained != want && !own {
				t.Errorf("%s --help explains --%s: %v, want %v", c.CommandPath(), f.Name, explained, want)
			}
		}
	}
	for _, path := range []string{"run list", "submit"} {
		c, _, err := all[0].Find(strings.Fields(path))
		if err != nil || len(help.Flags(c, help.Client)) != len(help.ClientFlags(all[0])) {
			t.Errorf("%s has the shared flags %v, %v", path, help.Shared(c), err)
		}
	}
}
