package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/config"
)

// manCommand is for those who package writ, so it is hidden: people read pages with man.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man [DIRECTORY]", Short: "Print the manual page, or write one for each command into a directory", Hidden: true, Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.page(cmd.Context(), cmd.OutOrStdout(), "man")
			}
			n, err := writeManPages(a.root(), args[0])
			if err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot write the manual pages: %v", err).WithHint("name a directory that you may write to")
			}
			a.Note("%s in %s", count(n, "page"), args[0])
			return nil
		},
	}
}

// writeManPages writes a page for each command that people are shown, as writ-run-list.1, and returns how many.
func writeManPages(root *cobra.Command, dir string) (n int, err error) {
	if err := os.MkdirAll(dir, fs.FileMode(0o755)); err != nil {
		return 0, err
	}
	var walk func(c *cobra.Command) error
	walk = func(c *cobra.Command) error {
		if c.Hidden {
			return nil
		}
		n++
		if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manPage(c)), 0o644); err != nil {
			return err
		}
		for _, sub := range c.Commands() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return n, walk(root)
}

// manName is how the page of a command is called, "writ-run-list".
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the page of a command in the macros of man(7). It says nothing of who made it, or when.
func manPage(c *cobra.Command) string {
	b := new(strings.Builder)
	fmt.Fprintf(b, ".TH %s 1 \"\" writ \"writ manual\"\n", strings.ToUpper(manText(manName(c))))
	fmt.Fprintf(b, ".SH NAME\n%s \\- %s\n", manText(manName(c)), manText(c.Short))
	fmt.Fprintf(b, ".SH SYNOPSIS\n.B %s\n", manText(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(manText(c.Long), "\n\n", "\n.PP\n"))
	}
	manFlags(b, "OPTIONS", c.NonInheritedFlags())
	manFlags(b, "INHERITED OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", manText(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, c.Parent().CommandPath())
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			also = append(also, sub.CommandPath())
		}
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, path := range also {
			comma := ","
			if i == len(also)-1 {
				comma = ""
			}
			fmt.Fprintf(b, ".BR %s (1)%s\n", manText(strings.ReplaceAll(path, " ", "-")), comma)
		}
	}
	return b.String()
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	home := strings.NewReplacer(config.DefaultData(), "~/.local/state/writ", config.DefaultPath(), "~/.config/writ/config.yaml")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + value
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", manText(name), manText(home.Replace(usage)))
	})
}

// manText is text in which nothing is a command of the formatter, and hyphens can be copied.
func manText(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
