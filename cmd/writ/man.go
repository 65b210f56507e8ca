package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/help"
)

// manCommand prints or writes manual pages. It is hidden because packagers use it; users read the pages with man.
func manCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "man [DIRECTORY]", Short: "Print the manual page, or write one for each command into a directory", Hidden: true,
		Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return env.PrintText(help.Manual(cmd.Root(), homeless()))
			}
			n, err := writeManPages(newRoot(env), args[0])
			if err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot write the manual pages: %v", err).
					WithHint("name a directory that you may write to")
			}
			env.Note("%s in %s", cli.Count(n, "page"), args[0])
			return nil
		},
	}
}

// homeless replaces the user's home directory with ~ in texts for other users.
func homeless() *strings.Replacer {
	return strings.NewReplacer(config.DefaultData(), "~/.local/state/writ", config.DefaultPath(),
		"~/.config/writ/config.yaml")
}

// writeManPages writes a page for each visible command, as writ-run-list.1, and returns their number.
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
		if err := os.WriteFile(filepath.Join(dir, help.ManName(c)+".1"), []byte(help.ManPage(c, homeless())), 0o644); err !=
			nil {
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
