package resources

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

// runFlags select the runs whose changes `writ resource list --run` lists.
type runFlags struct{ runs []string }

// add adds the flag to a command, and excludes the flags that it cannot be combined with.
func (f *runFlags) add(env *cli.Env, c *cobra.Command) {
	c.Flags().StringArrayVar(&f.runs, "run", nil,
		"only resources that this run created, changed or deleted, with the change (repeatable)")
	env.CompleteFlag(c, "run", cli.SuggestRuns())
	for _, other := range []string{"orphans", "drifted", "deployment", "node", "dc"} {
		c.MarkFlagsMutuallyExclusive("run", other)
	}
}

// changedResource is a resource that a run created, changed or deleted.
type changedResource struct {
	Kind     writ.ResourceKind `json:"kind"`
	Name     string            `json:"name"`
	Change   writ.Change       `json:"change"` // by the run as a whole
	Call     int               `json:"call"`   // the last call that changed it
	Run      writ.RunID        `json:"run"`
	NodeName string            `json:"node_name,omitempty"`
	// Resource is the present resource of this kind and name, nil if it is missing. A later run may have changed it.
	Resource *api.ListedResource `json:"resource,omitempty"`
}

// list prints the resources that the runs changed, sorted by kind and name.
func (f *runFlags) list(cmd *cobra.Command, env *cli.Env, c *client.Client, kind string) error {
	var all []changedResource
	for _, named := range f.runs {
		if named != client.LastRun {
			if err := cli.NoProject(cmd, "--run"); err != nil {
				return err
			}
		}
		id, _, err := c.Runs.Find(cmd.Context(), named)
		if err != nil {
			return err
		}
		some, err := changedBy(cmd.Context(), c, id, kind)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b changedResource) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), terminal.CompareNames(a.Name, b.Name))
	})
	where, err := fetchLocations(cmd.Context(), c, "")
	if err != nil {
		return err
	}
	return env.PrintList(changedTable(all, where), cli.UnlessSelected(cmd, ""))
}

// changedBy returns the resources that a run changed, in the order of the calls.
func changedBy(ctx context.Context, c *client.Client, id writ.RunID, kind string) ([]changedResource, error) {
	run, err := c.Runs.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	calls, err := c.Runs.Calls(ctx, id)
	if err != nil {
		return nil, err
	}
	changed := changesOf(calls, kind)
	if len(changed) == 0 {
		return nil, nil
	}
	present, err := c.Listed(ctx, api.ListResourcesParams{
		Kind: api.Given(writ.ResourceKind(kind)), Project: api.Given(string(run.Project)),
		Datacenter: api.Given(string(run.Datacenter)),
	})
	if err != nil {
		return nil, err
	}
	for i := range changed {
		at := slices.IndexFunc(present, func(r api.ListedResource) bool {
			return r.Kind == changed[i].Kind && r.Name == changed[i].Name
		})
		if at >= 0 {
			changed[i].Resource = &present[at]
		}
	}
	return changed, nil
}

// changesOf returns the change of each resource by the calls of a run. It is "deleted" if the run created and then
// deleted the resource, and "created" in the opposite order.
func changesOf(calls []writ.Call, kind string) (all []changedResource) {
	for _, call := range calls {
		if call.Change == writ.ChangeNone || call.Change == writ.ChangeUnchanged || kind != "" && string(call.Kind) != kind {
			continue
		}
		i := slices.IndexFunc(all, func(r changedResource) bool { return r.Kind == call.Kind && r.Name == call.Name })
		if i < 0 {
			i = len(all)
			all = append(all, changedResource{Kind: call.Kind, Name: call.Name, Run: call.Run})
		}
		r := &all[i]
		if r.Change != writ.ChangeCreated || call.Change == writ.ChangeDeleted { // a change after its creation
			r.Change = call.Change
		}
		r.Call, r.NodeName = call.Seq, cmp.Or(call.NodeName, r.NodeName)
	}
	return all
}

func changedTable(all []changedResource, where locations) terminal.View {
	page := struct {
		Items []changedResource `json:"items"`
	}{all}
	if page.Items == nil {
		page.Items = []changedResource{}
	}
	present := func(cell func(api.ListedResource) string) func(changedResource) string {
		return func(r changedResource) string {
			if r.Resource == nil {
				return ""
			}
			return cell(*r.Resource)
		}
	}
	state := present(where.state)
	return terminal.List(page, all, func(r changedResource) string { return string(r.Kind) + "/" + r.Name },
		cli.Column("KIND", func(r changedResource) string { return string(r.Kind) }),
		cli.Column("NAME", func(r changedResource) string { return r.Name }),
		cli.Column("CHANGE", func(r changedResource) string { return string(r.Change) }),
		cli.Column("STATE", func(r changedResource) string {
			if r.Resource == nil {
				return "deleted"
			}
			return state(r)
		}),
		cli.Column("ADDRESS", present(func(r api.ListedResource) string { return addressCell(r.Resource) })),
		cli.Column("NODE", func(r changedResource) string { return r.NodeName }),
		cli.Column("CALL", func(r changedResource) string { return cli.Number(r.Call) }),
		cli.Wide("RUN", func(r changedResource) string { return string(r.Run) }),
		cli.Wide("LAST RUN", present(func(r api.ListedResource) string { return string(r.Run) })),
	)
}
