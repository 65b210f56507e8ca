// Package runs contains the commands that sign and submit scripts and follow their runs: submit, run, deployment,
// payload and sign.
package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func runCommand(env *cli.Env) *cobra.Command {
	one := []*cobra.Command{
		runShowCommand(env), runExplainCommand(env), runWatchCommand(env), runLogsCommand(env), runCancelCommand(env),
		runResumeCommand(env),
	}
	fitting := map[string][]api.RunState{
		"cancel": {api.RunStateAccepted, api.RunStateRunning},
		"resume": {api.RunStateFailed},
	}
	for _, c := range one {
		c.ValidArgsFunction = env.Completion(cli.SuggestRuns(fitting[c.Name()]...))
	}
	all := cli.Family("run", "Show, cancel and resume runs",
		append([]*cobra.Command{runListCommand(env)}, one...)...)
	all.Long = `Shows, cancels and resumes runs. RUN is the id of a run, a unique prefix of at least 4 characters, or @last.
@last is the last run that you submitted from this computer with the same context and project. If you submitted
none, it is the newest run of the project.

You sign a cancel or resume for one run. If only the coordinator can resolve RUN, the command shows the run and asks
you. Without a terminal, pass the whole id.`
	return all
}

// onRun returns the handler of a command about the run in its first argument. It creates the client for the cluster.
func onRun(
	env *cli.Env, do func(ctx context.Context, c *client.Client, id writ.RunID) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, id, _, err := findRun(env, cmd, args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, id)
	}
}

// findRun creates the client and finds the run of an argument. sure reports whether the argument alone identifies the
// run, without an answer of the coordinator.
func findRun(env *cli.Env, cmd *cobra.Command, run string) (c *client.Client, id writ.RunID, sure bool, err error) {
	if c, err = env.Client(); err != nil {
		return nil, "", false, err
	}
	if err := projectSelects(cmd, run); err != nil {
		return nil, "", false, err
	}
	id, sure, err = c.Runs.Find(cmd.Context(), run)
	return c, id, sure, err
}

// projectSelects returns an error if the command line has --project with the id of a run, which is unique in all
// projects.
func projectSelects(cmd *cobra.Command, run string) error {
	if f := cmd.Flag("project"); run == client.LastRun || f == nil || !cli.IsTyped(f) {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "--project does not apply to the id of a run").
		WithHint("leave it out: an id is unique in all projects; `%s %s --project NAME` selects the newest run of a "+
			"project", cmd.CommandPath(), client.LastRun)
}

// onRunToDecide is onRun for a command that signs a decision about the run. If the argument is resolved by the
// coordinator, the coordinator could choose another run. The user therefore confirms it. Without a terminal,
// onRunToDecide returns an error.
func onRunToDecide(
	env *cli.Env, decision string, do func(ctx context.Context, c *client.Client, run api.Run) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, id, sure, err := findRun(env, cmd, args[0])
		if err != nil {
			return err
		}
		run, err := c.Runs.Get(cmd.Context(), id)
		if err != nil {
			return err
		}
		if sure {
			return do(cmd.Context(), c, run)
		}
		what := fmt.Sprintf("%s run %s: script %s of project %s, signed by %s, %s", decision, run.ID, run.Script,
			run.ProjectName, run.Signer, run.State)
		if !env.Interactive() {
			return writ.Errorf(writ.CodeUsage,
				"only the coordinator says that %s is run %s, and the signature would name this run", args[0], run.ID).
				WithHint("if you mean it (%s of project %s, signed by %s): writ run %s %s", run.Script, run.ProjectName, run.Signer,
					decision, run.ID)
		}
		if err := cli.ConfirmSigning(env, what, "`writ run list` shows the whole ids"); err != nil {
			return err
		}
		return do(cmd.Context(), c, run)
	}
}

func whyRun(r api.Run) string {
	if r.Failure != nil {
		return fmt.Sprintf("%s: %s", r.Failure.Code, r.Failure.Message)
	}
	return r.Reason
}

func runWatchCommand(env *cli.Env) *cobra.Command {
	var s submitFlags
	c := &cobra.Command{
		Use:   "watch RUN",
		Short: "Watch a run until it has ended",
		Example: `  writ run watch RUN
  writ run watch RUN --timeout 10m`,
		Args: cli.Exactly("RUN"),
		RunE: onRun(env, func(ctx context.Context, c *client.Client, id writ.RunID) error {
			return watch(ctx, env, c, id, s.watchOptions)
		}),
	}
	s.watchFlags(c)
	return c
}

