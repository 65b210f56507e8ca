package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manWidth limits the width of an example, so that a page fits into 80 columns.
const manWidth = 68

// ManName returns the name of a command's manual page: "writ-run-list".
func ManName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// ManPage returns the page of one command in the macros of man(7). It names neither its author nor a date.
func ManPage(c *cobra.Command, tidy *strings.Replacer) string {
	m := &manPage{tidy: tidy}
	m.head(c)
	m.flags(".SH OPTIONS", Flags(c, Own))
	m.shared(c)
	m.examples(".SH EXAMPLES", c)
	m.seeAlso(c)
	return m.String()
}

// Manual returns one page about a command and all its subcommands.
func Manual(root *cobra.Command, tidy *strings.Replacer) string {
	m := &manPage{tidy: tidy}
	m.head(root)
	m.flags(".SH OPTIONS", Flags(root, Own))
	m.shared(root)
	m.examples(".SH EXAMPLES", root)
	m.line(".SH COMMANDS")
	m.below(root)
	return m.String()
}

type manPage struct {
	tidy *strings.Replacer
	strings.Builder
}

func (m *manPage) line(text string) { m.WriteString(text + "\n") }

func (m *manPage) head(c *cobra.Command) {
	m.line(fmt.Sprintf(`.TH %s 1 "" writ "writ manual"`, strings.ToUpper(ManText(ManName(c)))))
	m.line(fmt.Sprintf(".SH NAME\n%s \\- %s", ManText(ManName(c)), ManText(c.Short)))
	m.line(".SH SYNOPSIS\n.B " + ManText(UseLine(c)))
	if c.Long != "" {
		m.line(".SH DESCRIPTION\n" + paragraphs(c.Long))
	}
}

func paragraphs(text string) string {
	all := strings.Split(text, "\n\n")
	for i := range all {
		all[i] = filled(all[i])
	}
	return strings.Join(all, "\n.PP\n")
}

// filled returns a paragraph in short lines. man joins and breaks them again.
func filled(text string) string { return ManText(strings.Join(wrap(text, manWidth), "\n")) }

// below writes a section for each command below c.
func (m *manPage) below(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue
		}
		m.line(".SS " + ManText(sub.CommandPath()))
		m.line(filled(sub.Short + "."))
		if sub.Long != "" {
			m.line(".PP\n" + paragraphs(sub.Long))
		}
		m.line(".PP\n.B " + ManText(UseLine(sub)))
		m.flags(".PP\nOptions:", Flags(sub, Own))
		if len(Flags(sub, Client)) > 0 {
			m.line(".PP\nIt also has the options of clients.")
		}
		m.examples(".PP\nExamples:\n.PP", sub)
		m.below(sub)
	}
}

// shared writes the flags that several commands share: in full on the page of the root, and as a reference to that page
// elsewhere.
func (m *manPage) shared(c *cobra.Command) {
	root := c.Root()
	if c == root {
		m.flags(".SH OPTIONS OF EVERY COMMAND", Flags(c, Every))
		m.flags(".SH OPTIONS OF CLIENTS\nEach command that talks to a cluster has these options.", ClientFlags(c))
		return
	}
	m.line(".SH SHARED OPTIONS")
	names := Shared(c)
	for i, name := range names {
		flag, word, _ := strings.Cut(name, " ")
		comma := ","
		if i == len(names)-1 {
			comma = "."
		}
		if word != "" {
			m.line(fmt.Sprintf(`.BI %s " %s" \fR%s`, ManText(flag), ManText(word), comma))
			continue
		}
		m.line(fmt.Sprintf(".BR %s %s", ManText(flag), comma))
	}
	m.line(fmt.Sprintf(".PP\n.BR %s (1)\nexplains them.", ManText(root.Name())))
}

// flags writes a list of flags below a title: names in bold, placeholders of values in italics.
func (m *manPage) flags(title string, flags []*pflag.Flag) {
	if len(flags) == 0 {
		return
	}
	m.line(title)
	for _, f := range flags {
		name := `\fB` + ManText("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + ManText("-"+f.Shorthand) + `\fR, ` + name
		}
		switch word := `\fI` + ManText(Word(f)) + `\fR`; {
		case Word(f) == "":
		case f.NoOptDefVal != "":
			name += "[=" + word + "]"
		default:
			name += " " + word
		}
		m.line(".TP\n" + name + "\n" + filled(Usage(f, m.tidy)))
	}
}

func (m *manPage) examples(title string, c *cobra.Command) {
	if c.Example != "" {
		m.line(title + "\n.nf\n" + ManText(strings.Join(Example(c, manWidth), "\n")) + "\n.fi")
	}
}

func (m *manPage) seeAlso(c *cobra.Command) {
	var also []*cobra.Command
	if c.HasParent() {
		also = append(also, c.Parent())
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			also = append(also, sub)
		}
	}
	for i, other := range also {
		if i == 0 {
			m.line(".SH SEE ALSO")
		}
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		m.line(fmt.Sprintf(".BR %s (1)%s", ManText(ManName(other)), comma))
	}
}

// ManText escapes a text for man(7): no line is a command of the formatter, hyphens can be copied, and terminals
// without Unicode show every character.
func ManText(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
