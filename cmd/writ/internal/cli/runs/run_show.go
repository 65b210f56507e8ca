package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

func runShowCommand(env *cli.Env) *cobra.Command {
	var values bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run with its calls",
		Example: `  writ run show RUN
  writ run show @last
  writ run show RUN --values -o json`,
		Args: cli.Exactly("RUN"),
		RunE: onRun(env, func(ctx context.Context, c *client.Client, id writ.RunID) error {
			return showRun(ctx, env, c, id, values)
		}),
	}
	c.Flags().BoolVar(&values, "values", false, "also request output, arguments and results from the datacenter")
	return c
}

func showRun(ctx context.Context, env *cli.Env, c *client.Client, id writ.RunID, values bool) (err error) {
	var v api.RunValues
	if values {
		if v, err = c.Runs.Values(ctx, id, 0); err != nil {
			return err
		}
	} else {
		if v.Run, err = c.Runs.Get(ctx, id); err != nil {
			return err
		}
		calls, err := c.Runs.Calls(ctx, id)
		if err != nil {
			return err
		}
		for _, call := range calls {
			v.Calls = append(v.Calls, api.CallValues{Call: call})
		}
	}
	state, lie := string(v.Run.State), error(nil)
	if v.Run.State.Ended() {
		roster, err := c.Roster.Newest(ctx)
		if err != nil {
			return err
		}
		var end client.End
		end, lie = verifyEnd(ctx, c, roster, &v.Run)
		switch state = string(v.Run.State); {
		case lie != nil:
			state += ", UNVERIFIED: reported by the coordinator only"
		case v.Run.State.Ended():
			state += fmt.Sprintf(", signed by the supervisor of %s and %s", roster.Datacenter(v.Run.Datacenter).Name,
				verified(end))
		}
		if env.Structured() {
			noteUnsure(env, end)
		}
	}
	datacenters, err := cli.DatacenterNames(ctx, c)
	if err != nil {
		return err
	}
	certificate, err := certificateOf(ctx, env, c, v.Run)
	if err != nil {
		return err
	}
	shown := shownRun{RunValues: v, Certificate: certificate}
	err = env.Print(terminal.View{Data: shown, Names: []string{string(id)}, Text: func(wide bool) string {
		return runText(shown, state, datacenters[v.Run.Datacenter], wide, values)
	}})
	if err != nil {
		return err
	}
	return lie
}

// shownRun is a run with the certificate that signed it, if any.
type shownRun struct {
	api.RunValues
	Certificate *identity.Certificate `json:"certificate,omitempty"`
}

// certificateOf returns the certificate that signed a run, or nil if a plain key did. If the certificate is missing or
// cannot be verified, it warns and returns nil.
func certificateOf(ctx context.Context, env *cli.Env, c *client.Client, run api.Run) (*identity.Certificate, error) {
	roster, err := c.Roster.Known(ctx)
	if err != nil || !client.MayHaveCertificate(roster, run.Signer) {
		return nil, err
	}
	certificate, err := c.Runs.Certificate(ctx, roster, run)
	if err != nil {
		env.Warn("the certificate that signed it is unknown: %v", err)
	}
	return certificate, nil
}

// verifyEnd replaces the end of a run by the version that its datacenter has signed. It returns an error if that is not
// possible. If the run was resumed in the meantime, run is open afterwards.
func verifyEnd(ctx context.Context, c *client.Client, roster *identity.Roster, run *api.Run) (client.End, error) {
	end, err := c.Runs.End(ctx, roster, run)
	if err != nil || !run.State.Ended() {
		return end, err
	}
	run.Failure = end.Failure
	if len(run.Output) > 0 || len(end.Output) > 0 {
		run.Output = end.Output
	}
	return end, nil
}

// runText formats a run, its calls, and its output if it is known.
func runText(v shownRun, state, datacenter string, wideTable, values bool) string {
	r := v.Run
	fields := []terminal.Field{
		{Title: "run", Value: string(r.ID)},
		{Title: "state", Value: state},
		{Title: "why", Value: whyRun(r)},
		{Title: "at", Value: position(r.Failure)},
		{Title: "script", Value: r.Script},
		{Title: "datacenter", Value: datacenter},
		{Title: "project", Value: r.ProjectName},
		{Title: "deployment", Value: deploymentOf(r)},
		{Title: "signer", Value: cli.SignedBy(r.Signer, v.Certificate)},
		{Title: "plan", Value: planOf(r)},
		{Title: "accepted", Value: cli.Clock(r.Accepted)},
		{Title: "ended", Value: cli.Clock(r.Ended)},
		{Title: "took", Value: runview.TookRun(r)},
		{Title: "deadline", Value: cli.Clock(r.Deadline), Wide: true},
		{Title: "payload", Value: r.Payload.String(), Wide: true},
	}
	for _, d := range r.Decided {
		fields = append(fields, terminal.Field{Title: "decided", Value: cli.DecisionText(d)})
	}
	text := terminal.Fields(fields, wideTable)
	if len(v.Calls) > 0 {
		columns := []terminal.Column[api.CallValues]{
			cli.Column("CALL", func(c api.CallValues) string { return fmt.Sprint(c.Seq) }),
			cli.Column("OPERATION", func(c api.CallValues) string { return c.Operation }),
			cli.Column("NAME", func(c api.CallValues) string { return c.Name }),
			cli.Column("STATE", func(c api.CallValues) string { return string(c.State) }),
			cli.Column("NODE", func(c api.CallValues) string { return c.NodeName }),
			cli.Column("DRIVER", func(c api.CallValues) string { return cli.DriverName(c.Call) }),
			cli.Column("TOOK", func(c api.CallValues) string { return runview.Duration(c.Call) }),
			cli.Column("CHANGE", func(c api.CallValues) string { return string(c.Change) }),
			cli.Column("WHY", func(c api.CallValues) string { return whyCall(c.Call) }),
			cli.Wide("ATTEMPT", func(c api.CallValues) string { return fmt.Sprintf("%d.%d", c.Attempt, c.Delivery) }),
			cli.Wide("AT", func(c api.CallValues) string { return c.Position }),
		}
		if values {
			columns = append(columns,
				cli.Column("ARGUMENTS", func(c api.CallValues) string { return cli.Compact(c.Args) }),
				cli.Column("VALUES", func(c api.CallValues) string { return cli.Compact(c.Values) }))
		}
		view := terminal.List(nil, v.Calls, func(api.CallValues) string { return "" }, columns...)
		text += "\n" + view.Text(wideTable)
	}
	if len(r.Output) > 0 {
		text += "\noutput\n" + runview.OutputText(r.Output)
	}
	return text
}

// deploymentOf returns the deployment of a run, with the revision if the datacenter has accepted the run.
func deploymentOf(r api.Run) string {
	if r.Revision == 0 {
		return r.Deployment
	}
	return fmt.Sprintf("%s, revision %d", r.Deployment, r.Revision)
}

// planOf returns the digest of the plan that the run must match, or "".
func planOf(r api.Run) string {
	if r.Plan.IsZero() {
		return ""
	}
	return r.Plan.String()
}

func position(f *writ.Failure) string {
	if f == nil {
		return ""
	}
	return f.Position
}

func whyCall(c writ.Call) string {
	if c.Error != nil {
		return fmt.Sprintf("%s: %s", c.Error.Code, c.Error.Message)
	}
	return c.Reason
}
