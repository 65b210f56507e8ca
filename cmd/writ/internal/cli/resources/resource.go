// Package resources contains the commands about the content of datacenters: resource and usage.
package resources

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/orphan"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/internal/endpoint"
	"writ/sal/catalog"
)

func resourceCommand(env *cli.Env, more ...*cobra.Command) *cobra.Command {
	return cli.Family("resource", "Show and delete the resources of scripts",
		append([]*cobra.Command{resourceListCommand(env), resourceShowCommand(env)}, more...)...)
}

func resourceListCommand(env *cli.Env) *cobra.Command {
	var kind, datacenter, deployment, node string
	var drifted, orphaned bool
	var changed runFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List machines, containers, volumes, images, networks and databases",
		Example: "  writ resource list --kind machine\n  writ resource list --node n1\n  writ resource list --run @last\n  writ resource list --dc dc1 --project web-shop -o wide\n  writ resource list --orphans",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if orphaned {
				if err := cli.NoProject(cmd, "--orphans"); err != nil {
					return err
				}
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			if len(changed.runs) > 0 {
				return changed.list(cmd, env, c, kind)
			}
			where, err := fetchLocations(cmd.Context(), c, datacenter)
			if err != nil {
				return err
			}
			var id writ.NodeID
			if node != "" {
				if id, err = where.only(node); err != nil {
					return err
				}
			}
			orphans := slices.DeleteFunc(orphan.On(where.nodes), func(o orphan.Orphan) bool {
				return kind != "" && o.Module != kind || node != "" && o.Node != id
			})
			if orphaned {
				return env.PrintList(orphan.Table(orphans, where.datacenters),
					cli.UnlessSelected(cmd, "no orphans: every object on a node belongs to a resource. `writ resource list` lists the resources"))
			}
			resources, err := c.Listed(cmd.Context(), api.ListResourcesParams{
				Kind: api.Given(writ.ResourceKind(kind)), Project: api.Given(env.Flags.Project), Datacenter: api.Given(datacenter),
				Deployment: api.Given(deployment), Node: api.Given(id),
			})
			if err != nil {
				return err
			}
			if drifted {
				resources = slices.DeleteFunc(resources,
					func(r api.ListedResource) bool { return len(r.Drift) == 0 && r.State != catalog.Gone })
			}
			return env.PrintList(resourceTable(resources, orphans, where),
				cli.UnlessSelected(cmd, "no resources: `writ submit` runs a script that makes the first"))
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "kind", "", "only resources of this kind")
	f.BoolVar(&drifted, "drifted", false, "only resources that differ from their request")
	f.BoolVar(&orphaned, "orphans", false,
		"list objects on nodes that belong to no resource, with the commands that remove them")
	cli.DatacenterFlag(env, c, &datacenter, "only resources of this datacenter")
	f.StringVar(&deployment, "deployment", "", "only resources that this deployment owns")
	f.StringVar(&node, "node", "", "only resources on the node of this name or id")
	changed.add(env, c)
	c.MarkFlagsMutuallyExclusive("orphans", "drifted")
	c.MarkFlagsMutuallyExclusive("orphans", "deployment")
	env.CompleteFlag(c, "node", cli.SuggestNodes)
	env.CompleteFlag(c, "deployment", cli.SuggestDeployments)
	cli.OneOf(c, "kind", cli.ResourceKinds...)
	return c
}

// locations holds the projects, datacenters and nodes of resources.
type locations struct {
	datacenters map[writ.DatacenterID]string // names
	projects    map[writ.ProjectID]string    // names
	nodes       map[writ.NodeID]writ.Node
}

// fetchLocations requests the locations from the coordinator. datacenter is a name or id that limits the nodes, or "".
func fetchLocations(ctx context.Context, c *client.Client, datacenter string) (where locations, err error) {
	if where.datacenters, err = cli.DatacenterNames(ctx, c); err != nil {
		return where, err
	}
	projects, err := api.Answer[api.ProjectList](c.API.ListProjects(ctx))
	if err != nil {
		return where, err
	}
	where.projects = make(map[writ.ProjectID]string)
	for _, p := range projects.Items {
		where.projects[p.ID] = p.Name
	}
	nodes, err := c.Nodes.ListIfAllowed(ctx, api.ListNodesParams{Datacenter: api.Given(datacenter)})
	where.nodes = make(map[writ.NodeID]writ.Node)
	for _, n := range nodes {
		where.nodes[n.ID] = n
	}
	return where, err
}

