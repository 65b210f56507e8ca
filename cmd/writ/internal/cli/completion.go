package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/hidden"
)

// completeWithin limits how long shell completion waits for a coordinator.
const completeWithin = 2 * time.Second

// Suggestions requests possible next words from a coordinator. An error yields no suggestions, because a shell cannot
// show it.
type Suggestions func(ctx context.Context, c *client.Client) []string

// Completion returns a function that completes the first argument with the words that `ask` suggests. Without a
// coordinator it suggests no words.
func (e *Env) Completion(ask Suggestions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || e.FillFlags(cmd) != nil { // completion does not run the hook that fills the flags
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := e.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(context.Background(), completeWithin)
		defer stop()
		return SafeCompletions(ask(ctx, c)), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag registers suggestions for the value of a flag.
func (e *Env) CompleteFlag(cmd *cobra.Command, flag string, ask Suggestions) {
	complete := e.Completion(ask)
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(cmd, nil, word)
		})
	if err != nil {
		panic(err) // the flag was defined by the caller
	}
}

// DatacenterFlag adds --dc with completion.
func DatacenterFlag(e *Env, c *cobra.Command, datacenter *string, usage string) {
	c.Flags().StringVar(datacenter, "dc", "", usage)
	e.CompleteFlag(c, "dc", SuggestDatacenters)
}

// SuggestRuns offers the newest runs in the given states, or in any state.
func SuggestRuns(states ...api.RunState) Suggestions {
	return func(ctx context.Context, c *client.Client) []string {
		page, _ := api.Answer[api.RunPage](c.API.ListRuns(ctx, &api.ListRunsParams{State: states, Limit: api.Given(50)}))
		all := []string{cobra.CompletionWithDesc(client.LastRun, "the run that you submitted last, or the newest")}
		for _, r := range page.Items {
			all = append(all, cobra.CompletionWithDesc(string(r.ID), string(r.State)+" "+r.Script))
		}
		return all
	}
}

// SuggestNodes suggests the names of all nodes.
func SuggestNodes(ctx context.Context, c *client.Client) []string {
	nodes, _ := c.Nodes.List(ctx, api.ListNodesParams{})
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func suggestProjects(ctx context.Context, c *client.Client) []string {
	list, _ := api.Answer[api.ProjectList](c.API.ListProjects(ctx))
	var all []string
	for _, p := range list.Items {
		all = append(all, p.Name)
	}
	return all
}

// SuggestResources offers KIND/NAME.
func SuggestResources(ctx context.Context, c *client.Client) []string {
	resources, _ := c.Resources(ctx, api.ListResourcesParams{})
	var all []string
	for _, r := range resources {
		all = append(all, string(r.Kind)+"/"+r.Name)
	}
	return all
}

// SuggestDeployments offers deployments that own a resource.
func SuggestDeployments(ctx context.Context, c *client.Client) []string {
	resources, _ := c.Resources(ctx, api.ListResourcesParams{})
	owners := make(map[string]bool)
	for _, r := range resources {
		owners[r.Deployment] = true
	}
	delete(owners, "") // resources that the project itself owns
	return slices.Sorted(maps.Keys(owners))
}

// SafeCompletions omits completions with unsafe characters, which a shell would show and insert unchanged, and cleans
// the descriptions of the others.
func SafeCompletions(all []string) (safe []string) {
	for _, one := range all {
		word, description, has := strings.Cut(one, "\t")
		if strings.ContainsFunc(word, func(r rune) bool { return hidden.IsUnsafe(r) || r == '\n' }) {
			continue
		}
		if has {
			word = cobra.CompletionWithDesc(word, terminal.Clean(description))
		}
		safe = append(safe, word)
	}
	return safe
}

// SuggestDatacenters suggests the names of all datacenters, with region and health.
func SuggestDatacenters(ctx context.Context, c *client.Client) []string {
	list, _ := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	var all []string
	for _, d := range list.Items {
		all = append(all, cobra.CompletionWithDesc(d.Name, d.Region+", "+string(d.Health)))
	}
	return all
}
