package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/admission"
	"writ/cmd/writ/internal/cli/author"
	"writ/cmd/writ/internal/cli/contexts"
	"writ/cmd/writ/internal/cli/daemons"
	"writ/cmd/writ/internal/cli/doctor"
	"writ/cmd/writ/internal/cli/holds"
	"writ/cmd/writ/internal/cli/images"
	"writ/cmd/writ/internal/cli/nodes"
	"writ/cmd/writ/internal/cli/plans"
	"writ/cmd/writ/internal/cli/resources"
	"writ/cmd/writ/internal/cli/roster"
	"writ/cmd/writ/internal/cli/runs"
	"writ/cmd/writ/internal/cli/secrets"
	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
)

// app holds the commands.
type app struct{ *cli.Env }

func newApp(t *terminal.Terminal) *app {
	return &app{&cli.Env{Terminal: t, Version: version(), Run: run}}
}

// run executes a command line and returns its exit code. The first interrupt cancels the command's context, the second
// one ends the process.
func run(args []string, in, out, err *os.File, environ []string) int {
	a := newApp(terminal.New(in, out, err, environ))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a.Until = ctx

	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(a.Err)
	root.Version = version()
	failed := root.ExecuteContext(ctx)
	// An Interrupted error already has a hint how to continue.
	if failed != nil && cli.IsInterrupt(ctx, failed) && terminal.ExitCode(failed) != writ.ExitInterrupted {
		failed = terminal.Interrupted("")
	}
	if failed != nil {
		a.Fail(failed)
	}
	return terminal.ExitCode(failed)
}

// showHelp prints the help page of a command. It ignores a closed pipe.
func (a *app) showHelp(cmd *cobra.Command) {
	_ = a.PrintText(help.Page(cmd, help.Style{
		Width: a.PageWidth(),
		Title: func(s string) string { return a.Paint(terminal.Title, s) },
		Tidy:  homeless(),
	}))
}

// root returns the complete command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "writ",
		Short: "Run signed scripts in your datacenters",
		Long: `writ delivers signed scripts to your datacenters and runs them on nodes.

You sign a script with your SSH key. The supervisor of the datacenter verifies the signature itself, so an attacker
in the middle cannot make it act.`,
		Example: `  # everything on this machine, with an example, a result and a dashboard
  writ demo

  # everything on this machine, for as long as you like
  writ dev --data ./dev

  # in another shell: check, sign, submit and watch a script
  WRIT_CONFIG=./dev/client.yaml writ submit web.tengo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.FillFlags(cmd); err != nil {
				return err
			}
			return cli.CheckFlags(cmd)
		},
	}
	root.PersistentFlags().VarP(&a.Format, "output", "o", "form of the data: table, wide, json, yaml, csv (lists), markdown (plans) or name")
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no progress")
	cli.OneOf(root, "output", terminal.FormatNames()...)
	help.Mark(root.PersistentFlags(), help.Every, "output", "quiet")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.showHelp(cmd) })
	root.AddGroup(
		&cobra.Group{ID: cli.Everyday, Title: "Everyday"},
		&cobra.Group{ID: cli.Administration, Title: "Administration"},
		&cobra.Group{ID: cli.Daemons, Title: "Daemons"},
	)
	root.AddCommand(author.Commands(a.Env)...)
	root.AddCommand(contexts.Commands(a.Env)...)
	root.AddCommand(holds.Commands(a.Env)...)
	root.AddCommand(resources.Commands(a.Env)...)
	root.AddCommand(secrets.Commands(a.Env)...)
	root.AddCommand(plans.Commands(a.Env)...)
	root.AddCommand(runs.Commands(a.Env)...)
	root.AddCommand(nodes.Commands(a.Env)...)
	root.AddCommand(admission.Commands(a.Env)...)
	root.AddCommand(roster.Commands(a.Env)...)
	root.AddCommand(images.Commands(a.Env)...)
	root.AddCommand(daemons.Commands(a.Env)...)
	root.AddCommand(doctor.Commands(a.Env)...)
	root.AddCommand(a.versionCommand(), a.manCommand())
	unwrap(root)
	return root
}

// unwrap joins the lines of each paragraph of the long help texts. The source has its own line breaks; the help page
// wraps to the width of the terminal.
func unwrap(c *cobra.Command) {
	paragraphs := strings.Split(c.Long, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, "  ") { // a diagram
			continue
		}
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	c.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range c.Commands() {
		unwrap(sub)
	}
}
