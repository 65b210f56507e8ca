package main

import (
	"context"
	"fmt"
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

// suggestions requests possible next words from a coordinator. An error yields no suggestions, because a shell cannot
// show it.
type suggestions func(ctx context.Context, c *client.Client) []string

func (e *Env) completion(ask suggestions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || e.fillFlags(cmd) != nil { // completion does not run the hook that fills the flags
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := e.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(context.Background(), completeWithin)
		defer stop()
		return safeCompletions(ask(ctx, c)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag registers suggestions for the value of a flag.
func (e *Env) completeFlag(cmd *cobra.Command, flag string, ask suggestions) {
	complete := e.completion(ask)
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	})
	if err != nil {
		panic(err) // the flag was defined by the caller
	}
}

// suggestRuns offers the newest runs in the given states, or in any state.
func suggestRuns(states ...api.RunState) suggestions {
	return func(ctx context.Context, c *client.Client) []string {
		page, _ := api.Answer[api.RunPage](c.API.ListRuns(ctx, &api.ListRunsParams{State: states, Limit: api.Given(50)}))
		all := []string{cobra.CompletionWithDesc(client.LastRun, "the run that you submitted last, or the newest")}
		for _, r := range page.Items {
			all = append(all, cobra.CompletionWithDesc(string(r.ID), string(r.State)+" "+r.Script))
		}
		return all
	}
}

func suggestNodes(ctx context.Context, c *client.Client) []string {
	nodes, _ := c.Nodes(ctx, api.ListNodesParams{})
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

// suggestResources offers KIND/NAME.
func suggestResources(ctx context.Context, c *client.Client) []string {
	resources, _ := c.Resources(ctx, api.ListResourcesParams{})
	var all []string
	for _, r := range resources {
		all = append(all, string(r.Kind)+"/"+r.Name)
	}
	return all
}

// suggestDeployments offers deployments that own a resource.
func suggestDeployments(ctx context.Context, c *client.Client) []string {
	resources, _ := c.Resources(ctx, api.ListResourcesParams{})
	owners := make(map[string]bool)
	for _, r := range resources {
		owners[r.Deployment] = true
	}
	delete(owners, "") // resources that the project itself owns
	return slices.Sorted(maps.Keys(owners))
}

// completeParams offers the parameters of the script in the command line, and their choices. It sends no request.
func (o *orderFlags) completeParams(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 { // the flag may precede the file
		return nil, more
	}
	modules, err := o.own.modules()
	if err != nil {
		return nil, more
	}
	script, err := client.ReadScript(args[0], modules)
	if err != nil {
		return nil, more
	}
	var all []string
	for _, p := range script.Report.Params {
		if !strings.HasPrefix(word, p.Name+"=") {
			all = append(all, cobra.CompletionWithDesc(p.Name+"=", p.Help))
			continue
		}
		for _, choice := range p.Enum {
			all = append(all, fmt.Sprintf("%s=%v", p.Name, choice))
		}
	}
	return safeCompletions(all), more
}

// safeCompletions omits completions with unsafe characters, which a shell would show and insert unchanged, and cleans the
// descriptions of the others.
func safeCompletions(all []string) (safe []string) {
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

func suggestDatacenters(ctx context.Context, c *client.Client) []string {
	list, _ := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	var all []string
	for _, d := range list.Items {
		all = append(all, cobra.CompletionWithDesc(d.Name, d.Region+", "+string(d.Health)))
	}
	return all
}
