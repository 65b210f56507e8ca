package author

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
	"writ/scripts/format"
)

// formatting holds the flags of `writ fmt`. The zero value prints the formatted text.
type formatting struct {
	diff, list, write bool
}

func fmtCommand(env *cli.Env) *cobra.Command {
	var f formatting
	cmd := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Format scripts",
		Long: `Prints scripts in a standard layout: tabs, one statement per line, one space between words. Comments and the
meaning of the script are preserved. The file name - means standard input.

The exit code is 0. It is 1 if -d or -l found an unformatted script, and 2 if a script has syntax errors or cannot be
read.`,
		Example: "  writ fmt -w *.tengo\n  writ fmt -l .ci/*.tengo\n  writ fmt - < web.tengo",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Exactly("FILE")(cmd, args)
			}
			return formatFiles(env, args, f)
		},
	}
	cmd.Flags().BoolVarP(&f.diff, "diff", "d", false, "print the changes instead")
	cmd.Flags().BoolVarP(&f.list, "list", "l", false, "print the names of files that would change instead")
	cmd.Flags().BoolVarP(&f.write, "write", "w", false, "write files instead of printing")
	return cmd
}

// formatFiles formats each file. It continues after a file that cannot be read.
func formatFiles(env *cli.Env, paths []string, f formatting) error {
	changes := false
	var failed []error
	for _, path := range paths {
		changed, err := formatFile(env, path, f)
		changes = changes || changed
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		for _, err := range failed[:len(failed)-1] {
			env.Fail(err)
		}
		return failed[len(failed)-1]
	}
	if changes && (f.diff || f.list) && !f.write {
		return &terminal.ExitError{Exit: writ.ExitFailed}
	}
	return nil
}

// formatFile formats a file and reports whether its text differs from the formatted text.
func formatFile(env *cli.Env, path string, f formatting) (changed bool, err error) {
	text, err := readSource(env, path)
	if err != nil {
		return false, err
	}
	formatted, err := format.Format(scripts.Source{Name: path, Text: text})
	if err != nil {
		return false, err
	}
	changed = !bytes.Equal(text, formatted)
	switch {
	case f.write && path == "-":
		return changed, writ.Errorf(writ.CodeUsage, "the standard input cannot be written").WithHint("leave -w out")
	case f.write && changed:
		if err := replaceFile(path, formatted); err != nil {
			return changed, writ.Errorf(writ.CodeUsage, "cannot write the script: %v", err)
		}
	case !f.write && !f.diff && !f.list:
		_, err = env.Out.Write(formatted)
	}
	if changed && f.list {
		_, err = fmt.Fprintln(env.Out, terminal.Clean(path))
	}
	if changed && f.diff {
		name := terminal.Clean(path)
		_, err = io.WriteString(env.Out, terminal.CleanLines(string(diff.Diff(name, text, name+" (formatted)", formatted))))
	}
	return changed, err
}

func readSource(env *cli.Env, path string) ([]byte, error) {
	if path == "-" {
		return readStdin(env)
	}
	text, err := env.ReadFile(path, scripts.MaxSource)
	if err != nil {
		return nil, client.NoScript(path, err)
	}
	return text, nil
}

// replaceFile replaces the content of a file atomically. It keeps the mode. If path is a symbolic link, it replaces the
// target of the link.
func replaceFile(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return config.ReplaceFile(path, info.Mode().Perm(), text)
}
