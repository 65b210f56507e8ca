package resources

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

func usageCommand(env *cli.Env) *cobra.Command {
	var month, datacenter, by, tenant string
	var ofNodes bool
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show the usage of resources",
		Long: `Shows the usage of resources: hours of virtual CPUs, memory and disk, and traffic. Nodes measure every half
minute and report every five minutes, so the last minutes are missing. A resource counts from its creation to its
deletion, busy or idle. Simulated resources are not listed.

With --nodes it shows the online time of each node in the month. A node is offline once it is silent: after 5 s, or
after the --silent-after of its datacenter (` + "`writ dc show`" + `). Time without a running supervisor does not count.`,
		Example: "  writ usage --month 2026-11\n  writ usage --project web-shop --month 2026-11 -o csv > usage.csv\n  writ usage --by tenant --month all\n  writ usage --nodes --month 2026-11",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{byResource, byProject, byTenant}, by) {
				return writ.Errorf(writ.CodeUsage, "cannot group usage by %q", by).
					WithHint("use --by %s, %s or %s", byResource, byProject, byTenant)
			}
			month, err := cli.UsageMonth(month, time.Now())
			if err != nil {
				return err
			}
			if ofNodes {
				if err := cli.NoProject(cmd, "--nodes"); err != nil {
					return err
				}
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			if ofNodes {
				return printOnline(cmd.Context(), env, c, month, datacenter,
					cli.UnlessSelected(cmd,
						"no online time this month: the first entry of a node appears after a minute. `writ node list` shows the nodes"))
			}
			params := api.ListUsageParams{
				Project: api.Given(env.Flags.Project), Datacenter: api.Given(datacenter), Month: api.Given(month),
				Limit: api.Given(client.PageSize),
			}
			usage, err := client.All(func(cursor string) ([]api.Usage, string, error) {
				params.Cursor = api.Given(cursor)
				page, err := api.Answer[api.UsagePage](c.API.ListUsage(cmd.Context(), &params))
				return page.Items, page.NextCursor, err
			})
			if err != nil {
				return err
			}
			if tenant != "" {
				usage = slices.DeleteFunc(usage, func(u api.Usage) bool { return u.Tenant != tenant })
			}
			none := cli.UnlessSelected(cmd,
				"no usage this month: the usage of a new resource appears after five minutes. Simulated resources have no usage. `writ resource list` shows the resources")
			if by != byResource {
				return printUsageBy(env, usage, by, none)
			}
			datacenters, err := cli.DatacenterNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			return env.PrintList(usageTable(usage, datacenters), none)
		},
	}
	c.Flags().StringVar(&month, "month", time.Now().UTC().Format("2006-01"), "the month in UTC, or all")
	c.Flags().Lookup("month").DefValue = "this month"
	c.Flags().StringVar(&by, "by", byResource, "group the sums by resource, project or tenant")
	c.Flags().BoolVar(&ofNodes, "nodes", false, "show the online time of nodes in the month")
	c.Flags().StringVar(&tenant, "tenant", "", "only usage by projects of this tenant")
	c.MarkFlagsMutuallyExclusive("nodes", "by")
	c.MarkFlagsMutuallyExclusive("nodes", "tenant")
	cli.OneOf(c, "by", byResource, byProject, byTenant)
	cli.DatacenterFlag(env, c, &datacenter, "only usage in this datacenter")
	return c
}

// Units of displayed amounts: an hour in seconds, a GiB in bytes.
const (
	hour = 3600
	gib  = 1 << 30
)

// amount returns a column of amounts. Tables show them divided by `unit`, other formats show the exact number.
func amount[T any](title, exact string, of func(T) int64, unit float64, show string) terminal.Column[T] {
	return terminal.Column[T]{
		Title: title, Name: exact,
		Cell:  func(item T) string { return fmt.Sprintf(show, float64(of(item))/unit) },
		Exact: func(item T) string { return fmt.Sprint(of(item)) },
	}
}

