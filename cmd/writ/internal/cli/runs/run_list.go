package runs

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/coord/remedy"
)

// runFilterFlags select runs.
type runFilterFlags struct {
	states                    []string
	datacenter, signer        string
	script, deployment, since string
	stuck                     time.Duration
}

// runListFlags select runs and the columns of the list.
type runListFlags struct {
	runFilterFlags
	text  string
	why   bool
	all   bool
	limit int
}

func (l *runFilterFlags) add(env *cli.Env, c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&l.states, "state", nil, "only runs in these states; open stands for waiting, accepted and running")
	cli.DatacenterFlag(env, c, &l.datacenter, "only runs of this datacenter")
	f.StringVar(&l.signer, "signer", "", "only runs that this person or machine signed")
	f.StringVar(&l.script, "script", "", "only runs of the script with this file name")
	f.StringVar(&l.deployment, "deployment", "", "only runs of this deployment")
	f.StringVar(&l.since, "since", "",
		"only runs since this time: 2h, 7d, 2026-03-01 or 2026-03-01T12:00:00Z")
	f.DurationVar(&l.stuck, "stuck", 0,
		"only open runs without progress for this time or with a repeated call, with the reason and a remedy")
	cli.InRange(f, "stuck", &l.stuck, time.Second, longestStuck)
	cli.OneOf(c, "state", append([]string{openRuns}, runStates()...)...)
	env.CompleteFlag(c, "deployment", cli.SuggestDeployments)
}

func runListCommand(env *cli.Env) *cobra.Command {
	var l runListFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `Lists runs, newest first. Runs that only read logs of containers and consoles of machines, like the runs of
"writ logs", are omitted unless --all or --script is set.`,
		Example: `  writ run list --state open
  writ run list --state failed,expired --since 1d
  writ run list --script web.tengo --since 2h
  writ run list --stuck 5m
  writ run list --text 'replicas=3'
  writ run list --limit 0 -o name`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := l.params(time.Now())
			if err != nil {
				return err
			}
			params.Project, params.Text = api.Given(env.Flags.Project), api.Given(l.text)
			params.Why, params.Logs = cmp.Or(params.Why, api.Given(l.why)), api.Given(l.all)
			return listRuns(cmd.Context(), env, params, l.limit,
				cli.UnlessSelected(cmd, "no runs: `writ submit` makes the first"))
		},
	}
	l.add(env, c)
	f := c.Flags()
	f.StringVar(&l.text, "text", "",
		"only runs with this text in a name, a parameter or their error, or with a resource whose name begins with it")
	f.BoolVar(&l.all, "all", false, "also list runs that only read logs")
	f.BoolVar(&l.why, "why", false, "show why each run waits or failed")
	f.IntVar(&l.limit, "limit", 50, "maximum number of entries; 0 for all")
	cli.InRange(f, "limit", &l.limit, 0, client.MostListed)
	return c
}

// params returns the request parameters for the flags. Unset flags are not sent, because earlier coordinators reject
// unknown parameters.
func (l *runFilterFlags) params(now time.Time) (api.ListRunsParams, error) {
	params := api.ListRunsParams{
		Datacenter: api.Given(l.datacenter), Signer: api.Given(l.signer), Script: api.Given(l.script),
		Deployment: api.Given(l.deployment),
	}
	for _, s := range l.states {
		if s == openRuns {
			params.State = append(params.State, api.RunStateWaiting, api.RunStateAccepted, api.RunStateRunning)
			continue
		}
		if !api.RunState(s).Valid() {
			return params, writ.Errorf(writ.CodeUsage, "unknown run state %q", s).
				WithHint("the states are %s, and %s for runs that have not ended", strings.Join(runStates(), ", "), openRuns)
		}
		if l.stuck != 0 && api.RunState(s).Ended() {
			return params, writ.Errorf(writ.CodeUsage, "--stuck selects open runs, and --state %s runs that have ended", s).
				WithHint("remove one of the two flags")
		}
		params.State = append(params.State, api.RunState(s))
	}
	if l.since != "" {
		since, err := cli.SinceTime(l.since, now)
		if err != nil {
			return params, err
		}
		params.Since = &since
	}
	if l.stuck != 0 {
		seconds := int(l.stuck / time.Second)
		params.Stuck, params.Why = api.Given(seconds), api.Given(true)
	}
	return params, nil
}

// longestStuck is the longest --stuck that coordinators accept.
const longestStuck = 366 * 24 * time.Hour

// openRuns is the flag value that selects all open states.
const openRuns = "open"

func runStates() []string {
	var names []string
	for _, s := range []api.RunState{
		api.RunStateWaiting, api.RunStateRefused, api.RunStateAccepted, api.RunStateRunning,
		api.RunStateSucceeded, api.RunStateFailed, api.RunStateCancelled, api.RunStateExpired,
	} {
		names = append(names, string(s))
	}
	return names
}

func listRuns(ctx context.Context, env *cli.Env, params api.ListRunsParams, limit int, none string) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	datacenters, err := cli.DatacenterNames(ctx, c)
	if err != nil {
		return err
	}
	runs, more, err := c.Runs.List(ctx, params, limit)
	if err != nil {
		return err
	}
	table := runTable(api.RunPage{Items: runs, NextCursor: more}, datacenters, params.Why != nil)
	if err := env.PrintList(table, none); err != nil || more == "" || env.Structured() {
		return err
	}
	env.Note("there are more runs: --limit 0 lists all")
	return nil
}

// runTable returns a list of runs. If explained is true, the list shows why each run waits or failed, and the next
// command.
func runTable(page api.RunPage, datacenters map[writ.DatacenterID]string, explained bool) terminal.View {
	why := cli.Wide("WHY", whyRun)
	why.Wide = !explained
	next := cli.Wide("NEXT", func(r api.Run) string {
		if r.State.Ended() {
			return ""
		}
		return cmp.Or(remedy.For(r.Why, r.ID, datacenters[r.Datacenter]).Line, "writ run explain "+string(r.ID))
	})
	next.Wide = why.Wide
	// The user asked for both columns, so they are omitted last. A truncated command in NEXT would be useless.
	next.Whole, next.Minor, why.Minor = true, -1, -1
	return terminal.List(page, page.Items,
		func(r api.Run) string { return string(r.ID) },
		cli.IDs(cli.Column("RUN", func(r api.Run) string { return string(r.ID) })),
		cli.Column("STATE", func(r api.Run) string { return string(r.State) }),
		cli.Column("SCRIPT", func(r api.Run) string { return r.Script }),
		cli.Column("DATACENTER", func(r api.Run) string { return datacenters[r.Datacenter] }),
		cli.Minor(3, cli.Column("PROJECT", func(r api.Run) string { return r.ProjectName })),
		cli.Minor(1, cli.Column("SIGNER", func(r api.Run) string { return r.Signer })),
		cli.Column("AGE", func(r api.Run) string { return cli.Age(r.Created) }),
		cli.Minor(2, cli.Column("TOOK", runview.TookRun)),
		cli.Column("DEPLOYMENT", func(r api.Run) string { return r.Deployment }),
		cli.Wide("PAYLOAD", func(r api.Run) string { return r.Payload.String() }),
		next,
		why, // last because it is a sentence
	)
}
