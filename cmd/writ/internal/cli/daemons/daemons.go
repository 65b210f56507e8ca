package daemons

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/coord"
	"writ/internal/tracing"
	"writ/runner"
	"writ/runner/member"
	"writ/supervisor"
	"writ/supervisor/quota"
)

func coordCommand(env *cli.Env) *cobra.Command {
	var data, ledger, listen, metrics, publicURL, tlsCert, tlsKey, webhooks string
	var rosters, coordinators, hosts []string
	var projectRate float64
	var keyless bool
	var shareGiB int64
	var keep coord.Retention
	var streams int
	var traces tracing.Settings
	c := serve.DaemonCommand(env, &cobra.Command{
		Use:   "coord",
		Short: "Run a coordinator: it accepts signed texts, delivers them to datacenters, and shows the results",
		Long: `Runs a coordinator with the API and the dashboard. It has no key that can sign work.

It starts with the rosters in its data directory, where "writ init" writes the first one, or with the rosters in
--roster.`,
		Example: "  writ init --data ./cluster\n  writ coord --data ./cluster",
	}, func(ctx context.Context, log *slog.Logger) error {
		if !(projectRate >= 0) {
			return writ.Errorf(writ.CodeUsage, "--project-rate: %g is not a number of submissions per second", projectRate).
				WithHint("0 removes the limit")
		}
		if keep.Events > keep.Runs {
			return writ.Errorf(writ.CodeUsage, "--keep-events %s is longer than --keep-runs %s", keep.Events, keep.Runs).
				WithHint("runs must be kept at least as long as their events")
		}
		signed, cluster, err := coordinatord.RostersFor(data, rosters)
		if err != nil {
			return err
		}
		l, err := daemon.Listen(listen)
		if err != nil {
			return err
		}
		monitored, err := serve.ListenForMetrics(metrics)
		if err != nil {
			return err
		}
		coordinator, err := coordinatord.New(coordinatord.Config{
			Metrics: monitored, TLSCert: tlsCert, TLSKey: tlsKey,
			Data: data, Ledger: ledger, Listener: l, PublicURL: publicURL, Coordinators: coordinators, Rosters: signed,
			Cluster: cluster, AllowedHosts: hosts, ProjectRate: projectRate, ShareGiB: shareGiB, Webhooks: webhooks,
			Retention: keep, MaxStreams: streams, Traces: traces, Keyless: keyless, Version: env.Version, Log: log,
		})
		if err != nil {
			return err
		}
		return coordinator.Run(ctx)
	})
	f := c.Flags()
	cli.DataFlag(c, &data)
	f.StringVar(&ledger, "ledger", "",
		"postgres:// address of the ledger's database; @FILE reads it from a file. Without it, a file in --data")
	f.StringVar(&listen, "listen", "127.0.0.1:7440", "address of the API and the dashboard")
	serve.MetricsFlag(c, &metrics, "On other addresses than loopback the port uses TLS, as --listen does")
	f.StringVar(&publicURL, "public-url", "",
		"address for supervisors and browsers; the listen address if unset")
	f.StringVar(&tlsCert, "tls-cert", "",
		"file (PEM) with a certificate for browsers and curl, and its chain, such as fullchain.pem of certbot. It is read again when it changes")
	f.StringVar(&tlsKey, "tls-key", "", "file (PEM) with the key of the certificate in --tls-cert")
	f.StringSliceVar(&rosters, "roster", nil,
		"files with signed rosters, oldest first, instead of those in the data directory")
	f.StringSliceVar(&coordinators, "coordinator", nil, "addresses of other coordinators of the cluster")
	f.StringSliceVar(&hosts, "allowed-host", nil,
		"names at which clients and browsers reach the coordinator, in addition to --public-url")
	f.Float64Var(&projectRate, "project-rate", coord.DefaultSubmissionsPerSecond,
		"submissions of 16 KiB per second and project, with bursts of twice that number. Further submissions wait for up to 5 s and are then refused. 0: no limit")
	cli.InRange(f, "project-rate", &projectRate, 0, cli.Most)
	f.Int64Var(&shareGiB, "datacenter-share", 0,
		"maximum GiB of the ledger for the events of one datacenter. 0: half of the disk, divided by the number of datacenters, once less than a quarter is free; 100 GiB with --ledger")
	cli.InRange(f, "datacenter-share", &shareGiB, 0, cli.Most)
	f.DurationVar(&keep.Runs, "keep-runs", coord.DefaultKeepRuns,
		"retention of an ended run with its calls and its signed text, such as 30d. The newest revisions of a deployment stay longer")
	cli.InRange(f, "keep-runs", &keep.Runs, 24*time.Hour, cli.LongestGrant)
	f.DurationVar(&keep.Events, "keep-events", coord.DefaultKeepEvents,
		"retention of events, such as 3d. Streams and webhooks that are further behind miss events")
	cli.InRange(f, "keep-events", &keep.Events, time.Hour, cli.LongestGrant)
	f.IntVar(&streams, "max-streams", coord.DefaultMaxStreams,
		"maximum number of open event streams, and of live pages. One network gets three quarters of each")
	cli.InRange(f, "max-streams", &streams, 1, coord.MostStreams)
	f.StringVar(&webhooks, "webhooks", "", "file (YAML) with webhooks: see docs/manual/webhooks.md")
	f.BoolVar(&keyless, "keyless", false,
		"serve on loopback without coordinator.key and without a login, although the roster names coordinators: to give a coordinator a new key")
	cli.TracesFlags(c, &traces)
	cli.FromEnvironment(f, "ledger", "listen", "public-url", "tls-cert", "tls-key", "webhooks")
	return c
}