// nodeMonth is the online time of a node in a month.
type nodeMonth struct {
	Node       string        `json:"node"`
	ID         writ.NodeID   `json:"id"`
	Datacenter string        `json:"datacenter"`
	Liveness   writ.Liveness `json:"liveness"`
	Restarts   int           `json:"restarts"`
	writ.Online
	// SilentAfter is the silence after which the node counts as offline, as set now; 0 if unknown.
	SilentAfter float64 `json:"silent_after_seconds,omitzero"`
}

// printOnline shows the online times of nodes in a month, or in every month if month is "".
func printOnline(ctx context.Context, env *cli.Env, c *client.Client, month, datacenter, none string) error {
	var roster *identity.Roster // nil if the selected context of the CLI names no cluster: the roster cannot be verified
	if c.Context.Cluster != "" {
		var err error
		if roster, err = env.Roster(ctx, c); err != nil {
			return err
		}
	}
	nodes, err := c.Nodes.List(ctx, api.ListNodesParams{Datacenter: api.Given(datacenter)})
	if err != nil {
		return err
	}
	datacenters, err := cli.DatacenterNames(ctx, c)
	if err != nil {
		return err
	}
	all := []nodeMonth{}
	for _, n := range nodes {
		for _, o := range n.Online {
			if month == "" || o.Month == month {
				all = append(all,
					nodeMonth{n.Name, n.ID, datacenters[n.Datacenter], n.Liveness, n.Restarts, o, silentAfter(roster, n.Datacenter)})
			}
		}
	}
	return env.PrintList(terminal.List(all, all, func(n nodeMonth) string { return n.Node },
		cli.Column("NODE", func(n nodeMonth) string { return n.Node }),
		cli.Column("DATACENTER", func(n nodeMonth) string { return n.Datacenter }),
		cli.Column("MONTH", func(n nodeMonth) string { return n.Month }),
		cli.Column("ONLINE", func(n nodeMonth) string { return cli.OnlineShare(n.Online) }),
		amount("HOURS", "seconds", func(n nodeMonth) int64 { return n.Seconds }, hour, "%.1f"),
		amount("OF HOURS", "of", func(n nodeMonth) int64 { return n.Of }, hour, "%.1f"),
		cli.Column("NOW", func(n nodeMonth) string { return string(n.Liveness) }),
		cli.Wide("OFFLINE AFTER", func(n nodeMonth) string {
			if n.SilentAfter == 0 {
				return ""
			}
			return time.Duration(n.SilentAfter * float64(time.Second)).String()
		}),
		cli.Wide("RESTARTS", func(n nodeMonth) string { return fmt.Sprint(n.Restarts) }),
		cli.Wide("ID", func(n nodeMonth) string { return string(n.ID) }),
	), none)
}

// silentAfter returns the silent timeout of a datacenter in seconds, or 0 without a roster.
func silentAfter(roster *identity.Roster, datacenter writ.DatacenterID) float64 {
	if roster == nil {
		return 0
	}
	return roster.Datacenter(datacenter).NodeSilence().Silent.Seconds()
}

