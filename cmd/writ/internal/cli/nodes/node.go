// Package nodes contains the command node.
package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/orphan"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return cli.InGroup(cli.Administration, env.ClientCommands(nodeCommand(env))...)
}

func nodeCommand(env *cli.Env) *cobra.Command {
	return cli.Family("node", "Show nodes, admit them, take them out of service",
		nodeListCommand(env),
		nodeShowCommand(env),
		nodeDisksCommand(env),
		nodeNICsCommand(env),
		nodeLogsCommand(env),
		nodeApproveCommand(env),
		nodeRejectCommand(env),
		nodeCordonCommand(env),
		nodeDecision(env, "uncordon", "Send a node new work again"),
		nodeDrainCommand(env),
		nodeLabelCommand(env),
		nodeRemoveCommand(env),
		nodeLostCommand(env),
	)
}

func nodeListCommand(env *cli.Env) *cobra.Command {
	var datacenter, admission string
	c := &cobra.Command{
		Use:   "list",
		Short: "List nodes by datacenter and name",
		Example: `  writ node list
  writ node list --dc dc1 --admission pending`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			nodes, err := c.Nodes.List(cmd.Context(),
				api.ListNodesParams{Datacenter: api.Given(datacenter), Admission: api.Given(writ.Admission(admission))})
			if err != nil {
				return err
			}
			datacenters, err := cli.DatacenterNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			return env.PrintList(nodeTable(nodes, datacenters),
				cli.UnlessSelected(cmd, "no nodes: `writ token create` makes the token for the first"))
		},
	}
	cli.DatacenterFlag(env, c, &datacenter, "only nodes of this datacenter")
	c.Flags().StringVar(&admission, "admission", "", "only nodes in this state: pending, approved, rejected or removed")
	cli.OneOf(c, "admission", "pending", "approved", "rejected", "removed")
	return c
}

func nodeShowCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:     "show NODE",
		Short:   "Show a node with its resources and its faults",
		Example: "  writ node show n1",
		Args:    cli.Exactly("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			n, err := findAny(cmd.Context(), c, datacenter, args[0])
			if err != nil {
				return err
			}
			names, err := cli.DatacenterNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			text := func(bool) string { return nodeText(n, why.NodeStep(n, names[n.Datacenter])) }
			return env.Print(terminal.View{Data: n, Names: []string{n.Name}, Text: text})
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestNodes)
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the node, if the name is ambiguous")
	return c
}

