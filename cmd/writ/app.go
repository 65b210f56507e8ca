package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
	"writ/internal/meant"
)

// Env is the environment of a command: the terminal, and the cluster that flags and contexts select.
type Env struct {
	*terminal.Terminal
	flags   clientFlags
	version string                                                           // of this program
	run     func(args []string, in, out, err *os.File, environ []string) int // another command line
	warned  sync.Map                                                         // texts that warnOnce has shown
}

// app holds the commands.
type app struct{ *Env }

func newApp(t *terminal.Terminal) *app { return &app{&Env{Terminal: t, version: version(), run: run}} }

// clientFlags hold the flags of commands that talk to a cluster.
type clientFlags struct {
	config  string
	context string
	servers []string
	cluster string
	project string
	key     string
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
	if failed != nil && isInterrupt(ctx, failed) && terminal.ExitCode(failed) != writ.ExitInterrupted {
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
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.fillFlags(cmd); err != nil {
				return err
			}
			return checkFlags(cmd)
		},
	}
	root.PersistentFlags().VarP(&a.Format, "output", "o", "form of the data: table, wide, json, yaml, csv (lists), markdown (plans) or name")
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no progress")
	oneOf(root, "output", terminal.FormatNames()...)
	help.Mark(root.PersistentFlags(), help.Every, "output", "quiet")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.showHelp(cmd) })
	root.AddGroup(
		&cobra.Group{ID: groupEveryday, Title: "Everyday"},
		&cobra.Group{ID: groupAdmin, Title: "Administration"},
		&cobra.Group{ID: groupDaemons, Title: "Daemons"},
	)
	addTo(root, groupEveryday, a.checkCommand(), a.fmtCommand(), a.testCommand(), a.explainCommand(), a.libraryCommand())
	addTo(root, groupEveryday, a.clients(a.planCommand(), a.submitCommand(), a.runCommand(), a.logsCommand(), a.payloadCommand(), a.signCommand())...)
	addTo(root, groupAdmin, a.initCommand(), a.backupCommand(), a.restoreCommand(), a.efiCommand())
	addTo(root, groupAdmin, a.clients(a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.coordinatorCommand(), a.datacenterCommand(), a.nodeCommand(), a.holdCommand(), a.releaseCommand(), a.tokenCommand(), a.batchCommand(), a.pkiCommand(), a.secretCommand(), a.userCommand(), a.authorityCommand(),
		a.projectCommand(), a.rosterCommand(),
		a.resourceCommand(), a.deploymentCommand(), a.usageCommand(), a.contextCommand(), a.doctorCommand(), a.supportCommand())...)
	addTo(root, groupDaemons, a.demoCommand(), a.devCommand(), a.coordCommand(), a.supervisorCommand(), a.runnerCommand(), a.bootCommand(), a.webhookCommand())
	addTo(root, groupDaemons, a.benchCommands()...)
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

const (
	groupEveryday = "everyday"
	groupAdmin    = "admin"
	groupDaemons  = "daemons"
)

func addTo(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// clients adds the flags that select the cluster and the signer to commands that talk to a cluster.
func (e *Env) clients(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		f := c.PersistentFlags()
		f.StringVar(&e.flags.config, "config", config.DefaultPath(), "file with contexts")
		f.StringVar(&e.flags.context, "context", "", "context to use, instead of the current one")
		f.StringSliceVar(&e.flags.servers, "server", nil, "addresses of coordinators, tried in this order")
		f.StringVar(&e.flags.cluster, "cluster", "", "id of the cluster to trust")
		f.StringVar(&e.flags.project, "project", "", "name or id of the project to work in")
		fromEnvironment(f, "config", "context", "server", "cluster", "project")
		e.keyFlag(f)
		help.Mark(f, help.Client, "config", "context", "server", "cluster", "project", "key")
		e.completeFlag(c, "project", suggestProjects)
	}
	return commands
}

func (e *Env) keyFlag(f *pflag.FlagSet) {
	f.StringVar(&e.flags.key, "key", "", "key to sign with: a file of ssh-keygen, \"agent\" or \"agent:SHA256:…\"")
	fromEnvironment(f, "key")
}

// complete registers fixed values of a flag for shell completion.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was defined by the caller
	}
}

// family returns a command that only has subcommands.
func family(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// noSuchCommand rejects arguments of a command that only has subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := writ.Errorf(writ.CodeUsage, "unknown command %q", cmd.CommandPath()+" "+args[0])
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
		return err.WithHint("did you mean `%s %s`?", cmd.CommandPath(), close[0])
	}
	return err.WithHint("`%s --help` lists the commands", cmd.CommandPath())
}