func usageTable(usage []api.Usage, datacenters map[writ.DatacenterID]string) terminal.View {
	return terminal.List(api.UsagePage{Items: usage}, usage,
		func(u api.Usage) string { return string(u.Kind) + "/" + u.Name },
		cli.Wide("TENANT", func(u api.Usage) string { return u.Tenant }),
		cli.Column("PROJECT", func(u api.Usage) string { return cmp.Or(u.ProjectName, string(u.Project)) }),
		cli.Column("KIND", func(u api.Usage) string { return string(u.Kind) }),
		cli.Column("NAME", func(u api.Usage) string { return u.Name }),
		cli.Column("DATACENTER", func(u api.Usage) string { return datacenters[u.Datacenter] }),
		amount("CPU HOURS", "cpu_seconds", func(u api.Usage) int64 { return u.CPUSeconds }, hour, "%.2f"),
		amount("MEMORY GIB HOURS", "memory_mib_seconds", func(u api.Usage) int64 { return u.MemoryMibSeconds }, hour*1024,
			"%.2f"),
		amount("DISK GIB HOURS", "disk_gib_seconds", func(u api.Usage) int64 { return u.DiskGibSeconds }, hour, "%.2f"),
		amount("RECEIVED GIB", "received", func(u api.Usage) int64 { return u.Received }, gib, "%.3f"),
		amount("SENT GIB", "sent", func(u api.Usage) int64 { return u.Sent }, gib, "%.3f"),
		cli.Wide("FIRST", func(u api.Usage) string { return u.First.UTC().Format(time.RFC3339) }),
		cli.Wide("LAST", func(u api.Usage) string { return u.Last.UTC().Format(time.RFC3339) }),
		cli.Wide("UID", func(u api.Usage) string { return string(u.UID) }),
	)
}

// Values of --by.
const (
	byResource = "resource"
	byProject  = "project"
	byTenant   = "tenant"
)

// usageSum is the usage of all resources of a project or tenant.
type usageSum struct {
	Tenant      string         `json:"tenant"`
	Project     writ.ProjectID `json:"project,omitempty"` // "" in the sum of a tenant
	ProjectName string         `json:"project_name,omitempty"`
	Resources   int            `json:"resources"`
	writ.Used
}

// sumUsage adds up usage by project or tenant, sorted by tenant and project.
func sumUsage(usage []api.Usage, by string) []usageSum {
	sums := map[string]*usageSum{}
	for _, u := range usage {
		key := u.Tenant
		if by == byProject {
			key += "\x00" + string(u.Project)
		}
		sum := sums[key]
		if sum == nil {
			sum = &usageSum{Tenant: u.Tenant}
			if by == byProject {
				sum.Project, sum.ProjectName = u.Project, u.ProjectName
			}
			sums[key] = sum
		}
		sum.Resources++
		sum.Used = sum.Plus(writ.Used{
			CPUSeconds: u.CPUSeconds, MemoryMiBSeconds: u.MemoryMibSeconds, DiskGiBSeconds: u.DiskGibSeconds,
			Received: u.Received, Sent: u.Sent,
		})
	}
	all := make([]usageSum, 0, len(sums))
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, *sums[key])
	}
	return all
}

// printUsageBy prints sums of usage.
func printUsageBy(env *cli.Env, usage []api.Usage, by, none string) error {
	columns := []terminal.Column[usageSum]{cli.Column("TENANT", func(u usageSum) string { return u.Tenant })}
	if by == byProject {
		columns = append(columns,
			cli.Column("PROJECT", func(u usageSum) string { return cmp.Or(u.ProjectName, string(u.Project)) }))
	}
	columns = append(columns,
		cli.Column("RESOURCES", func(u usageSum) string { return fmt.Sprint(u.Resources) }),
		amount("CPU HOURS", "cpu_seconds", func(u usageSum) int64 { return u.CPUSeconds }, hour, "%.2f"),
		amount("MEMORY GIB HOURS", "memory_mib_seconds", func(u usageSum) int64 { return u.MemoryMiBSeconds }, hour*1024,
			"%.2f"),
		amount("DISK GIB HOURS", "disk_gib_seconds", func(u usageSum) int64 { return u.DiskGiBSeconds }, hour, "%.2f"),
		amount("RECEIVED GIB", "received", func(u usageSum) int64 { return u.Received }, gib, "%.3f"),
		amount("SENT GIB", "sent", func(u usageSum) int64 { return u.Sent }, gib, "%.3f"))
	all := sumUsage(usage, by)
	return env.PrintList(terminal.List(all, all, func(u usageSum) string { return cmp.Or(u.ProjectName, u.Tenant) },
		columns...), none)
}