// nodeText formats a node for people, with the command to type next.
func nodeText(n writ.Node, next why.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s is %s\n", n.Name, why.NodeStates(n))
	if n.Gone {
		fenceText(&b, n.Fence)
	}
	if n.Fault != "" {
		fmt.Fprintf(&b, "  it gets no new work: %s\n", terminal.Clean(n.Fault))
	}
	for _, w := range n.Stuck {
		fmt.Fprintf(&b,
			"  stuck since %s: %s, call %d of run %s; its driver ignores its deadline, and other work on the resource waits\n",
			cli.Clock(w.Since), terminal.Clean(strings.TrimSuffix(w.Operation+" "+w.Name, " ")), w.Seq, w.Run)
	}
	for _, o := range n.Orphans {
		fmt.Fprintf(&b, "  %s\n", orphan.Text(o))
	}
	fmt.Fprintf(&b, "  id %s, key %s, version %s\n", n.ID, n.Key, terminal.Clean(n.Version))
	if !n.Joined.IsZero() {
		fmt.Fprintf(&b, "  its key is in use since %s (%s); a node's key does not expire\n",
			n.Joined.UTC().Format(time.DateOnly), cli.Age(n.Joined))
	}
	fmt.Fprintf(&b, "  %s of %s CPUs, %d of %d MiB of memory and %d of %d GiB of disk are reserved; %s at a time\n",
		n.Used.CPU(), n.Capacity.CPU(),
		n.Used.MemoryMiB, n.Capacity.MemoryMiB, n.Used.DiskGiB, n.Capacity.DiskGiB, cli.Count(n.Slots, "job"))
	for _, d := range n.Disks {
		fmt.Fprintf(&b, "  %s\n", diskText(d))
	}
	if len(n.Labels) > 0 {
		fmt.Fprintf(&b, "  labels: %s\n", terminal.Clean(writ.LabelsText(n.Labels)))
	}
	for _, d := range n.Decided {
		fmt.Fprintf(&b, "  %s\n", cli.DecisionText(d))
	}
	fmt.Fprintf(&b, "  joined %s, last heard from %s\n", n.Joined.UTC().Format(time.RFC3339), heardOf(n))
	hostText(&b, n)
	if n.Transfers != "" {
		fmt.Fprintf(&b, "  serves copies of its volumes to other nodes at %s\n", terminal.Clean(n.Transfers))
	}
	for _, d := range n.Drivers {
		if d.Lacks != "" {
			none := "no"
			if d.Detail != "" { // the driver is missing, but existing resources are managed
				none = "no new"
			}
			fmt.Fprintf(&b, "  %s %s: missing %s\n", none, terminal.Clean(d.Module), terminal.Clean(d.Lacks))
			continue
		}
		fmt.Fprintf(&b, "  %s\n", terminal.Clean(strings.TrimSuffix(driverList([]writ.NodeDriver{d})+"  "+d.Detail, "  ")))
		for _, e := range d.Engines {
			if e.Refused != "" {
				fmt.Fprintf(&b, "    not used: %s, %s\n", terminal.Clean(e.String()), terminal.Clean(e.Refused))
			}
		}
	}
	for _, d := range n.Drivers {
		if d.Init {
			b.WriteString("  containers can have an init process\n")
		}
		if len(d.Devices) > 0 {
			fmt.Fprintf(&b, "  devices that containers may have: %s\n", terminal.Clean(strings.Join(d.Devices, ", ")))
		}
		for _, open := range d.Opens {
			fmt.Fprintf(&b, "  ports that may be published: %s\n", terminal.Clean(open))
		}
	}
	if n.Network != nil {
		networkText(&b, n.Network)
	}
	next.WriteTo(&b)
	return b.String()
}

// fenceText describes the state of the resources of a node that was declared lost.
func fenceText(b *strings.Builder, f *writ.Fence) {
	switch {
	case f == nil || f.Answered.IsZero():
		b.WriteString("  it is lost and has sent nothing since: if its machine still runs, resources that were created again elsewhere run twice\n")
	case f.Obeyed():
		fmt.Fprintf(b, "  it is lost; it came back %s and has stopped all its resources: %s\n",
			f.Answered.UTC().Format(time.RFC3339),
			cli.Count(f.Stopped, "resource"))
	default:
		fmt.Fprintf(b, "  it is lost; it came back %s and has stopped %s, but not everything:\n",
			f.Answered.UTC().Format(time.RFC3339),
			cli.Count(f.Stopped, "resource"))
		for _, what := range f.Open {
			fmt.Fprintf(b, "    %s\n", terminal.Clean(what))
		}
	}
}

