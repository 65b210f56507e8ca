package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

func (a *app) usageCommand() *cobra.Command {
	var params api.ListUsageParams
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show what resources have used",
		Long: "Show what resources have used: virtual CPUs, memory and disk by the hour, and traffic. Nodes look every half minute and tell their\n" +
			"datacenter every five minutes, so the last minutes are missing. Whatever is kept for a resource counts, busy or not.",
		Example: "  writ usage --month 2026-11\n  writ usage --project web-shop --month 2026-11 -o csv > usage.csv",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			params.Project, params.Limit = a.flags.project, client.PageSize
			usage, err := client.All(func(cursor string) ([]api.Usage, string, error) {
				params.Cursor = cursor
				page, err := api.Answer[api.UsagePage](c.API.ListUsage(cmd.Context(), &params))
				return page.Items, page.NextCursor, err
			})
			if err != nil {
				return err
			}
			datacenters, err := datacenterNames(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Print(usageTable(usage, datacenters))
		},
	}
	c.Flags().StringVar(&params.Month, "month", time.Now().UTC().Format("2006-01"), `the month in UTC; "" for all`)
	c.Flags().StringVar(&params.Datacenter, "dc", "", "only what was used in this datacenter")
	a.completeFlag(c, "dc", suggestDatacenters)
	return c
}

func usageTable(usage []api.Usage, datacenters map[writ.DatacenterID]string) terminal.View {
	amount := func(title, exact string, of func(api.Usage) int64, per float64, show string) terminal.Column[api.Usage] {
		return terminal.Column[api.Usage]{
			Title: title, Name: exact,
			Cell:  func(u api.Usage) string { return fmt.Sprintf(show, float64(of(u))/per) },
			Exact: func(u api.Usage) string { return fmt.Sprint(of(u)) },
		}
	}
	const hour, gib = 3600, 1 << 30
	return terminal.List(api.UsagePage{Items: usage}, usage, func(u api.Usage) string { return string(u.Kind) + "/" + u.Name },
		wide("TENANT", func(u api.Usage) string { return u.Tenant }),
		column("PROJECT", func(u api.Usage) string {
			if u.ProjectName == "" {
				return string(u.Project)
			}
			return u.ProjectName
		}),
		column("KIND", func(u api.Usage) string { return string(u.Kind) }),
		column("NAME", func(u api.Usage) string { return u.Name }),
		column("DATACENTER", func(u api.Usage) string { return datacenters[u.Datacenter] }),
		amount("CPU HOURS", "cpu_seconds", func(u api.Usage) int64 { return u.CPUSeconds }, hour, "%.2f"),
		amount("MEMORY GIB HOURS", "memory_mib_seconds", func(u api.Usage) int64 { return u.MemoryMibSeconds }, hour*1024, "%.2f"),
		amount("DISK GIB HOURS", "disk_gib_seconds", func(u api.Usage) int64 { return u.DiskGibSeconds }, hour, "%.2f"),
		amount("RECEIVED GIB", "received", func(u api.Usage) int64 { return u.Received }, gib, "%.3f"),
		amount("SENT GIB", "sent", func(u api.Usage) int64 { return u.Sent }, gib, "%.3f"),
		wide("FIRST", func(u api.Usage) string { return u.First.UTC().Format(time.RFC3339) }),
		wide("LAST", func(u api.Usage) string { return u.Last.UTC().Format(time.RFC3339) }),
		wide("UID", func(u api.Usage) string { return string(u.UID) }),
	)
}
