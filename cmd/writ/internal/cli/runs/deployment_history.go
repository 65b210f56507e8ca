package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

// historyFlags hold the options of `writ deployment history`.
type historyFlags struct {
	datacenter    string
	before, limit int
}

func deploymentHistoryCommand(env *cli.Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions of a deployment, newest first",
		Long: `Lists the revisions of a deployment, newest first, with the signer, the time, and the state of the run of each. A
submission that the datacenter did not accept is not a revision.

The list is as the coordinator has it. "writ deployment script" verifies the signature of a revision.`,
		Example: "  writ deployment history web\n  writ deployment history web --before 31 --limit 10\n  writ deployment history web --limit 0 -o csv",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return history(cmd.Context(), env, args[0], f)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the deployment, if the name is ambiguous")
	flags := c.Flags()
	flags.IntVar(&f.before, "before", 0, "only revisions before this one")
	cli.InRange(flags, "before", &f.before, 1, client.MostListed)
	flags.IntVar(&f.limit, "limit", 20, "maximum number of entries; 0 for all")
	cli.InRange(flags, "limit", &f.limit, 0, client.MostListed)
	return c
}

// historyPage is the JSON and YAML form of a history.
type historyPage struct {
	Items []api.Run `json:"items"`
	// NextBefore is the value of --before for the next page, 0 at the end.
	NextBefore int `json:"next_before,omitempty"`
}

func history(ctx context.Context, env *cli.Env, name string, f historyFlags) error {
	c, d, err := findDeployment(ctx, env, name, f.datacenter)
	if err != nil {
		return err
	}
	runs, more, err := d.List(ctx, c, f.before, f.limit)
	if err != nil {
		return err
	}
	page := historyPage{Items: runs}
	if page.Items == nil {
		page.Items = []api.Run{}
	}
	if more {
		page.NextBefore = runs[len(runs)-1].Revision
	}
	none := "the coordinator has no run of a revision"
	if f.before > 0 {
		none = fmt.Sprintf("the coordinator has no run of a revision before %d", f.before)
	}
	if err := env.PrintList(historyTable(page), none); err != nil || !more || env.Structured() {
		return err
	}
	env.Note("earlier ones: writ deployment history %s --before %d", name, page.NextBefore)
	return nil
}

// findDeployment returns the deployment with a name, which must be unique in the selected project and datacenter.
func findDeployment(
	ctx context.Context, env *cli.Env, name, datacenter string,
) (*client.Client, revision.Deployment, error) {
	if !writ.ValidName(name) {
		return nil, revision.Deployment{}, writ.Errorf(writ.CodeUsage, "%q is not a valid name of a deployment", name).
			WithHint("`writ deployment list` shows the names")
	}
	c, err := env.Client()
	if err != nil {
		return nil, revision.Deployment{}, err
	}
	d, err := revision.Find(ctx, c, name, env.Flags.Project, datacenter)
	if writ.CodeOf(err) == writ.CodeNotFound && writ.AsError(err).Hint == "" {
		err = unknownDeployment(ctx, env, name, datacenter)
	}
	return c, d, err
}

func historyTable(page historyPage) terminal.View {
	when := cli.Column("AGE", func(r api.Run) string { return cli.Age(r.Accepted) })
	when.Name, when.Exact = "accepted", func(r api.Run) string { return r.Accepted.UTC().Format(time.RFC3339) }
	return terminal.List(page, page.Items, func(r api.Run) string { return fmt.Sprint(r.Revision) },
		cli.Column("REVISION", func(r api.Run) string { return fmt.Sprint(r.Revision) }),
		cli.Column("STATE", func(r api.Run) string { return string(r.State) }),
		cli.Column("SIGNER", func(r api.Run) string { return r.Signer }),
		when,
		cli.IDs(cli.Column("RUN", func(r api.Run) string { return string(r.ID) })),
		cli.Column("SCRIPT", func(r api.Run) string { return r.Script }),
		cli.Wide("ENDED", func(r api.Run) string { return cli.Clock(r.Ended) }),
		cli.Wide("PAYLOAD", func(r api.Run) string { return r.Payload.String() }),
		cli.Wide("WHY", whyRun), // last because it is a sentence
	)
}
