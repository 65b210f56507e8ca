package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// manyFlags select the runs that one statement cancels or resumes.
type manyFlags struct {
	runFilterFlags
	all, yes bool
	most     int
}

func (m *manyFlags) add(env *cli.Env, c *cobra.Command) {
	m.runFilterFlags.add(env, c)
	f := c.Flags()
	f.BoolVar(&m.all, "all", false, "all runs that the other flags select, in one signed statement")
	f.IntVar(&m.most, "max", 50,
		fmt.Sprintf("limit of --all, at most %d. If --all selects more runs, the command signs no statement",
			identity.MaxRuns))
	cli.InRange(f, "max", &m.most, 1, identity.MaxRuns)
	f.BoolVar(&m.yes, "yes", false, "do not ask")
}

// args requires one run, or --all without arguments.
func (m *manyFlags) args(cmd *cobra.Command, args []string) error {
	if m.all {
		return cli.AtMost(0)(cmd, args)
	}
	for _, name := range []string{"state", "dc", "signer", "script", "deployment", "since", "stuck", "max", "yes"} {
		if cmd.Flags().Changed(name) {
			return writ.Errorf(writ.CodeUsage, "--%s is for --all", name).
				WithHint("use --all without RUN, or name one run without --%s", name)
		}
	}
	return cli.Exactly("RUN")(cmd, args)
}

// verb is an action on several runs.
type verb struct {
	name   string // "cancel"
	resume bool
	fits   []api.RunState // states that allow the action
}

var (
	cancelling = verb{"cancel", false, []api.RunState{api.RunStateAccepted, api.RunStateRunning}}
	resuming   = verb{"resume", true, []api.RunState{api.RunStateFailed}}
)

// decideMany shows the runs that the flags select, asks for confirmation, and signs one statement about them.
func decideMany(ctx context.Context, env *cli.Env, m *manyFlags, v verb, reason string) error {
	params, err := m.selection(v, time.Now())
	if err != nil {
		return err
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := inRoster(&params, c, roster); err != nil {
		return err
	}
	runs, _, err := c.Runs.List(ctx, params, m.most+1)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		env.Note("no run is selected: nothing was signed")
		return nil
	}
	if len(runs) > m.most {
		return writ.Errorf(writ.CodeUsage, "more than %d runs are selected: nothing was signed", m.most).
			WithHint("select fewer runs, or allow more with --max; one statement names at most %d runs", identity.MaxRuns)
	}
	if err := c.Runs.ProveSelected(ctx, runs, params); err != nil {
		return err
	}
	statement, err := client.AboutRuns(runs, v.resume)
	if err != nil {
		return err
	}
	statement.Reason = reason
	fmt.Fprint(env.Err, manyText(runs))
	datacenter := roster.Datacenter(statement.Datacenter)
	if datacenter == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", statement.Datacenter)
	}
	what := fmt.Sprintf("%s these %d runs of project %s in %s", v.name, len(runs), runs[0].ProjectName, datacenter.Name)
	if err := cli.Agree(env, what, m.yes); err != nil {
		return err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return err
	}
	defer by.Close()
	answer, err := c.Runs.Decide(ctx, by, statement)
	if err != nil {
		return err
	}
	return showMany(env, runs, answer)
}

// selection returns the request parameters for the flags, restricted to the states that allow the action.
func (m *manyFlags) selection(v verb, now time.Time) (api.ListRunsParams, error) {
	params, err := m.params(now)
	if err != nil {
		return params, err
	}
	for _, s := range params.State {
		if !slices.Contains(v.fits, s) {
			return params, writ.Errorf(writ.CodeUsage, "a run that %s cannot be %s", cli.StateClause(writ.RunState(s)),
				map[bool]string{false: "cancelled", true: "resumed"}[v.resume])
		}
	}
	if len(params.State) == 0 {
		params.State = v.fits
	}
	return params, nil
}

// inRoster replaces the names of project and datacenter by their ids in the roster, so that the coordinator cannot
// decide whether a run matches.
func inRoster(params *api.ListRunsParams, c *client.Client, roster *identity.Roster) error {
	project, err := cli.ProjectOf(c, roster)
	if err != nil {
		return err
	}
	params.Project = api.Given(string(project.ID))
	if params.Datacenter == nil {
		return nil
	}
	d, err := client.Datacenter(roster, *params.Datacenter)
	if err == nil {
		params.Datacenter = api.Given(string(d.ID))
	}
	return err
}

func manyText(runs []api.Run) string {
	return terminal.List(nil, runs, func(api.Run) string { return "" },
		cli.Column("RUN", func(r api.Run) string { return string(r.ID) }),
		cli.Column("STATE", func(r api.Run) string { return string(r.State) }),
		cli.Column("SCRIPT", func(r api.Run) string { return r.Script }),
		cli.Column("SIGNER", func(r api.Run) string { return r.Signer }),
		cli.Column("AGE", func(r api.Run) string { return cli.Age(r.Created) })).Text(false)
}

// outcome is the signed result for one of the runs.
type outcome struct {
	Run    writ.RunID  `json:"run"`
	Script string      `json:"script"`
	Error  *writ.Error `json:"error,omitempty"` // reason why the run did not change
}

func (o outcome) String() string {
	if o.Error == nil {
		return "done"
	}
	return fmt.Sprintf("%s: %s", o.Error.Code, o.Error.Message)
}

// showMany shows the result for each run. It returns the error of the first run that did not change.
func showMany(env *cli.Env, runs []api.Run, answer writ.Answer) error {
	var all []outcome
	var left []string
	var first *writ.Error
	for _, r := range runs {
		why, told := answer.Runs[r.ID]
		if !told {
			why = writ.Errorf(writ.CodeUnverified, "the supervisor has not signed the result")
		}
		if why != nil {
			left = append(left, string(r.ID))
			if first == nil {
				first = why
			}
		}
		all = append(all, outcome{r.ID, r.Script, why})
	}
	err := env.Print(terminal.List(all, all, func(o outcome) string { return string(o.Run) },
		cli.Column("RUN", func(o outcome) string { return string(o.Run) }),
		cli.Column("SCRIPT", func(o outcome) string { return o.Script }),
		cli.Column("RESULT", outcome.String)))
	if err != nil {
		return err
	}
	env.Done("%s", answer.Done)
	env.Note("verified: signed by the supervisor")
	if first != nil {
		return writ.Errorf(first.Code, "the command failed for %d of %d runs", len(left), len(runs)).
			WithHint("look at each of them, for example: writ run show %s", strings.Join(left[:1], ""))
	}
	return nil
}