// only returns the id of the only node with a name or id. It returns an id without a check, because resources may still
// name a removed node.
func (p locations) only(nameOrID string) (writ.NodeID, error) {
	if writ.ValidUUID(nameOrID) {
		return writ.NodeID(nameOrID), nil
	}
	var found []writ.NodeID
	for id, n := range p.nodes {
		if n.Name == nameOrID {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", cli.NoNode(nameOrID, slices.Collect(maps.Values(p.nodes)))
	default:
		return "", cli.SeveralNodes(nameOrID, len(found))
	}
}

// project returns the name of a project.
func (p locations) project(id writ.ProjectID) string { return cmp.Or(p.projects[id], string(id)) }

// node returns the name of a node.
func (p locations) node(id writ.NodeID) string { return p.nodes[id].Name }

// heard reports whether the state of a resource is current: its node is ready. A reader without access to nodes relies
// on the coordinator for that.
func (p locations) heard(r api.ListedResource) bool {
	n, known := p.nodes[r.Node]
	return r.Unheard == nil && (!known && len(p.nodes) == 0 || n.Liveness == writ.LivenessReady)
}

// silence explains why the state of a resource may be outdated: "its node is lost since …". It returns "" for a
// current state, and for an unlisted node.
func (p locations) silence(r api.ListedResource) string {
	n, known := p.nodes[r.Node]
	switch {
	case p.heard(r):
		return ""
	case r.Unheard == nil && known:
		return "its node " + cli.Unheard(n)
	case r.Unheard == nil:
		return ""
	}
	who := "its node is "
	if r.Unheard.State == api.UnheardStateAway {
		who = "its datacenter is "
	}
	if r.Unheard.Since.IsZero() {
		return who + string(r.Unheard.State)
	}
	return who + string(r.Unheard.State) + " since " + cli.Clock(r.Unheard.Since)
}

// step returns the next command for a resource whose state may be outdated.
func (p locations) step(r api.ListedResource) why.Step {
	n, known := p.nodes[r.Node]
	switch {
	case p.heard(r):
		return why.Step{}
	case r.Unheard != nil && r.Unheard.State == api.UnheardStateAway:
		return why.Step{Command: "writ dc list"}
	case known:
		return why.NodeStep(n, p.datacenters[r.Datacenter])
	}
	return why.Step{}
}

// state returns the state of a resource for a table. If the node is not ready, the state is "unknown".
func (p locations) state(r api.ListedResource) string {
	if r.State != "" && !p.heard(r) {
		return "unknown"
	}
	return cli.StateText(r.Standing)
}

func resourceShowCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:     "show KIND/NAME",
		Short:   "Show a resource, and its drift from the request",
		Example: "  writ resource show machine/web-0",
		Args:    cli.Exactly("KIND/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := cli.ParseResource(args[0])
			if err != nil {
				return err
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			all, hint, err := cli.ResourcesNamed(cmd.Context(), c, api.ListResourcesParams{
				Kind: api.Given(kind), Project: api.Given(env.Flags.Project), Datacenter: api.Given(datacenter),
			}, name)
			if err != nil {
				return err
			}
			where, err := fetchLocations(cmd.Context(), c, datacenter)
			if err != nil {
				return err
			}
			switch len(all) {
			case 0:
				return noResource(cmd.Context(), env, c, kind, name, hint, orphan.On(where.nodes))
			case 1:
			default:
				return writ.Errorf(writ.CodeConflict, "%d resources have the name %s", len(all), args[0]).
					WithHint("add --project or --dc")
			}
			if err := addDay(cmd.Context(), c, &all[0]); err != nil {
				return err
			}
			orphans := orphan.Of(orphan.On(where.nodes), all[0].ResourceID)
			shown := shownResource{all[0], savedOf(cmd.Context(), c, all[0])}
			return env.Print(terminal.View{
				Data: shown, Names: []string{args[0]}, Text: func(bool) string { return resourceText(shown, orphans, where) },
			})
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestResources)
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the resource, if the name is ambiguous")
	return c
}

// addDay adds the load of the last day to a resource.
func addDay(ctx context.Context, c *client.Client, r *api.ListedResource) error {
	again, err := c.Listed(ctx, api.ListResourcesParams{
		Kind: api.Given(r.Kind), Name: api.Given(r.Name), Project: api.Given(string(r.Project)),
		Datacenter: api.Given(string(r.Datacenter)), Samples: api.Given(true),
	})
	for _, a := range again {
		if a.UID == r.UID {
			*r = a
		}
	}
	return err
}

// noResource returns the error for an unknown resource. It mentions orphans that were created for a resource of that
// name.
func noResource(
	ctx context.Context, env *cli.Env, c *client.Client, kind writ.ResourceKind, name, hint string,
	orphans []orphan.Orphan,
) error {
	err := writ.Errorf(writ.CodeNotFound, "unknown %s %s", kind, name).WithHint("%s", hint)
	projects, unknown := api.Answer[api.ProjectList](c.API.ListProjects(ctx))
	if unknown != nil {
		return err
	}
	var named []writ.ResourceID
	for _, p := range projects.Items {
		if env.Flags.Project == "" || env.Flags.Project == p.Name || env.Flags.Project == string(p.ID) {
			named = append(named, writ.ResourceID{Project: p.ID, Kind: kind, Name: name})
		}
	}
	var left []string
	for _, o := range orphan.Of(orphans, named...) {
		left = append(left,
			fmt.Sprintf("the %s %s on %s", terminal.Clean(o.Kind), terminal.Clean(o.Name), terminal.Clean(o.NodeName)))
	}
	if len(left) == 0 {
		return err
	}
	return writ.Errorf(writ.CodeNotFound, "unknown %s %s, but objects of a former resource with that name are left: %s", kind, name,
		strings.Join(left, ", ")).
		WithHint("`writ resource list --orphans` shows how to remove them")
}

// resourceText formats a resource, with the orphans that were created for it.
func resourceText(r shownResource, orphans []orphan.Orphan, where locations) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is on node %s in %s, created by the driver %s\n", r.ResourceID, where.node(r.Node),
		where.datacenters[r.Datacenter],
		terminal.Clean(cli.DriverName(writ.Call{Driver: r.Driver, Simulated: r.Simulated})))
	if r.State != "" {
		stands := "it is " + terminal.Clean(cli.StateText(r.Standing))
		if !where.heard(r.ListedResource) {
			stands = "it was " + terminal.Clean(cli.StateText(r.Standing)) + " at the last contact with its node"
		}
		if at := strings.TrimSpace(r.Address + " " + r.IPv4); at != "" {
			stands += ", at " + terminal.Clean(at)
		}
		fmt.Fprintf(&b, "  %s\n", stands)
	}
	if silence := where.silence(r.ListedResource); silence != "" {
		fmt.Fprintf(&b, "  %s\n", silence)
	}
	for _, address := range r.MoreAddresses {
		fmt.Fprintf(&b, "  also at %s, on another of its networks\n", terminal.Clean(address))
	}
	for _, p := range r.Published {
		fmt.Fprintf(&b, "  published at %s, for its port %d\n", terminal.Clean(endpoint.Published(p)), p.To)
	}
	if r.Exit != nil {
		fmt.Fprintf(&b, "  its program last ended by itself with %s\n", r.Exit)
	}
	for line := range strings.Lines(cli.LoadText(r.ListedResource)) {
		b.WriteString("  " + line)
	}
	b.WriteString(r.text())
	for _, d := range r.Drift {
		fmt.Fprintf(&b, "  drift: %s\n", terminal.Clean(d))
	}
	for _, m := range slices.Backward(r.Mended) {
		fmt.Fprintf(&b, "  mended %s ago: %s\n", cli.Age(m.Time), terminal.Clean(m.What))
	}
	if more := alsoMended(r.Mended); more > 0 {
		fmt.Fprintf(&b, "  and mended %s before that\n", cli.Count(int(more), "time"))
	}
	for _, o := range orphans {
		fmt.Fprintf(&b, "  on node %s, %s\n", terminal.Clean(o.NodeName), orphan.Text(o.Orphan))
	}
	owner := "the project itself"
	if r.Deployment != "" {
		owner = "deployment " + r.Deployment
	}
	fmt.Fprintf(&b, "  uid %s, owned by %s\n", r.UID, owner)
	fmt.Fprintf(&b, "  made %s ago, changed %s ago by run %s\n", cli.Age(r.Created), cli.Age(r.Updated), r.Run)
	where.step(r.ListedResource).WriteTo(&b)
	return b.String()
}

