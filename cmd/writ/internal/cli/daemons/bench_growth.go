//go:build !release

package daemons

import (
	"context"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// Limits of a measured site.
const (
	mostNodes       = 10_000
	mostDatacenters = 1000
	mostStreams     = 1500 // a network gets three quarters of the streams of a coordinator
)

func benchGrowthCommand(env *cli.Env) *cobra.Command {
	var l cli.LogFlags
	g := bench.Growth{}
	c := &cobra.Command{
		Use:   "growth",
		Short: "Measure how the cost of a call grows with the size of a site",
		Long: `Measures sites of several sizes. Each is a fresh coordinator with a datacenter that has a supervisor and a
redis-server. The nodes use the real protocol with simulated drivers. One process serves up to 50 of them. With
--datacenters it also measures sites with several datacenters.

Each site is measured without work, with runs of ten sequential calls, and with runs of many calls at once. The
table shows the CPU time, the Redis commands and the written bytes of a call. A value in brackets is the ratio to
the first size. -o wide shows the CPU time of each kind of process.

With --backlog each site is also measured while other runs wait, as in "writ bench waiting". They wait at a node
of their own.

With --streams sequential calls are measured twice more: while streams of one run each are open, and while streams
of all events are open. This command reads them all, on the same machine.

With --history the lists and pages of a coordinator are measured last. The first time its ledger has a tenth of the
ended runs, the second time all of them.

With --postgres the journals and the ledger are in new databases of a PostgreSQL server. The user of the address
needs the right to create databases, and psql, createdb and dropdb must be installed. If the server runs on this
machine, its CPU time is measured as well.

BUSY is the CPU time of a call without the part that the site uses when idle. All processes share this machine, so
runs per second fall with the CPU time of all of them.`,
		Example: "  writ bench growth --nodes 1,50,200,1000\n  writ bench growth --nodes 1,5 -n 100 --idle 5s -o json\n" +
			"  writ bench growth --nodes 1 --backlog 5000 --streams 500\n" +
			"  writ bench growth --nodes 1 --datacenters 5,20\n" +
			"  writ bench growth --nodes 1 --history 1000000\n" +
			"  writ bench growth --postgres postgres:///postgres?host=/run/postgresql",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, l)
			if err != nil {
				return err
			}
			if err := checkGrowth(g); err != nil {
				return err
			}
			if g.Postgres != "" {
				if g.Postgres, err = daemon.ServerAddress("postgres", g.Postgres); err != nil {
					return err
				}
			}
			g.Version, g.Log, g.Errors, g.Note = env.Version, log, env.Err, env.Note
			return benchGrowth(cmd.Context(), env, g)
		},
	}
	f := c.Flags()
	f.IntSliceVar(&g.Nodes, "nodes", []int{1, 10, 50}, "numbers of nodes to measure, in this order")
	f.Lookup("nodes").DefValue = "1,10,50"
	f.IntSliceVar(&g.Datacenters, "datacenters", nil,
		"numbers of datacenters to measure as well. Each datacenter has the first number of --nodes")
	f.IntVar(&g.Slots, "slots", 64, "number of parallel calls of each node")
	cli.InRange(f, "slots", &g.Slots, 1, 10_000)
	f.IntVarP(&g.Runs, "runs", "n", 1000, "runs of ten sequential calls per size; other workloads use fewer runs")
	cli.InRange(f, "runs", &g.Runs, 1, 1_000_000)
	f.IntVar(&g.InFlight, "in-flight", 50, "number of runs in flight")
	cli.InRange(f, "in-flight", &g.InFlight, 1, 10_000)
	f.IntVar(&g.Fan, "fan", 1000, "number of parallel calls of a run")
	cli.InRange(f, "fan", &g.Fan, 1, scripts.MaxCalls)
	f.IntVar(&g.Backlog, "backlog", 0,
		"number of runs that wait while runs of sequential calls are measured a second time. 0: no second time")
	cli.InRange(f, "backlog", &g.Backlog, 0, cli.Most)
	f.IntVar(&g.Streams, "streams", 0,
		"number of event streams that are open while runs of sequential calls are measured twice more. 0: none")
	cli.InRange(f, "streams", &g.Streams, 0, mostStreams)
	f.IntVar(&g.History, "history", 0,
		"number of ended runs in the ledger of a coordinator whose lists and pages are measured. 0: none")
	cli.InRange(f, "history", &g.History, 0, cli.Most)
	f.IntVar(&g.Requests, "requests", 50, "number of requests of each list and page")
	cli.InRange(f, "requests", &g.Requests, 1, 1_000_000)
	f.StringVar(&g.Postgres, "postgres", "",
		"postgres:// address of a server for journals and ledger, in databases that are deleted; @FILE reads it from a file")
	f.DurationVar(&g.Idle, "idle", 20*time.Second, "duration of the measurement without work")
	cli.InRange(f, "idle", &g.Idle, time.Millisecond, cli.Longest)
	f.DurationVar(&g.Within, "within", 20*time.Second, "time limit for the submissions of each measurement")
	cli.InRange(f, "within", &g.Within, time.Millisecond, cli.Longest)
	f.StringVar(&g.Profiles, "profile", "", "directory for CPU profiles of the processes of the first size")
	f.StringVar(&g.Data, "data", "",
		"directory for all files, which is kept; by default a temporary one, which is deleted")
	l.Add(c, "error")
	return c
}

// checkGrowth rejects sizes that cannot be measured.
func checkGrowth(g bench.Growth) error {
	if len(g.Nodes) == 0 {
		return writ.Errorf(writ.CodeUsage, "--nodes is empty").WithHint("for example --nodes 1,50,200")
	}
	for _, n := range g.Nodes {
		if n < 1 || n > mostNodes {
			return writ.Errorf(writ.CodeUsage, "--nodes: %d is not between 1 and %d", n, mostNodes).
				WithHint("for example --nodes 1,50,200")
		}
	}
	for _, n := range g.Datacenters {
		if n < 1 || n > mostDatacenters {
			return writ.Errorf(writ.CodeUsage, "--datacenters: %d is not between 1 and %d", n, mostDatacenters).
				WithHint("for example --nodes 1 --datacenters 5,20")
		}
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return writ.Errorf(writ.CodeUsage, "this benchmark needs redis-server, which is not on PATH").WithHint(
			"apt-get install -y redis-server")
	}
	return nil
}

func benchGrowth(ctx context.Context, env *cli.Env, g bench.Growth) error {
	return inDirectory(ctx, &g.Data, func() error {
		report, err := g.Run(ctx)
		if err != nil {
			return err
		}
		return env.Print(terminal.View{
			Data: report, Text: func(wide bool) string { return growthText(report, wide) },
		})
	})
}
