package nodes

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

const ownWords = `

The data are the node's own claims, without a signature, as of their last change.`

func nodeDisksCommand(env *cli.Env) *cobra.Command {
	return hostCommand(env, &cobra.Command{
		Use:   "disks NODE",
		Short: "List the disks of a node and their contents",
		Long: `Lists the disks of a node with their partitions, labels and mount points. The label is that of the file
system if a service of the host has read it, and otherwise the name of the partition.` + ownWords,
		Example: "  writ node disks n1\n  writ node disks n1 -o json",
	}, func(h writ.Host) terminal.View { return DiskTable(h.Disks) })
}

func nodeNICsCommand(env *cli.Env) *cobra.Command {
	return hostCommand(env, &cobra.Command{
		Use:   "nics NODE",
		Short: "List the network cards of a node",
		Long: `Lists the network cards of a node, with their bonds and VLANs. Ports of machines and containers are
excluded.` + ownWords,
		Example: "  writ node nics n1\n  writ node nics n1 -o json",
	}, func(h writ.Host) terminal.View { return NicTable(h.NICs) })
}

// hostCommand completes a command that shows a part of a node's report about its machine.
func hostCommand(env *cli.Env, c *cobra.Command, view func(h writ.Host) terminal.View) *cobra.Command {
	var datacenter string
	c.Args = cli.Exactly("NODE")
	c.ValidArgsFunction = env.Completion(cli.SuggestNodes)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := env.Client()
		if err != nil {
			return err
		}
		n, err := findAny(cmd.Context(), c, datacenter, args[0])
		if err != nil {
			return err
		}
		if n.Host == nil {
			return writ.Errorf(writ.CodeNotFound, "the node %s has not described its machine", n.Name).
				WithHint("a node reports its machine within a minute after its start; if the report stays missing, upgrade its runner and its supervisor")
		}
		return env.PrintList(view(*n.Host),
			n.Name+" has reported none: `writ node show "+n.Name+"` shows the report about its machine")
	}
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the node, if the name is ambiguous")
	return c
}

// diskRow is a row for a disk or for a partition of a disk.
type diskRow struct {
	name   string
	bytes  int64
	disk   *writ.HostDisk // nil for a partition
	part   writ.HostPart
	indent string
}

func diskRows(disks []writ.HostDisk) (rows []diskRow) {
	for i := range disks {
		d := &disks[i]
		row, parts := diskRow{name: d.Name, bytes: d.Bytes, disk: d}, d.Parts
		if len(parts) > 0 && parts[0].Name == d.Name { // the disk has a file system without a partition
			row.part, parts = parts[0], parts[1:]
		}
		rows = append(rows, row)
		for _, p := range parts {
			rows = append(rows, diskRow{name: p.Name, bytes: p.Bytes, part: p, indent: "  "})
		}
	}
	return rows
}

// DiskTable lists the disks of a host.
func DiskTable(disks []writ.HostDisk) terminal.View {
	of := func(text func(d *writ.HostDisk) string) func(diskRow) string {
		return func(r diskRow) string {
			if r.disk == nil {
				return ""
			}
			return text(r.disk)
		}
	}
	return terminal.List(append([]writ.HostDisk{}, disks...), diskRows(disks), func(r diskRow) string { return r.name },
		cli.Column("DISK", func(r diskRow) string { return r.indent + r.name }),
		terminal.Column[diskRow]{
			Title: "SIZE", Name: "bytes", Cell: func(r diskRow) string { return bytesText(r.bytes) },
			Exact: func(r diskRow) string { return strconv.FormatInt(r.bytes, 10) },
		},
		cli.Column("ROTATES", of(func(d *writ.HostDisk) string { return cli.YesNo(d.Rotational) })),
		cli.Column("MODEL", of(func(d *writ.HostDisk) string { return d.Model })),
		cli.Column("SERIAL", of(func(d *writ.HostDisk) string { return d.Serial })),
		cli.Column("LABEL", func(r diskRow) string { return r.part.Label }),
		cli.Column("MOUNTED", func(r diskRow) string { return r.part.Mounted }),
	)
}

// NicTable lists the network cards of a host.
func NicTable(nics []writ.HostNIC) terminal.View {
	return terminal.List(append([]writ.HostNIC{}, nics...), nics, func(n writ.HostNIC) string { return n.Name },
		cli.Column("CARD", func(n writ.HostNIC) string { return n.Name }),
		cli.Column("MAC", func(n writ.HostNIC) string { return n.MAC }),
		cli.Column("DRIVER", func(n writ.HostNIC) string { return n.Driver }),
		cli.Column("CARRIER", func(n writ.HostNIC) string { return cli.YesNo(n.Carrier) }),
		terminal.Column[writ.HostNIC]{
			Title: "SPEED", Name: "speed_mbit",
			Cell: func(n writ.HostNIC) string {
				switch {
				case n.SpeedMbit <= 0:
					return ""
				case n.SpeedMbit%1000 == 0:
					return fmt.Sprintf("%d Gbit/s", n.SpeedMbit/1000)
				default:
					return fmt.Sprintf("%d Mbit/s", n.SpeedMbit)
				}
			},
			Exact: func(n writ.HostNIC) string { return strconv.FormatInt(n.SpeedMbit, 10) },
		},
		cli.Column("ADDRESSES", func(n writ.HostNIC) string { return strings.Join(n.Addresses, " ") }),
	)
}

// hostOf returns a node's report about its machine, or the zero value if the node sent no report.
func hostOf(n writ.Node) writ.Host {
	if n.Host == nil {
		return writ.Host{}
	}
	return *n.Host
}

// uptimeOf formats the uptime of a node's machine. It returns "" unless the node is ready.
func uptimeOf(n writ.Node) string {
	if n.Liveness != writ.LivenessReady {
		return ""
	}
	return cli.Age(hostOf(n).Booted)
}

// hostText writes a node's report about its machine.
func hostText(b *strings.Builder, n writ.Node) {
	if n.Boot != "" {
		up := ""
		if text := uptimeOf(n); text != "" {
			up = "up for " + text + ", "
		}
		fmt.Fprintf(b, "  machine: %s%s seen; boot id %s\n", up, cli.Count(n.Restarts, "restart"), terminal.Clean(n.Boot))
	}
	if len(n.Online) > 0 {
		last := n.Online[len(n.Online)-1]
		fmt.Fprintf(b, "  online: %s of %s\n", cli.OnlineShare(last), last.Month)
	}
	if n.Host == nil {
		return
	}
	h := n.Host
	system := []string{cmp.Or(h.OS, "an unknown system")}
	if h.Image != "" {
		system = append(system, "image "+h.Image)
	}
	if h.Kernel != "" {
		system = append(system, "kernel "+h.Kernel)
	}
	fmt.Fprintf(b, "    %s\n", terminal.Clean(strings.Join(system, ", ")))
	var hardware []string
	if product := strings.TrimSpace(h.Vendor + " " + h.Product); product != "" {
		hardware = append(hardware, product)
	}
	if h.Serial != "" {
		hardware = append(hardware, "serial "+h.Serial)
	}
	if h.CPU != "" {
		hardware = append(hardware, h.CPU)
	}
	if h.MemoryMiB > 0 {
		hardware = append(hardware, fmt.Sprintf("%d MiB of memory", h.MemoryMiB))
	}
	hardware = append(hardware, cli.Count(len(h.Disks), "disk"), cli.Count(len(h.NICs), "network card"))
	fmt.Fprintf(b, "    %s\n", terminal.Clean(strings.Join(hardware, ", ")))
}