// networkText describes the state of the networks of a node.
func networkText(b *strings.Builder, n *writ.NodeNetwork) {
	if o := n.Overlay; o != nil {
		fmt.Fprintf(b, "  overlay: %s in %s; %s\n", terminal.Clean(o.Address), terminal.Clean(o.Subnet),
			terminal.Clean(o.Detail))
		if o.Running {
			fmt.Fprintf(b, "    mycelium %s, process %d, for %s; %s sent to peers, %s received\n",
				cmp.Or(terminal.Clean(o.Version), "of unknown version"), o.PID, cli.Age(o.Since), bytesText(o.Sent),
				bytesText(o.Received))
		}
		for _, p := range o.Peers {
			fmt.Fprintf(b, "    peer %s, %s, %s; %s sent, %s received\n", terminal.Clean(p.Endpoint), terminal.Clean(p.Type),
				terminal.Clean(p.State), bytesText(p.Sent), bytesText(p.Received))
		}
		more(b, o.PeerCount-len(o.Peers), "peer")
		for _, r := range o.Routes {
			metric := fmt.Sprintf("metric %d", r.Metric)
			if r.Metric < 0 {
				metric = "unreachable"
			}
			fmt.Fprintf(b, "    route %s via %s, %s\n", terminal.Clean(r.Subnet), terminal.Clean(r.NextHop), metric)
		}
		more(b, o.Selected-len(o.Routes), "route")
	}
	if n.Denied+n.Spoofed > 0 {
		fmt.Fprintf(b, "  dropped at its ports: %s not allowed in, %s under a false address\n",
			cli.Count(int(n.Denied), "packet"), cli.Count(int(n.Spoofed), "packet"))
	}
	for _, p := range n.Ports {
		fmt.Fprintf(b, "    %s on %s: %d not allowed in, %d under a false address\n", terminal.Clean(p.Owner),
			terminal.Clean(p.Network), p.Denied, p.Spoofed)
	}
}

// more writes the number of items that are not shown.
func more(b *strings.Builder, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, "    and %d more %ss\n", n, what)
	}
}

// bytesText formats a number of bytes in a suitable unit.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	amount, i := float64(n), 0
	for ; amount >= 1024 && i < len(units)-1; i++ {
		amount /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", amount, units[i])
}

func nodeTable(nodes []writ.Node, datacenters map[writ.DatacenterID]string) terminal.View {
	return terminal.List(api.NodePage{Items: nodes}, nodes, func(n writ.Node) string { return n.Name },
		cli.Column("NODE", func(n writ.Node) string { return n.Name }),
		cli.Column("DATACENTER", func(n writ.Node) string { return datacenters[n.Datacenter] }),
		cli.Minor(1, cli.Column("ADMISSION", func(n writ.Node) string { return string(n.Admission) })),
		cli.Column("SCHEDULING", func(n writ.Node) string { return string(n.Scheduling) }),
		cli.Column("LIVENESS", func(n writ.Node) string { return string(n.Liveness) }),
		cli.Minor(2,
			cli.Column("CPUS", func(n writ.Node) string { return fmt.Sprintf("%s/%s", n.Used.CPU(), n.Capacity.CPU()) })),
		cli.Minor(3,
			cli.Column("MEMORY MIB",
				func(n writ.Node) string { return fmt.Sprintf("%d/%d", n.Used.MemoryMiB, n.Capacity.MemoryMiB) })),
		cli.Minor(4,
			cli.Column("DISK GIB",
				func(n writ.Node) string { return fmt.Sprintf("%d/%d", n.Used.DiskGiB, n.Capacity.DiskGiB) })),
		cli.Column("FAULT", func(n writ.Node) string { return faultOf(n) }),
		cli.Wide("LABELS", func(n writ.Node) string { return writ.LabelsText(n.Labels) }),
		cli.Wide("SLOTS", func(n writ.Node) string { return fmt.Sprint(n.Slots) }),
		cli.Wide("DRIVERS", func(n writ.Node) string { return driverList(n.Drivers) }),
		cli.Wide("LAST BEAT", heardOf),
		cli.Wide("VERSION", func(n writ.Node) string { return n.Version }),
		cli.Wide("IMAGE", func(n writ.Node) string { return hostOf(n).Image }),
		cli.Wide("SERIAL", func(n writ.Node) string { return hostOf(n).Serial }),
		cli.Wide("KERNEL", func(n writ.Node) string { return hostOf(n).Kernel }),
		cli.Wide("UPTIME", func(n writ.Node) string { return uptimeOf(n) }),
		cli.Wide("RESTARTS", func(n writ.Node) string { return strconv.Itoa(n.Restarts) }),
		cli.Wide("KEY", func(n writ.Node) string { return n.Key }),
		cli.Wide("KEY AGE", func(n writ.Node) string { return cli.Age(n.Joined) }),
		cli.Wide("ID", func(n writ.Node) string { return string(n.ID) }),
	)
}