func supervisorCommand(env *cli.Env) *cobra.Command {
	var s supervisord.Config
	var listen, metrics, join, cluster string
	c := serve.DaemonCommand(env, &cobra.Command{
		Use:   "supervisor",
		Short: "Run the supervisor of a datacenter: it verifies, evaluates, places and watches",
		Long: `Runs the supervisor of one datacenter. It generates its key at the first start. If the key is not in the
roster, the supervisor registers with the coordinator. It then waits until a root operator adds it with "writ dc
add", which also creates its join token.

It keeps a link to the coordinators. If they are unavailable, the datacenter continues its work.`,
		Example: "  WRIT_JOIN=@dc1.token writ supervisor --data ./dc1 --dc dc1 --coordinator http://127.0.0.1:7440 --redis redis://127.0.0.1:6379/0",
	}, func(ctx context.Context, log *slog.Logger) error {
		var err error
		if s.Cluster, err = serve.TrustedCluster(cluster); err != nil {
			return err
		}
		s.Version, s.Log = env.Version, log
		for name, weight := range s.Weights {
			if weight < 1 || weight > 1000 {
				return writ.Errorf(writ.CodeUsage, "--project-weight %s=%d: a weight is from 1 to 1000", name, weight).
					WithHint("a project with weight 3 gets three times the share of a project with weight 1, the default")
			}
		}
		if err := serve.FindRedis(&s.Redis); err != nil {
			return err
		}
		s.Token, err = serve.JoinToken(join, supervisord.Joined(s.Data))
		// A supervisor that has joined does not need the token, so the file of the token may be missing.
		if err != nil && !supervisord.Used(s.Data) {
			return err
		}
		if s.Listener, err = daemon.Listen(listen); err != nil {
			return err
		}
		if s.Metrics, err = serve.ListenForMetrics(metrics); err != nil {
			return err
		}
		super, err := supervisord.New(s)
		if err != nil {
			return err
		}
		return super.Run(ctx)
	})
	f := c.Flags()
	cli.DataFlag(c, &s.Data)
	f.StringVar(&s.Name, "dc", "", "name of the datacenter, for the registration")
	f.StringSliceVar(&s.Coordinators, "coordinator", nil, "addresses of coordinators")
	f.StringVar(&join, "join", "", "token from writ dc add, for the first start only; @FILE reads the token from a file")
	f.StringVar(&cluster, "cluster", "", "id of the cluster to trust, without a token")
	serve.RedisFlags(c, &s.Redis)
	f.StringVar(&s.RedisListen, "redis-listen", "",
		"address at which Redis listens for nodes, with TLS and a certificate that the supervisor renews")
	f.StringVar(&s.RedisTLSDir, "redis-tls-dir", "",
		"directory for that certificate, readable for Redis; redis-tls in --data if unset")
	f.StringVar(&s.Journal, "journal", "",
		"postgres:// address of the journal's database; @FILE reads it from a file. Without it, a file in --data")
	f.StringVar(&listen, "listen", "127.0.0.1:7441", "address of the node API")
	serve.MetricsFlag(c, &metrics,
		"On other addresses than loopback the port uses TLS, with the certificate of the supervisor")
	f.StringSliceVar(&s.AllowedHosts, "allowed-host", nil,
		"names at which nodes reach the supervisor, in addition to addresses and the name of this machine")
	f.IntVar(&s.MaxOpenRuns, "max-open-runs", quota.DefaultMaxRuns,
		"maximum number of open runs of a project; further runs are rejected")
	cli.InRange(f, "max-open-runs", &s.MaxOpenRuns, 1, cli.Most)
	f.IntVar(&s.MaxOpenCalls, "max-open-calls", quota.DefaultMaxCalls,
		"maximum number of open calls of a project; beyond it, new runs are rejected")
	cli.InRange(f, "max-open-calls", &s.MaxOpenCalls, 1, cli.Most)
	f.DurationVar(&s.KeepRuns, "keep-runs", supervisor.DefaultKeepRuns,
		"retention of an ended run with its calls, results and log lines, such as 30d. A run stays longer while its submission or a resume could arrive")
	cli.InRange(f, "keep-runs", &s.KeepRuns, time.Second, cli.LongestGrant)
	f.StringToIntVar(&s.Weights, "project-weight", nil,
		"NAME=N: the project gets N times the share of other projects, of the evaluator's CPU time and of node slots")
	f.BoolVar(&s.Held, "held", false,
		"start with the datacenter on hold, after an incident or a restore: no job is sent until writ release. Omit it at the next start")
	cli.FromEnvironment(f, "dc", "coordinator", "join", "cluster", "redis-listen", "redis-tls-dir", "journal", "listen")
	return c
}

