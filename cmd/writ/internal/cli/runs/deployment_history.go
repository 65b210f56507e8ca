package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	changes       bool
}

func deploymentHistoryCommand(env *cli.Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions of a deployment, newest first",
		Long: `Lists the revisions of a deployment, newest first, with the signer, the time, and the state of the run of each. A
submission that the datacenter did not accept is not a revision.

The list is as the coordinator has it. With --changes, the command reads the signed text of each revision and verifies
its signature. One line shows how the revision differs from the one before.`,
		Example: "  writ deployment history web\n  writ deployment history web --changes\n  writ deployment history web --before 31 --limit 10\n  writ deployment history web --limit 0 -o csv",
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
	flags.BoolVar(&f.changes, "changes", false, "show the changes of each revision")
	return c
}

// historyItem is a revision in a history.
type historyItem struct {
	api.Run
	Change string `json:"change,omitempty"` // with --changes
}

// historyPage is the JSON and YAML form of a history.
type historyPage struct {
	Items []historyItem `json:"items"`
	// NextBefore is the value of --before for the next page, 0 on the last page.
	NextBefore int `json:"next_before,omitempty"`
}

func history(ctx context.Context, env *cli.Env, name string, f historyFlags) error {
	c, d, err := cli.FindDeployment(ctx, env, name, f.datacenter)
	if err != nil {
		return err
	}
	runs, more, err := d.List(ctx, c, f.before, f.limit)
	if err != nil {
		return err
	}
	page := historyPage{Items: make([]historyItem, len(runs))}
	for i, r := range runs {
		page.Items[i].Run = r
	}
	if f.changes {
		if err := addChanges(ctx, env, c, d, page.Items); err != nil {
			return err
		}
	}
	if more {
		page.NextBefore = runs[len(runs)-1].Revision
	}
	none := "the coordinator has no run of a revision"
	if f.before > 0 {
		none = fmt.Sprintf("the coordinator has no run of a revision before %d", f.before)
	}
	if err := env.PrintList(historyTable(page, f.changes), none); err != nil || !more || env.Structured() {
		return err
	}
	env.Note("earlier ones: writ deployment history %s --before %d", name, page.NextBefore)
	return nil
}

// addChanges sets how each revision differs from the previous one. If a text cannot be verified, it sets the reason
// instead.
func addChanges(
	ctx context.Context, env *cli.Env, c *client.Client, d revision.Deployment, items []historyItem,
) error {
	if len(items) == 0 {
		return nil
	}
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return err
	}
	earlier, _, err := d.List(ctx, c, items[len(items)-1].Revision, 1)
	if err != nil {
		return err
	}
	var before *revision.Revision
	if len(earlier) > 0 {
		before, _ = d.ReadRun(ctx, c, roster, earlier[0]) // an unreadable text is not compared
	}
	for i := range slices.Backward(items) {
		r, err := d.ReadRun(ctx, c, roster, items[i].Run)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			items[i].Change = fmt.Sprintf("%s: %s", writ.CodeOf(err), writ.AsError(err).Message)
		case r.Number == 1:
			items[i].Change = "first revision"
		case before == nil:
			items[i].Change = "not known"
		default:
			items[i].Change = cmp.Or(revision.Changes(before, r), "no change")
		}
		before = r
	}
	return nil
}

func historyTable(page historyPage, changes bool) terminal.View {
	when := cli.Column("AGE", func(r historyItem) string { return cli.Age(r.Accepted) })
	when.Name, when.Exact = "accepted", func(r historyItem) string { return r.Accepted.UTC().Format(time.RFC3339) }
	columns := []terminal.Column[historyItem]{
		cli.Column("REVISION", func(r historyItem) string { return fmt.Sprint(r.Revision) }),
		cli.Column("STATE", func(r historyItem) string { return string(r.State) }),
		cli.Column("SIGNER", func(r historyItem) string { return r.Signer }),
		when,
		cli.Minor(1, cli.IDs(cli.Column("RUN", func(r historyItem) string { return string(r.ID) }))),
		cli.Minor(2, cli.Column("SCRIPT", func(r historyItem) string { return r.Script })),
		cli.Wide("ENDED", func(r historyItem) string { return cli.Clock(r.Ended) }),
		cli.Wide("PAYLOAD", func(r historyItem) string { return r.Payload.String() }),
		cli.Wide("WHY", func(r historyItem) string { return whyRun(r.Run) }),
	}
	if changes {
		change := cli.Column("CHANGE", func(r historyItem) string { return r.Change })
		change.Minor = -1 // the user asked for it
		columns = append(columns, change)
	}
	return terminal.List(page, page.Items, func(r historyItem) string { return fmt.Sprint(r.Revision) }, columns...)
}