func runLogsCommand(env *cli.Env) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:     "logs RUN",
		Short:   "Print the lines that the script of a run wrote with run.log",
		Example: "  writ run logs RUN --follow",
		Args:    cli.Exactly("RUN"),
		RunE: onRun(env, func(ctx context.Context, c *client.Client, id writ.RunID) error {
			if follow {
				return followLogs(ctx, env, c, id)
			}
			if env.Format == terminal.Table || env.Format == terminal.Wide {
				return c.Runs.EachLog(ctx, id, func(page []writ.LogLine) error {
					return env.PrintText(logText(page, env.Format == terminal.Wide))
				})
			}
			lines, err := c.Runs.Logs(ctx, id)
			if err != nil {
				return err
			}
			return env.Print(terminal.View{
				Data: api.LogPage{Items: lines}, Names: logTexts(lines),
			})
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow the run until it has ended")
	return c
}

func logTexts(lines []writ.LogLine) (texts []string) {
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts
}

func logText(lines []writ.LogLine, wide bool) string {
	var b strings.Builder
	for _, l := range lines {
		if wide {
			b.WriteString(cli.Clock(l.Time) + "  ")
		}
		b.WriteString(terminal.Clean(l.Text) + "\n")
	}
	return b.String()
}

// followLogs prints lines as they arrive; with -o json, one object per line.
func followLogs(ctx context.Context, env *cli.Env, c *client.Client, id writ.RunID) error {
	if env.Format == terminal.YAML {
		return terminal.BadFormat(env.Format, "-o table", "-o json")
	}
	last := 0
	show := func(l writ.LogLine) {
		if l.Ordinal <= last {
			return
		}
		last = l.Ordinal
		if env.Format == terminal.JSON {
			_ = env.PrintLine(l) // a failed write means that the reader is gone
			return
		}
		_ = env.PrintText(logText([]writ.LogLine{l}, env.Format == terminal.Wide))
	}
	err := c.Runs.EachLog(ctx, id, func(page []writ.LogLine) error { // stored lines first, because events expire
		for _, l := range page {
			show(l)
		}
		return nil
	})
	if err != nil && !writ.AsError(err).Retryable() {
		return err
	}
	_, err = c.Streams.Watch(ctx, id, client.Watcher{Event: func(e api.Event) {
		if e.Log != nil {
			show(*e.Log)
		}
	}})
	if cli.IsInterrupt(ctx, err) {
		return terminal.Interrupted("")
	}
	return err
}

func runCancelCommand(env *cli.Env) *cobra.Command {
	var reason cli.ReasonFlag
	var many manyFlags
	one := onRunToDecide(env, "cancel", func(ctx context.Context, c *client.Client, run api.Run) error {
		cancel := client.AboutRun(run, "cancel")
		cancel.Reason = string(reason)
		return cli.Decide(ctx, env, c, cancel)
	})
	c := &cobra.Command{
		Use:   "cancel [RUN]",
		Short: "Cancel a run or all selected runs: no new call begins, and running calls are stopped",
		Long: `Cancels a run: no new call begins, and running calls are stopped. With --all it cancels all open runs of the
project that the flags select. The flags are those of "writ run list". The command shows the runs with their number,
asks once, and signs one statement that names each of them. So a coordinator cannot add a run. The supervisor signs
the outcome for each run.`,
		Example: `  writ run cancel RUN --reason "wrong parameters"
  writ run cancel --all --project shop --script web.tengo --since 2h --max 50`,
		Args: many.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if many.all {
				return decideMany(cmd.Context(), env, &many, cancelling, string(reason))
			}
			return one(cmd, args)
		},
	}
	many.add(env, c)
	reason.Add(c, "writ run show")
	return c
}

func runResumeCommand(env *cli.Env) *cobra.Command {
	var s submitFlags
	var reason cli.ReasonFlag
	var many manyFlags
	one := onRunToDecide(env, "resume", func(ctx context.Context, c *client.Client, before api.Run) error {
		resume := client.AboutRun(before, "resume")
		resume.Reason = string(reason)
		if s.detach {
			return cli.Decide(ctx, env, c, resume)
		}
		answer, at, err := cli.Decision(ctx, env, c, resume)
		if err != nil {
			return err
		}
		env.Note("%s", answer.Done)
		if err := c.Streams.AwaitNews(ctx, before); err != nil {
			return err
		}
		s.since, s.ended = at, before.Ended
		return watch(ctx, env, c, before.ID, s.watchOptions)
	})
	c := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Continue a failed run where it failed, and watch it, or continue all selected runs",
		Long: `Continues a failed run where it failed. Succeeded calls are not repeated. Errors that the script has read
stay. All other calls are repeated. The signed deadline stays.

Then the command watches until the run has ended, like "writ submit". With --all it resumes all failed runs of the
project that the flags select, like "writ run cancel --all". It does not watch them.`,
		Example: `  writ run resume 6e0c5a4be6f44b9a8f6b7c1d2e3f4a5b --reason "the disk was replaced"
  writ run resume --all --project shop --since 2h --yes`,
		Args: many.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if many.all {
				return decideMany(cmd.Context(), env, &many, resuming, string(reason))
			}
			return one(cmd, args)
		},
	}
	many.add(env, c)
	s.watchFlags(c)
	c.Flags().BoolVar(&s.detach, "detach", false, "do not watch")
	reason.Add(c, "writ run show")
	return c
}

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	everyday := env.ClientCommands(
		cli.InProject(submitCommand(env)), cli.InProject(runCommand(env)), cli.InProject(payloadCommand(env)),
		cli.InProject(signCommand(env)),
	)
	return append(cli.InGroup(cli.Everyday, everyday...),
		cli.InGroup(cli.Administration, env.ClientCommands(cli.InProject(deploymentCommand(env)))...)...)
}