func runnerCommand(env *cli.Env) *cobra.Command {
	r := runnerd.Config{Drivers: runnerd.DriversAuto}
	var metrics, join, cluster string
	c := serve.DaemonCommand(env, &cobra.Command{
		Use:   "runner",
		Short: "Run a node: it verifies signed jobs and runs them",
		Long: `Runs a node. At the first start it joins with a token from "writ token create". Without a token it needs
--cluster, and waits for "writ node approve".

By default, volumes and images are real and all other drivers are simulated. With --drivers host, networks,
containers, databases and machines are real as well, and change this host. The node does not offer a driver whose
tools are missing. The log lists the drivers and the reasons.`,
		Example: "  writ runner --data ./n1 --name n1 --supervisor http://127.0.0.1:7441 --redis redis://127.0.0.1:6379/0 --join @n1.token",
	}, func(ctx context.Context, log *slog.Logger) error {
		var err error
		if r.Cluster, err = serve.TrustedCluster(cluster); err != nil {
			return err
		}
		r.Version, r.Log = env.Version, log
		if len(r.Supervisor) == 0 {
			return writ.Errorf(writ.CodeUsage, "--supervisor is missing").
				WithHint("the supervisor logs the address of its node API")
		}
		if err := serve.FindRedis(&r.Redis); err != nil {
			return err
		}
		token, err := serve.JoinToken(join, member.Joined(r.Data))
		if err != nil {
			return err
		}
		if token != nil {
			r.Token = token.String()
		}
		if r.Metrics, err = serve.ListenForMetrics(metrics); err != nil {
			return err
		}
		r.Ready = func(drivers []writ.NodeDriver) {
			for _, d := range drivers {
				log.Info("driver", "module", d.Module, "driver", d.Name, "simulated", d.Simulated, "detail", d.Detail)
			}
		}
		node, err := runnerd.New(r)
		if err != nil {
			return err
		}
		return node.Run(ctx)
	})
	f := c.Flags()
	cli.DataFlag(c, &r.Data)
	f.StringVar(&r.Name, "name", serve.HostName(), "name of the node")
	f.Lookup("name").DefValue = "the name of this host"
	f.StringSliceVar(&r.Supervisor, "supervisor", nil,
		"addresses of the node APIs of the datacenter's supervisors, including standbys")
	f.StringVar(&join, "join", "",
		"token of writ token create; @FILE reads it from a file, which only the first start needs")
	f.StringVar(&cluster, "cluster", "", "id of the cluster to trust, without a token")
	serve.RedisFlags(c, &r.Redis)
	f.IntVar(&r.Slots, "slots", runner.DefaultSlots, "number of parallel jobs. 0: the default")
	cli.InRange(f, "slots", &r.Slots, 0, cli.Most)
	serve.CapacityFlags(c, &r.Capacity, "0: the capacity of the host")
	f.StringVar(&r.Transfers, "transfers", "",
		"listen address for other nodes that fetch copies of volumes. If unset, the node sends no copies")
	f.StringSliceVar(&r.Peers, "transfer-allow", nil,
		"range of private addresses, such as 10.1.0.0/16, from which this node may fetch copies (repeatable). "+
			"Without it, it fetches copies from the internet only")
	f.StringVar(&r.Public, "public-transfers", "",
		"HOST:PORT at which other nodes reach --transfers, if it differs")
	f.Int64Var(&r.RateMiB, "transfer-rate", 0, "MiB per second for all copies that other nodes fetch. 0: unlimited")
	cli.InRange(f, "transfer-rate", &r.RateMiB, 0, cli.Most)
	serve.MetricsFlag(c, &metrics, "Only loopback addresses are allowed")
	serve.DriverFlags(c, &r.Drivers, &r.Speed, &r.Host)
	serve.PublishFlag(c, &r.Host, serve.DefaultPublish)
	cli.TracesFlags(c, &r.Traces)
	cli.FromEnvironment(f, "name", "supervisor", "join", "cluster", "slots", "transfers", "transfer-allow",
		"public-transfers", "transfer-rate")
	return c
}
