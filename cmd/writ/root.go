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
	"writ/cmd/writ/internal/cli/services"
	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
)

// newEnv returns the environment of a command line in a terminal.
func newEnv(t *terminal.Terminal) *cli.Env {
	return &cli.Env{Terminal: t, Version: version(), Run: run}
}

// run executes a command line and returns its exit code. The first interrupt cancels the command's context, the second
// one ends the process.
func run(args []string, in, out, err *os.File, environ []string) int {
	env := newEnv(terminal.New(in, out, err, environ))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	env.Until = ctx

	root := newRoot(env)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(env.Err)
	root.Version = version()
	addDefaults(env, root)
	cmd, failed := root.ExecuteContextC(ctx)
	failed = cli.WithTypedHint(cmd, args, failed)
	// An Interrupted error already has a hint how to continue.
	if failed != nil && cli.IsInterrupt(ctx, failed) && terminal.ExitCode(failed) != writ.ExitInterrupted {
		failed = terminal.Interrupted("")
	}
	if failed != nil {
		env.Fail(failed)
	}
	return terminal.ExitCode(failed)
}

// showHelp prints the help page of a command. It ignores a closed pipe.
func showHelp(env *cli.Env, cmd *cobra.Command) {
	_ = env.PrintText(help.Page(cmd, help.Style{
		Width: env.PageWidth(),
		Title: func(s string) string { return env.Paint(terminal.Title, s) },
		Tidy:  homeless(),
	}))
}

// groups lists the packages with commands.
var groups = []func(*cli.Env) []*cobra.Command{
	admission.Commands,
	author.Commands,
	contexts.Commands,
	daemons.Commands,
	doctor.Commands,
	holds.Commands,
	images.Commands,
	nodes.Commands,
	plans.Commands,
	func(env *cli.Env) []*cobra.Command { return resources.Commands(env, runs.ResourceDeleteCommand(env)) },
	roster.Commands,
	runs.Commands,
	secrets.Commands,
	services.Commands,
}

// newRoot returns the command writ with all its commands.
func newRoot(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "writ",
		Short: "Run signed scripts in your datacenters",
		Long: `writ delivers signed scripts to your datacenters and runs them on nodes.

You sign a script with your SSH key. The supervisor of the datacenter verifies the signature itself, so an attacker
on the way cannot change it or add work.`,
		Example: `  # a complete example on this machine
  writ demo

  # the same cluster, until Ctrl-C
  writ dev --data ./dev

  # in another shell: check, sign, submit and watch a script
  WRIT_CONFIG=./dev/client.yaml writ submit web.tengo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := env.FillFlags(cmd); err != nil {
				return err
			}
			return cli.CheckFlags(cmd)
		},
	}
	root.PersistentFlags().VarP(&env.Format, "output", "o",
		"form of the data: table, wide, json, yaml, csv (lists), markdown (plans) or name")
	root.PersistentFlags().BoolVarP(&env.Quiet, "quiet", "q", false, "no progress")
	cli.OneOf(root, "output", terminal.FormatNames()...)
	help.Mark(root.PersistentFlags(), help.Every, "output", "quiet")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { showHelp(env, cmd) })
	root.AddGroup(
		&cobra.Group{ID: cli.Everyday, Title: "Everyday"},
		&cobra.Group{ID: cli.Administration, Title: "Administration"},
		&cobra.Group{ID: cli.Daemons, Title: "Daemons"},
	)
	for _, commands := range groups {
		root.AddCommand(commands(env)...)
	}
	root.AddCommand(versionCommand(env), manCommand(env))
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
