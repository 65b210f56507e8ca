package nodes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/sleep"
	"writ/supervisor/nodes"
)

const (
	// nodeLogEvery is the poll interval of --follow.
	nodeLogEvery = 2 * time.Second
	// mostNodeLines limits the lines in one answer of a node.
	mostNodeLines = 1000
)

// nodeLogFlags select the part of a node's log to read.
type nodeLogFlags struct {
	datacenter, source, level, since string
	tail                             int
	follow                           bool
}

func nodeLogsCommand(env *cli.Env) *cobra.Command {
	var f nodeLogFlags
	c := &cobra.Command{
		Use:   "logs NODE",
		Short: "Print the log of a node: its runner and, on a node image, its machine",
		Long: `Prints the last lines of a node's log. The datacenter fetches them from the node. The sources are the runner
and, on a machine from a node image, boot (the first process), kernel (its warnings) and each service.

If the node does not answer, the command prints the last warnings that the node reported, with their time.

You need the role operator or admin in all projects. The lines are the node's own claims, without a signature.`,
		Example: "  writ node logs n1\n  writ node logs n1 --source kernel --since 10m\n  writ node logs n1 --level warn --follow",
		Args:    cli.Exactly("NODE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return printNodeLog(cmd.Context(), env, args[0], f) },
	}
	flags := c.Flags()
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the node, if the name is ambiguous")
	flags.StringVar(&f.source, "source", "", "only lines of this source: runner, boot, kernel or the name of a service")
	flags.StringVar(&f.level, "level", "", "only lines of this level and higher ones: debug, info, warn or error")
	flags.StringVar(&f.since, "since", "",
		"only lines since this time: 10m, 7d, 2026-03-01 or 2026-03-01T12:00:00Z")
	flags.IntVarP(&f.tail, "tail", "n", 100, "number of lines from the end to print first")
	cli.InRange(flags, "tail", &f.tail, 1, mostNodeLines)
	flags.BoolVarP(&f.follow, "follow", "f", false, "follow the log until interrupted")
	cli.Complete(c, "source", "runner", "boot", "kernel")
	cli.OneOf(c, "level", nodes.LogLevels...)
	c.ValidArgsFunction = env.Completion(cli.SuggestNodes)
	return c
}

// params returns the request parameters for the flags.
func (f *nodeLogFlags) params(now time.Time) (api.GetNodeLogParams, error) {
	p := api.GetNodeLogParams{Source: api.Given(f.source), Level: api.Given(f.level), Lines: api.Given(f.tail)}
	if f.since != "" {
		since, err := cli.SinceTime(f.since, now)
		if err != nil {
			return p, err
		}
		p.Since = &since
	}
	return p, nil
}

func printNodeLog(ctx context.Context, env *cli.Env, name string, f nodeLogFlags) error {
	if f.follow && env.Format == terminal.YAML {
		return terminal.BadFormat(env.Format, "-o table", "-o json")
	}
	params, err := f.params(time.Now())
	if err != nil {
		return err
	}
	c, err := env.Client()
	if err != nil {
		return err
	}
	n, err := findAny(ctx, c, f.datacenter, name)
	if err != nil {
		return err
	}
	r := nodeLogReader{Env: env, client: c, node: n, follow: f.follow}
	for {
		log, err := r.read(ctx, params)
		if err == nil {
			err = r.print(log)
		}
		if ctx.Err() != nil && f.follow {
			return terminal.Interrupted("")
		}
		if err != nil || !f.follow {
			return err
		}
		if log.Next != "" {
			params.After, params.Lines = &log.Next, nil
		}
		if !log.More && sleep.For(ctx, nodeLogEvery) != nil {
			return terminal.Interrupted("")
		}
	}
}

// nodeLogReader prints the log of a node.
type nodeLogReader struct {
	*cli.Env
	client *client.Client
	node   writ.Node
	follow bool

	boot string // boot id of the last printed line
	said string // the last reason that was shown
	told bool   // the last warnings of an unreachable node were printed
}

// read requests lines. With --follow, it waits until the node answers.
func (r *nodeLogReader) read(ctx context.Context, params api.GetNodeLogParams) (api.NodeLog, error) {
	for {
		log, err := api.Answer[api.NodeLog](r.client.API.GetNodeLog(ctx, string(r.node.Datacenter), r.node.ID, &params))
		if writ.CodeOf(err) == writ.CodeVerbUnsupported {
			return log, writ.Errorf(writ.CodeVerbUnsupported,
				"the supervisor of node %s has an earlier version, which cannot request the log of a node", r.node.Name).
				WithHint("upgrade the node; until then, read the log on the machine itself")
		}
		if !r.follow || err != nil && !writ.AsError(err).Retryable() {
			return log, err
		}
		if err == nil && (log.Away == "" || len(log.Lines) > 0 && params.After == nil && !r.told) {
			r.said, r.told = "", log.Away != ""
			return log, nil
		}
		why := "node " + r.node.Name + " " + log.Away
		if err != nil {
			why = err.Error()
		}
		if why != r.said {
			r.Note("… %s", terminal.Clean(why))
		}
		r.said = why
		if sleep.For(ctx, nodeLogEvery) != nil {
			return log, ctx.Err()
		}
	}
}

// print shows the answer of a node.
func (r *nodeLogReader) print(log api.NodeLog) error {
	if log.Away != "" && len(log.Lines) == 0 {
		return writ.Errorf(writ.CodeTimeout, "node %s %s, and has sent no matching warnings", r.node.Name, log.Away).
			WithHint("`writ node show %s` shows more", r.node.Name)
	}
	switch {
	case r.Structured() && !r.follow:
		return r.Print(terminal.View{Data: log})
	case r.Structured():
		for _, l := range log.Lines {
			if err := r.PrintLine(l); err != nil {
				return err
			}
		}
	default:
		if err := r.PrintText(r.text(log)); err != nil {
			return err
		}
	}
	if log.Lost {
		r.Warn("lines are missing: more were written than the node keeps")
	}
	if log.Away != "" {
		r.Warn("node %s %s; these are its last warnings, sent %s ago", r.node.Name, log.Away, cli.Age(log.Told))
	}
	return nil
}

// text formats lines for people. It marks where the machine was restarted.
func (r *nodeLogReader) text(log api.NodeLog) string {
	var b strings.Builder
	for _, l := range log.Lines {
		if l.Boot != r.boot {
			switch {
			case l.Boot != log.Boot:
				fmt.Fprintf(&b, "-- an earlier start of the machine, boot id %s\n", terminal.Clean(l.Boot))
			case r.boot != "":
				fmt.Fprintf(&b, "-- the machine was started again, boot id %s\n", terminal.Clean(l.Boot))
			}
			r.boot = l.Boot
		}
		fmt.Fprintf(&b, "%s %-8s %-5s %s\n", l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), terminal.Clean(l.Source),
			strings.ToUpper(terminal.Clean(l.Level)), terminal.Clean(l.Text))
	}
	return b.String()
}
