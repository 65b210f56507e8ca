package daemons

import (
	"strings"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/devcluster"
	"writ/cmd/writ/internal/daemon/runnerd"
)

func devCommand(env *cli.Env) *cobra.Command {
	d := devcluster.Config{Drivers: runnerd.DriversAuto}
	var l cli.LogFlags
	var listen string
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process on this machine",
		Long: `Runs a coordinator, supervisors and nodes in one process, with new keys. Each part works as in its own
process, with the same interfaces. The data directory keeps all state. Ctrl-C stops them.

A single datacenter is named local; several are named dc1, dc2 and so on. With a different --dcs in the same --data,
new datacenters start and the old ones stay offline. So use a new --data for another number.

It uses redis-server if it is on PATH, and otherwise a replacement inside the process.`,
		Example: "  writ dev --data ./dev\n  writ dev --data ./dev --dcs 2 --nodes 2\n  writ dev --data /var/lib/writ/dev --drivers host",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, l)
			if err != nil {
				return err
			}
			if d.Drivers == runnerd.DriversHost && !cmd.Flags().Changed("nodes") {
				d.Nodes = 1
			}
			if err := checkDevNodes(d.Drivers, d.Datacenters, d.Nodes); err != nil {
				return err
			}
			if d.Listener, err = daemon.Listen(listen); err != nil {
				return err
			}
			d.Version, d.Log, d.Note = env.Version, log, env.Note
			serve.WarnOfData(log, cmd)
			daemon.Ease()
			d.Ready = func(cluster devcluster.Running) { showDev(env, cluster) }
			err = devcluster.New(d).Run(cmd.Context())
			if cli.IsInterrupt(cmd.Context(), err) {
				env.Note("stopped; everything is kept in %s", d.Data)
				return nil
			}
			return err
		},
	}
	f := c.Flags()
	l.Add(c, "warn")
	f.StringVar(&d.Data, "data", config.DefaultData()+"/dev", "directory for all persistent data")
	f.StringVar(&listen, "listen", "127.0.0.1:7440", "address of the API and the dashboard")
	f.IntVar(&d.Datacenters, "dcs", 1, "number of datacenters")
	cli.InRange(f, "dcs", &d.Datacenters, 1, maxDevNodes)
	f.IntVar(&d.Nodes, "nodes", 2, "number of nodes per datacenter. With --drivers host: 1")
	cli.InRange(f, "nodes", &d.Nodes, 1, maxDevNodes)
	serve.CapacityFlags(c, &d.Capacity, "0: practically unlimited, or the capacity of the host with --drivers host")
	serve.DriverFlags(c, &d.Drivers, &d.Speed, &d.Host)
	serve.PublishFlag(c, &d.Host, serve.DefaultDevPublish)
	cli.FromEnvironment(f, "data", "listen")
	return c
}

// maxDevNodes limits the nodes that one process simulates.
const maxDevNodes = 64

// checkDevNodes returns an error if one process cannot run this many datacenters, with this many nodes in each, on the
// given drivers.
func checkDevNodes(drivers runnerd.Drivers, datacenters, nodes int) error {
	if datacenters*nodes > maxDevNodes {
		return writ.Errorf(writ.CodeUsage, "%d datacenters with %d nodes each are not possible", datacenters, nodes).
			WithHint("at most %d nodes in all", maxDevNodes)
	}
	if drivers == runnerd.DriversHost && datacenters*nodes > 1 {
		return writ.Errorf(writ.CodeUsage,
			"--drivers host allows one node: two nodes on one host would treat each other's resources as orphans").
			WithHint("use --dcs 1 --nodes 1")
	}
	return nil
}

func showDev(env *cli.Env, cluster devcluster.Running) {
	env.Note("")
	for _, d := range cluster.Drivers {
		env.Note("  %s", driverLine(d))
	}
	env.Note(`
Dashboard: %s
In another shell:
  export WRIT_CONFIG=%s
  writ submit FILE.tengo
  writ login --web          # prints an address that opens the dashboard
`, cluster.URL, cluster.Client)
	var words []string
	for _, dir := range cluster.Removed {
		words = append(words, cli.ShellWord(dir))
	}
	if len(words) > 0 {
		env.Warn("removed nodes: %d. To replace them, end this command, delete their directories, and start again: rm -r %s",
			len(words), strings.Join(words, " "))
	}
	if len(words) > 0 && cluster.Nodes == 0 {
		env.Bad("no nodes are left, so scripts cannot run: replace the removed nodes, or start with another --data. Ctrl-C ends this command")
		return
	}
	env.Done("ready; Ctrl-C ends it")
}

// driverLine formats the driver of a module and the reason for it.
func driverLine(d writ.NodeDriver) string {
	line := d.Module + ": " + d.Name
	if d.Simulated && d.Name != "simulated" {
		line += " (simulated)"
	}
	if d.Detail != "" {
		line += ", " + d.Detail
	}
	return line
}
