package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func (a *app) resourceCommand() *cobra.Command {
	return family("resource", "Look at what scripts have made", a.resourceListCommand())
}

func (a *app) resourceListCommand() *cobra.Command {
	var params api.ListResourcesParams
	var kind string
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
			resources, err := client.All(func(cursor string) ([]writ.Resource, string, error) {
				params.Cursor = cursor
				page, err := api.Answer[api.ResourcePage](c.API.ListResources(cmd.Context(), &params))
				return page.Items, page.NextCursor, err
			})
			if err != nil {
				return err
			}
			datacenters, err := datacenterNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			nodes, err := c.Nodes(cmd.Context(), api.ListNodesParams{})
			if err != nil {
				return err
			}
			names := make(map[writ.NodeID]string)
			for _, n := range nodes {
				names[n.ID] = n.Name
			}
			return a.Print(resourceTable(resources, datacenters, names))
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "kind", "", "only resources of this kind")
	f.StringVar(&params.Datacenter, "dc", "", "only resources of this datacenter")
	f.StringVar(&params.Deployment, "deployment", "", "only resources that this deployment owns")
	a.completeFlag(c, "dc", suggestDatacenters)
	complete(c, "kind", "machine", "container", "volume", "image", "network", "herodb")
	return c
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