// flagError returns the usage error for an invalid or unknown flag, with a hint about the accepted values.
func flagError(cmd *cobra.Command, err error) error {
	if said, ok := errors.AsType[*writ.Error](err); ok { // a flag type of this package returns the complete error
		return said
	}
	e := writ.Errorf(writ.CodeUsage, "%v", err)
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		return e.WithHint("%s", suggestFlag(cmd, unknown.GetSpecifiedName()))
	}
	value, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if !isValue {
		return e.WithHint("%s --help", cmd.CommandPath())
	}
	if value.GetFlag().Value.Type() == "duration" {
		e = writ.Errorf(writ.CodeUsage, "--%s must be a duration such as 30s, 5m or 2h; got %q", value.GetFlag().Name, value.GetValue())
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		e = writ.Errorf(writ.CodeUsage, "--%s: %s", value.GetFlag().Name, unparsed(value.GetFlag(), number))
	}
	if question := meant.Question(value.GetValue(), value.GetFlag().Annotations[valuesMark]); question != "" {
		return e.WithHint("%s (%s --help)", question, cmd.CommandPath())
	}
	return e.WithHint("--%s: %s (%s --help)", value.GetFlag().Name, value.GetFlag().Usage, cmd.CommandPath())
}

// unparsed explains why a text is not a valid value of a flag. strconv parses numbers and booleans.
func unparsed(f *pflag.Flag, err *strconv.NumError) string {
	if f.Value.Type() == "bool" {
		return strconv.Quote(err.Num) + " is neither true nor false"
	}
	if errors.Is(err.Err, strconv.ErrRange) {
		return err.Num + " is out of range"
	}
	return strconv.Quote(err.Num) + " is not a whole number"
}

// emptyFlag returns the name of a flag that was set to an empty text, for example from an unset variable of a CI job.
// The empty text would make the command list everything, omit the parameters, or use the current context.
func emptyFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if isEmpty(f.Value) && !mayBeEmpty(cmd, f.Name) {
			name = f.Name
		}
	})
	return name
}

// isEmpty reports whether the value of a flag is an empty text, or a list that is empty or has an empty item.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return v.Type() == "string" && v.String() == ""
}

// mayBeEmpty reports whether a flag accepts an empty text. Daemons accept it, because it disables a default.
func mayBeEmpty(cmd *cobra.Command, flag string) bool {
	return flag == "reason" || cmd.GroupID == groupDaemons && flag != "dc"
}

// checkFlags returns an error if a required flag is missing, a selecting flag is empty, a value is invalid, or flags
// exclude each other.
func checkFlags(cmd *cobra.Command) error {
	if name := emptyFlag(cmd); name != "" {
		return writ.Errorf(writ.CodeUsage, "--%s is empty", name).WithHint("give a value, or leave the flag out; a variable may not be set")
	}
	if err := checkValues(cmd.Flags()); err != nil {
		return err
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch len(missing) {
	case 0:
	case 1:
		return writ.Errorf(writ.CodeUsage, "%s is missing", missing[0]).WithHint("%s --help", cmd.CommandPath())
	default:
		return writ.Errorf(writ.CodeUsage, "%s are missing", strings.Join(missing, " and ")).WithHint("%s --help", cmd.CommandPath())
	}
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	said := err.Error() // ends with "[by nodes] were all set"
	if _, names, ok := strings.Cut(said, "; ["); ok {
		names, _, _ = strings.Cut(names, "]")
		said = "--" + strings.Join(strings.Fields(names), " and --") + " exclude each other"
	}
	return writ.Errorf(writ.CodeUsage, "%s", said).WithHint("%s --help", cmd.CommandPath())
}

// exactly requires the named arguments and no others. The error names the missing argument.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := atLeast(names...)(cmd, args); err != nil {
			return err
		}
		return atMost(len(names))(cmd, args)
	}
}

// atLeast requires the named arguments. The last one may be repeated. The error names the missing or empty argument.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return writ.Errorf(writ.CodeUsage, "%s is missing", names[len(args)]).WithHint("%s --help", cmd.CommandPath())
		}
		if i := slices.Index(args, ""); i >= 0 && len(names) > 0 {
			return writ.Errorf(writ.CodeUsage, "%s is empty", names[min(i, len(names)-1)]).WithHint("a variable may not be set; %s --help", cmd.CommandPath())
		}
		return nil
	}
}

// atMost allows at most n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return writ.Errorf(writ.CodeUsage, "unexpected argument %q", args[n]).WithHint("%s --help", cmd.CommandPath())
		}
		return nil
	}
}

// isInterrupt reports whether a command ended because the user interrupted it.
func isInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled))
}
