package help

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ/cmd/writ/internal/terminal"
)

// Style holds the width, the titles and the paths of a page.
type Style struct {
	Width int                   // columns of a line
	Title func(s string) string // paints a title
	Tidy  *strings.Replacer     // shortens paths in the texts of flags
}

const indent = 2

// Page returns the help of a command. No line is wider than the style allows.
func Page(c *cobra.Command, style Style) string {
	p := &page{Style: style}
	p.text(c)
	p.section("Usage")
	for i, line := range wrap(UseLine(c), style.Width-3*indent) {
		p.line(strings.Repeat(" ", indent*min(1+2*i, 3)) + line)
	}
	if c.Example != "" {
		p.section("Examples")
		for _, line := range Example(c, style.Width-indent) {
			p.line(strings.TrimRight("  "+line, " "))
		}
	}
	p.commands(c)
	p.flags("Flags", Flags(c, Own))
	if !c.HasParent() {
		p.flags("Flags of every command", Flags(c, Every))
		p.flags("Flags of clients, the commands that talk to a cluster", ClientFlags(c))
		return p.String()
	}
	if shared := Shared(c); len(shared) > 0 {
		p.section("Shared flags (explained by `" + c.Root().Name() + " --help`)")
		for i := range shared[1:] {
			shared[i] += ","
		}
		for _, line := range terminal.WrapWords(slices.Values(shared), style.Width-indent) {
			p.line("  " + line)
		}
	}
	return p.String()
}

// Shared names the flags that a command has in common with others. The page of the root explains them.
func Shared(c *cobra.Command) (names []string) {
	for _, f := range append(Flags(c, Client), Flags(c, Every)...) {
		names = append(names, strings.TrimSuffix("--"+f.Name+" "+Word(f), " "))
	}
	return names
}

// UseLine returns the usage line of a command: "writ run list [flags]".
func UseLine(c *cobra.Command) string {
	switch {
	case c.HasAvailableSubCommands() && c.HasParent() && len(Flags(c, Own)) > 0: // it also runs without a subcommand
		return c.CommandPath() + " [COMMAND] [flags]"
	case c.HasAvailableSubCommands():
		return c.CommandPath() + " COMMAND [flags]"
	}
	return c.UseLine()
}

// Example returns the lines of a command's examples, without indentation, in at most width columns.
func Example(c *cobra.Command, width int) (lines []string) {
	for line := range strings.SplitSeq(strings.Trim(c.Example, "\n"), "\n") {
		lines = append(lines, wrapExample(strings.TrimPrefix(line, "  "), width)...)
	}
	return lines
}

type page struct {
	Style
	strings.Builder
}

func (p *page) line(text string) { p.WriteString(text + "\n") }

func (p *page) section(title string) { p.line("\n" + p.Title(title)) }

// text writes the description. Indented lines are code and keep their breaks.
func (p *page) text(c *cobra.Command) {
	for line := range strings.SplitSeq(strings.TrimSpace(cmp.Or(c.Long, c.Short)), "\n") {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") || line == "" {
			p.line(strings.ReplaceAll(line, "\t", "    "))
			continue
		}
		for _, part := range wrap(line, p.Width) {
			p.line(part)
		}
	}
}

// commands writes the subcommands by group, those without a group last.
func (p *page) commands(c *cobra.Command) {
	groups := append(c.Groups(), &cobra.Group{Title: "Commands"})
	if len(groups) > 1 {
		groups[len(groups)-1].Title = "Other commands"
	}
	for _, group := range groups {
		var entries [][2]string
		for _, sub := range c.Commands() {
			if sub.GroupID == group.ID && sub.IsAvailableCommand() {
				entries = append(entries, [2]string{sub.Name(), sub.Short})
			}
		}
		p.entries(group.Title, entries)
	}
}

func (p *page) flags(title string, flags []*pflag.Flag) {
	var entries [][2]string
	for _, f := range flags {
		name := Names(f)
		if f.Shorthand == "" {
			name = "    " + name
		}
		entries = append(entries, [2]string{name, Usage(f, p.Tidy)})
	}
	p.entries(title, entries)
}

// entries writes names with their meanings beside them, or below a long name.
func (p *page) entries(title string, entries [][2]string) {
	if len(entries) == 0 {
		return
	}
	p.section(title)
	column, most := 0, p.Width*2/5
	for _, e := range entries {
		if w := lipgloss.Width(e[0]); w <= most {
			column = max(column, w)
		}
	}
	column += 2 * indent
	for _, e := range entries {
		lead := "  " + e[0]
		if e[1] == "" {
			p.line(lead)
		}
		for _, line := range wrap(e[1], p.Width-column) {
			if lipgloss.Width(lead) > column-indent {
				p.line(lead)
				lead = ""
			}
			p.line(lead + strings.Repeat(" ", column-lipgloss.Width(lead)) + line)
			lead = ""
		}
	}
}
