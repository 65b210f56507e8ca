package daemons

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/devcluster"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/scripts"
	"writ/scripts/examples"
)

// demoWithin limits the demo, which usually takes about ten seconds.
const demoWithin = 55 * time.Second

// demoScript is the example that the demo submits.
const demoScript = "web.tengo"

// demoResult is the output of `writ demo -o json`.
type demoResult struct {
	Signer     string      `json:"signer"`
	Datacenter string      `json:"datacenter"`
	Dashboard  string      `json:"dashboard"`
	Run        api.Run     `json:"run"`
	Calls      []writ.Call `json:"calls"`
	Signed     bool        `json:"signed"` // the end of the run was verified with the supervisor's key in the roster
}

func demoCommand(env *cli.Env) *cobra.Command {
	var keep bool
	var l cli.LogFlags
	d := devcluster.Config{Datacenters: 1, Nodes: 2, Drivers: runnerd.DriversAuto}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show a complete example: a cluster on this machine, with a script that is signed, submitted and run",
		Long: `Starts "writ dev" in a temporary directory with a new key. It signs and submits an example script, shows its
progress, verifies the signature on the result and prints the result. Then it exits. With --keep it runs until
Ctrl-C.`,
		Example: "  writ demo\n  writ demo --keep",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, l)
			if err != nil {
				return err
			}
			d.Version, d.Log, d.Note = env.Version, log, env.Note
			return demo(cmd.Context(), env, d, keep)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep running afterwards, with the dashboard, until Ctrl-C")
	c.Flags().Float64Var(&d.Speed, "simulate-speed", 1, "factor for the durations of simulated drivers. 0: at once")
	cli.InRange(c.Flags(), "simulate-speed", &d.Speed, 0, serve.MostSpeed)
	l.Add(c, "error")
	return c
}

// demo starts a development cluster and runs the example in it.
func demo(ctx context.Context, env *cli.Env, d devcluster.Config, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "writ-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() {
		if rerr := os.RemoveAll(dir); err == nil {
			err = rerr
		}
	}()
	d.Data = dir
	if d.Listener, err = daemon.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan devcluster.Running, 1), make(chan error, 1)
	d.Ready = func(c devcluster.Running) { ready <- c }
	go func() { ended <- devcluster.New(d).Run(running) }()

	select {
	case err := <-ended:
		return err
	case cluster := <-ready:
		err = showDemo(ctx, env, cluster, keep)
	}
	stop()
	if stopped := <-ended; err == nil {
		err = stopped
	}
	if ctx.Err() != nil {
		if keep {
			return nil
		}
		return terminal.Interrupted("")
	}
	return err
}

// showDemo submits the example, watches it and prints the result.
func showDemo(ctx context.Context, env *cli.Env, cluster devcluster.Running, keep bool) error {
	within, stop := context.WithTimeout(ctx, demoWithin)
	defer stop()
	for _, d := range cluster.Drivers {
		env.Note("  %s", driverLine(d))
	}
	result, err := runExample(within, env, cluster)
	if err != nil {
		if within.Err() != nil && ctx.Err() == nil {
			return writ.Errorf(writ.CodeTimeout, "the demo did not end in %s", demoWithin).
				WithHint("is this machine very busy? --log-level info shows more")
		}
		return err
	}
	result.Dashboard = cluster.URL
	err = env.Print(terminal.View{
		Data: result, Names: []string{string(result.Run.ID)}, Text: func(bool) string { return demoText(result, keep) },
	})
	if err != nil || !keep {
		return err
	}
	env.Note("\nThe cluster stays up until Ctrl-C. In another shell:\n  export WRIT_CONFIG=%s\n  writ run list\n  writ login --web          # prints an address that opens the dashboard", cluster.Client)
	<-ctx.Done()
	return nil
}

func runExample(ctx context.Context, env *cli.Env, cluster devcluster.Running) (demoResult, error) {
	file, err := config.Load(cluster.Client)
	if err != nil {
		return demoResult{}, err
	}
	one, err := file.Choose("", config.Context{})
	if err != nil {
		return demoResult{}, err
	}
	c, err := client.New(one, filepath.Dir(cluster.Client), client.Keys{})
	if err != nil {
		return demoResult{}, err
	}
	roster, err := c.Roster.Newest(ctx)
	if err != nil {
		return demoResult{}, err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return demoResult{}, err
	}
	defer by.Close()
	signed, err := signExample(roster, by)
	if err != nil {
		return demoResult{}, err
	}
	datacenter := roster.Datacenters[0]
	env.Note("\n%s is signed by %s (%s) for %s", demoScript, by.Name, cli.Fingerprint(by.PublicKey()), datacenter.Name)
	submission, err := c.Orders.Submit(ctx, signed)
	if err != nil {
		return demoResult{}, err
	}
	run, err := c.Streams.Watch(ctx, submission.Run, runview.NewProgress(env.Terminal, roster, time.Time{}).Watcher())
	if err != nil {
		return demoResult{}, err
	}
	summary, err := client.Outcome(roster, run)
	if err != nil {
		return demoResult{}, fmt.Errorf("verify how the run ended: %w", err)
	}
	if summary.State != writ.RunSucceeded {
		return demoResult{}, runview.Failed(env, run, summary.Failure, "", scripts.Bundle{})
	}
	run.Output = summary.Output
	calls, err := c.Runs.Calls(ctx, run.ID)
	return demoResult{Signer: run.Signer, Datacenter: datacenter.Name, Run: run, Calls: calls, Signed: true}, err
}

// signExample signs the example for the first datacenter of the roster.
func signExample(roster *identity.Roster, by *client.Person) ([]byte, error) {
	source, err := examples.Files.ReadFile(demoScript)
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	project, err := client.Project(roster, client.DefaultProject)
	if err != nil {
		return nil, err
	}
	order := client.Order{
		Script: client.NewScript(demoScript, source), Datacenter: roster.Datacenters[0].ID, Project: project,
		Expires: identity.DefaultValidity, Deadline: signing.DefaultDeadline, MaxCalls: scripts.UsualCalls,
	}
	return order.Sign(roster, by)
}

// demoText formats the result of the demo.
func demoText(r demoResult, keep bool) string {
	calls := terminal.List(nil, r.Calls, func(writ.Call) string { return "" },
		cli.Column("CALL", func(c writ.Call) string { return fmt.Sprint(c.Seq) }),
		cli.Column("OPERATION", func(c writ.Call) string { return c.Operation }),
		cli.Column("NAME", func(c writ.Call) string { return c.Name }),
		cli.Column("NODE", func(c writ.Call) string { return c.NodeName }),
		cli.Column("DRIVER", func(c writ.Call) string { return cli.DriverName(c) }),
		cli.Column("TOOK", runview.Duration),
		cli.Column("CHANGE", func(c writ.Call) string { return string(c.Change) }),
	)
	gone := " (it ends with the demo; --keep keeps it)"
	if keep {
		gone = ""
	}
	return "\n" + terminal.Fields([]terminal.Field{
		{Title: "signer", Value: r.Signer},
		{Title: "datacenter", Value: r.Datacenter},
		{Title: "run", Value: string(r.Run.ID)},
		{Title: "state", Value: string(r.Run.State) + ", signed by the datacenter's supervisor and verified"},
		{Title: "took", Value: runview.TookRun(r.Run)},
	}, false) + "\n" + calls.Text(false) + "\noutput\n" + runview.OutputText(r.Run.Output) +
		"\ndashboard: " + r.Dashboard + gone + "\n"
}