// faultOf returns the first problem of a node: a disconnected datacenter, its fault, stuck jobs, an almost full disk,
// or orphans.
func faultOf(n writ.Node) string {
	switch {
	case n.Liveness == writ.LivenessUnknown:
		return why.AwayText
	case n.Liveness == writ.LivenessForgotten:
		return "its datacenter does not know it"
	case n.Fault != "":
		return n.Fault
	case len(n.Stuck) > 0:
		return fmt.Sprintf("%d stuck", len(n.Stuck))
	case n.AlmostFullDisk() != nil:
		return "a disk is almost full"
	case len(n.Orphans) > 0:
		return cli.Count(len(n.Orphans), "orphan")
	}
	return ""
}

func driverList(drivers []writ.NodeDriver) string {
	var names []string
	for _, d := range drivers {
		if d.Lacks != "" {
			continue
		}
		name := d.Module + "=" + d.Name
		if d.Simulated && d.Name != "simulated" {
			name += " (simulated)"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// diskText describes a disk of a node.
func diskText(d writ.Disk) string {
	text := "disk " + terminal.Clean(d.String())
	if d.AlmostFull() {
		text += ": it is almost full, and writes to it may fail soon"
	}
	return text
}

// findNode finds a node by its name or id.
func findNode(ctx context.Context, c *client.Client, datacenter, nameOrID string) (writ.Node, error) {
	nodes, err := c.Nodes.List(ctx, api.ListNodesParams{Datacenter: api.Given(datacenter)})
	if err != nil {
		return writ.Node{}, err
	}
	found := slices.DeleteFunc(slices.Clone(nodes),
		func(n writ.Node) bool { return n.Name != nameOrID && string(n.ID) != nameOrID })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return writ.Node{}, cli.NoNode(nameOrID, nodes)
	default:
		return writ.Node{}, cli.SeveralNodes(nameOrID, len(found))
	}
}

// findAny finds a node by its name or id, including removed nodes. Nodes that were not removed take precedence.
func findAny(ctx context.Context, c *client.Client, datacenter, nameOrID string) (writ.Node, error) {
	n, err := findNode(ctx, c, datacenter, nameOrID)
	if writ.CodeOf(err) == writ.CodeNotFound {
		return findRemoved(ctx, c, datacenter, nameOrID, err)
	}
	return n, err
}

// findRemoved finds a removed node by its name or id. If several removed nodes have the name, it returns the last to
// join. If no node matches, it returns the error in `none`.
func findRemoved(ctx context.Context, c *client.Client, datacenter, nameOrID string, none error) (writ.Node, error) {
	nodes, err := c.Nodes.List(ctx,
		api.ListNodesParams{Datacenter: api.Given(datacenter), Admission: api.Given(writ.AdmissionRemoved)})
	if err != nil {
		return writ.Node{}, err
	}
	nodes = slices.DeleteFunc(nodes, func(n writ.Node) bool { return n.Name != nameOrID && string(n.ID) != nameOrID })
	if len(nodes) == 0 {
		return writ.Node{}, none
	}
	return slices.MaxFunc(nodes, func(a, b writ.Node) int { return a.Joined.Compare(b.Joined) }), nil
}

// heardOf formats the time since the last heartbeat of a node. A ready node has sent a heartbeat within the last
// seconds, but a datacenter of an old version may not report its time.
func heardOf(n writ.Node) string {
	switch {
	case n.Liveness == writ.LivenessReady && time.Since(n.LastBeat) < 10*time.Second:
		return "just now"
	case n.LastBeat.IsZero():
		return "never"
	default:
		return cli.Age(n.LastBeat) + " ago"
	}
}
