package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func (a *app) resourceCommand() *cobra.Command {
	return family("resource", "Look at what scripts have made", a.resourceListCommand(), a.resourceShowCommand())
}

func (a *app) resourceListCommand() *cobra.Command {
	var params api.ListResourcesParams
	var kind string
	var drifted bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List machines, containers, volumes, images, networks and databases",
		Example: "  writ resource list --kind machine\n  writ resource list --dc dc1 --project web-shop -o wide",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			params.Kind, params.Project, params.Limit = writ.ResourceKind(kind), a.flags.project, client.PageSize
			resources, err := listResources(cmd.Context(), c, params)
			if err != nil {
				return err
			}
			if drifted {
				resources = slices.DeleteFunc(resources, func(r writ.Resource) bool { return len(r.Drift) == 0 })
			}
			datacenters, nodes, err := placeNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Print(resourceTable(resources, datacenters, nodes))
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "kind", "", "only resources of this kind")
	f.BoolVar(&drifted, "drifted", false, "only resources that are not as they were asked for")
	f.StringVar(&params.Datacenter, "dc", "", "only resources of this datacenter")
	f.StringVar(&params.Deployment, "deployment", "", "only resources that this deployment owns")
	a.completeFlag(c, "dc", suggestDatacenters)
	complete(c, "kind", "machine", "container", "volume", "image", "network", "herodb")
	return c
}

// listResources returns all resources that params select.
func listResources(ctx context.Context, c *client.Client, params api.ListResourcesParams) ([]writ.Resource, error) {
	return client.All(func(cursor string) ([]writ.Resource, string, error) {
		params.Cursor = cursor
		page, err := api.Answer[api.ResourcePage](c.API.ListResources(ctx, &params))
		return page.Items, page.NextCursor, err
	})
}

// placeNames returns the names of datacenters and nodes.
func placeNames(ctx context.Context, c *client.Client) (map[writ.DatacenterID]string, map[writ.NodeID]string, error) {
	datacenters, err := datacenterNames(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := c.Nodes(ctx, api.ListNodesParams{})
	if err != nil {
		return nil, nil, err
	}
	names := make(map[writ.NodeID]string)
	for _, n := range nodes {
		names[n.ID] = n.Name
	}
	return datacenters, names, nil
}

func (a *app) resourceShowCommand() *cobra.Command {
	var params api.ListResourcesParams
	c := &cobra.Command{
		Use:     "show KIND/NAME",
		Short:   "Show a resource, and how it differs from what was asked for",
		Example: "  writ resource show machine/web-0",
		Args:    exactly("KIND/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, ok := strings.Cut(args[0], "/")
			if !ok {
				return writ.Errorf(writ.CodeUsage, "%q names no resource", args[0]).WithHint("write kind and name, as machine/web-0")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			params.Kind, params.Project, params.Limit = writ.ResourceKind(kind), a.flags.project, client.PageSize
			all, err := listResources(cmd.Context(), c, params)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(r writ.Resource) bool { return r.Name != name })
			switch len(all) {
			case 0:
				return writ.Errorf(writ.CodeNotFound, "there is no %s %s", kind, name).WithHint("`writ resource list` shows what there is")
			case 1:
			default:
				return writ.Errorf(writ.CodeConflict, "there are %d of the name %s", len(all), args[0]).WithHint("say --project or --dc")
			}
			datacenters, nodes, err := placeNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Print(terminal.View{Data: all[0], Names: []string{args[0]}, Text: func(bool) string { return resourceText(all[0], datacenters, nodes) }})
		},
	}
	c.Flags().StringVar(&params.Datacenter, "dc", "", "datacenter of the resource, if several have one of this name")
	a.completeFlag(c, "dc", suggestDatacenters)
	return c
}

// resourceText shows a resource for people.
func resourceText(r writ.Resource, datacenters map[writ.DatacenterID]string, nodes map[writ.NodeID]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is on node %s in %s, made with %s\n", r.ResourceID, nodes[r.Node], datacenters[r.Datacenter],
		terminal.Clean(driverName(writ.Call{Driver: r.Driver, Simulated: r.Simulated})))
	for _, d := range r.Drift {
		fmt.Fprintf(&b, "  drift: %s\n", terminal.Clean(d))
	}
	for _, m := range slices.Backward(r.Mended) {
		fmt.Fprintf(&b, "  mended %s ago: %s\n", age(m.Time), terminal.Clean(m.What))
	}
	if more := alsoMended(r.Mended); more > 0 {
		fmt.Fprintf(&b, "  and mended %s besides\n", count(int(more), "time"))
	}
	owner := "the project itself"
	if r.Deployment != "" {
		owner = "deployment " + r.Deployment
	}
	fmt.Fprintf(&b, "  uid %s, owned by %s\n", r.UID, owner)
	fmt.Fprintf(&b, "  made %s ago, changed %s ago by run %s\n", age(r.Created), age(r.Updated), r.Run)
	return b.String()
}

// alsoMended is how often a resource was mended besides what is known of it.
func alsoMended(known []writ.Mending) int64 {
	if len(known) == 0 {
		return 0
	}
	return known[len(known)-1].Number - int64(len(known))
}

func resourceTable(resources []writ.Resource, datacenters map[writ.DatacenterID]string, nodes map[writ.NodeID]string) terminal.View {
	return terminal.List(api.ResourcePage{Items: resources}, resources, func(r writ.Resource) string { return string(r.Kind) + "/" + r.Name },
		column("KIND", func(r writ.Resource) string { return string(r.Kind) }),
		column("NAME", func(r writ.Resource) string { return r.Name }),
		column("DATACENTER", func(r writ.Resource) string { return datacenters[r.Datacenter] }),
		column("NODE", func(r writ.Resource) string { return nodes[r.Node] }),
		column("DRIVER", func(r writ.Resource) string {
			return driverName(writ.Call{Driver: r.Driver, Simulated: r.Simulated})
		}),
		column("AGE", func(r writ.Resource) string { return age(r.Created) }),
		column("CHANGED", func(r writ.Resource) string { return age(r.Updated) }),
		wide("DEPLOYMENT", func(r writ.Resource) string { return r.Deployment }),
		wide("RUN", func(r writ.Resource) string { return string(r.Run) }),
		wide("UID", func(r writ.Resource) string { return string(r.UID) }),
		wide("MENDED", func(r writ.Resource) string {
			if len(r.Mended) == 0 {
				return ""
			}
			return age(r.Mended[len(r.Mended)-1].Time)
		}),
		column("DRIFT", func(r writ.Resource) string { return strings.Join(r.Drift, "; ") }), // last: sentences, which may be long
	)
}

// compact shows values of scripts in one line.
func compact(values map[string]any) string {
	if len(values) == 0 {
		return ""
	}
	text, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(text)
}