// addressCell formats all addresses of a resource.
func addressCell(r writ.Resource) string { return strings.Join(endpoint.All(r.Standing), " ") }

// exitCell formats how the program of a container last ended by itself.
func exitCell(r writ.Resource) string {
	switch {
	case r.Exit == nil:
		return ""
	case r.Exit.OutOfMemory:
		return fmt.Sprintf("%d (out of memory)", r.Exit.Code)
	default:
		return strconv.FormatInt(r.Exit.Code, 10)
	}
}

// alsoMended returns how often a resource was repaired before the repairs in `known`.
func alsoMended(known []writ.Mending) int64 {
	if len(known) == 0 {
		return 0
	}
	return known[len(known)-1].Number - int64(len(known))
}

// resourcePage is the JSON and YAML form of the list of resources: the page of the API, and the orphans.
type resourcePage struct {
	api.ResourcePage
	Orphans []orphan.Orphan `json:"orphans"`
}

func resourceTable(resources []api.ListedResource, orphans []orphan.Orphan, where locations) terminal.View {
	v := terminal.List(resourcePage{api.ResourcePage{Items: resources}, orphans}, resources,
		func(r api.ListedResource) string { return string(r.Kind) + "/" + r.Name },
		cli.Column("KIND", func(r api.ListedResource) string { return string(r.Kind) }),
		cli.Column("NAME", func(r api.ListedResource) string { return r.Name }),
		cli.Column("STATE", where.state),
		cli.Wraps(cli.Column("ADDRESS", func(r api.ListedResource) string { return addressCell(r.Resource) })),
		cli.Minor(4, cli.Column("PROJECT", func(r api.ListedResource) string { return where.project(r.Project) })),
		cli.Minor(3, cli.Column("DATACENTER", func(r api.ListedResource) string { return where.datacenters[r.Datacenter] })),
		cli.Column("NODE", func(r api.ListedResource) string { return where.node(r.Node) }),
		cli.Minor(1, cli.Column("DRIVER", func(r api.ListedResource) string {
			return cli.DriverName(writ.Call{Driver: r.Driver, Simulated: r.Simulated})
		})),
		cli.Minor(2, cli.Column("AGE", func(r api.ListedResource) string { return cli.Age(r.Created) })),
		cli.Wide("CPUS", cli.CPUsCell),
		cli.Wide("MEMORY", cli.MemoryCell),
		cli.Wide("RESTARTS", cli.RestartsCell),
		cli.Wide("EXIT", func(r api.ListedResource) string { return exitCell(r.Resource) }),
		cli.Wide("CHANGED", func(r api.ListedResource) string { return cli.Age(r.Updated) }),
		cli.Wide("DEPLOYMENT", func(r api.ListedResource) string { return r.Deployment }),
		cli.Wide("RUN", func(r api.ListedResource) string { return string(r.Run) }),
		cli.Wide("UID", func(r api.ListedResource) string { return string(r.UID) }),
		cli.Wide("MENDED", func(r api.ListedResource) string {
			if len(r.Mended) == 0 {
				return ""
			}
			return cli.Age(r.Mended[len(r.Mended)-1].Time)
		}),
		// Last because the sentences may be long.
		cli.Column("DRIFT", func(r api.ListedResource) string { return strings.Join(r.Drift, "; ") }),
	)
	return v.WithFooter(orphan.Footer(orphans))
}

// Commands returns the commands of this group. `more` holds further subcommands of resource, which another group
// implements.
func Commands(env *cli.Env, more ...*cobra.Command) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(
		cli.InProject(resourceCommand(env, more...)), cli.InProject(usageCommand(env)),
	)...)
}
