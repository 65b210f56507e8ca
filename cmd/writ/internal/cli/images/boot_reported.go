package images

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
)

// bootServerAway is the age at which the last report of a boot server counts as outdated. Even with very many machines
// a boot server reports every few seconds.
const bootServerAway = 30 * time.Second

// listReportedBoots lists the machines that the boot servers of a datacenter have reported.
func listReportedBoots(env *cli.Env, cmd *cobra.Command, datacenter string) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	list, err := api.Answer[api.BootList](c.API.ListBoots(cmd.Context(),
		&api.ListBootsParams{Datacenter: api.Given(datacenter)}))
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return writ.Errorf(writ.CodeNotFound, "unknown datacenter %s", datacenter).
			WithHint("`writ dc list` lists the datacenters")
	}
	dc := list.Items[0]
	if dc.Error != nil {
		return dc.Error
	}
	now := time.Now()
	none := "no machine has requested a boot file: `writ boot serve --help` explains how machines find the server"
	if len(dc.Servers) == 0 {
		none = "no boot server reports to " + dc.Name + ": start one with `writ boot serve --report`"
	}
	table := bootTable(list, reportedRows(dc, now), cli.Column("BOOT SERVER", func(r bootRow) string { return r.server }))
	if err := env.PrintList(table, none); err != nil {
		return err
	}
	for _, s := range dc.Servers {
		if silent := now.Sub(s.Heard); silent > bootServerAway {
			env.Warn("the boot server %s has not reported since %s: its machines are shown as of that time",
				bootServerName(s), cli.Clock(s.Heard))
		}
		if s.Trouble != "" {
			env.Warn("%s: %s; the boot server keeps the previous content", bootServerName(s), s.Trouble)
		}
	}
	if more := dc.Total - len(dc.Machines); more > 0 {
		env.Note("%s not shown", cli.Count(more, "more machine"))
	}
	return nil
}

// reportedRows returns the rows for the machines of a datacenter.
func reportedRows(dc api.DatacenterBoots, now time.Time) []bootRow {
	names := map[string]string{}
	for _, s := range dc.Servers {
		names[s.Token] = bootServerName(s)
	}
	rows := make([]bootRow, len(dc.Machines))
	for i, m := range dc.Machines {
		rows[i] = bootRow{
			BootMachine: m, since: max(now.Sub(m.Since), 0), heard: max(now.Sub(m.Heard), 0), server: names[m.Server],
		}
	}
	return rows
}

// bootServerName returns the display name of a boot server. It adds the token to the name, because two hosts may have
// the same name.
func bootServerName(s api.BootServer) string {
	if s.Name == "" {
		return s.Token
	}
	return fmt.Sprintf("%s (%s)", s.Name, s.Token)
}
