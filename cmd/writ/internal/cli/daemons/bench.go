//go:build !release

package daemons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/bench/asynqpeer"
	"writ/cmd/writ/internal/bench/peer"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/serve"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/daemon/processes"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// waitingLimitMiB is the promised memory limit of a supervisor with 100,000 waiting runs.
const waitingLimitMiB = 300

// minAsynqPoll keeps the time of ten consecutive calls on an idle asynq near 30 ms.
const minAsynqPoll = 2 * time.Millisecond

// benchCommands returns the commands for developers of writ. Release builds omit them: see bench_release.go.
func benchCommands(env *cli.Env) []*cobra.Command { return []*cobra.Command{benchCommand(env)} }

func benchCommand(env *cli.Env) *cobra.Command {
	var l cli.LogFlags
	s := bench.Speed{}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of writ on this machine",
		Long: `Starts a datacenter in a temporary directory: a supervisor and a runner in separate processes, real
journals, and redis-server if it is on PATH. It submits signed scripts whose calls have no effect. It measures the
time from submission to result, and the CPU time of all processes per call. All work is verified, signed and written
to disk as in production.

It alternates with measurements of asynq, writ's queue library, on a separate Redis. Plain asynq enqueues each call
from the previous one and records no results. "asynq + journal" stores calls and results in Redis. WRIT/THIS is the
rate of writ divided by the rate of the other system.

It measures runs of ten sequential calls, with many runs in flight and with one run at a time. It also measures runs
of one call, and a run with many calls at once. The results depend on this machine, its disk and its other load.

Packaged programs lack this command: build writ from source.`,
		Example: "  writ bench\n  writ bench -n 200 --rounds 1 -o json\n  writ bench --profile ./profiles\n  writ bench --tls",
		Args:    cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, l)
			if err != nil {
				return err
			}
			if err := checkSpeed(s); err != nil {
				return err
			}
			s.Version, s.Log, s.Errors, s.Note = env.Version, log, env.Err, env.Note
			return benchSpeed(cmd.Context(), env, s)
		},
	}
	f := c.Flags()
	f.IntVarP(&s.Runs, "runs", "n", 1000, "runs per round with many runs in flight; other measurements use fewer")
	cli.InRange(f, "runs", &s.Runs, 1, 1_000_000)
	f.IntVar(&s.InFlight, "in-flight", 50, "number of runs in flight")
	cli.InRange(f, "in-flight", &s.InFlight, 1, 10_000)
	f.IntVar(&s.Slots, "slots", 64, "number of parallel calls of the node")
	cli.InRange(f, "slots", &s.Slots, 1, 10_000)
	f.IntVar(&s.Fan, "fan", 1000, "number of parallel calls of a run")
	cli.InRange(f, "fan", &s.Fan, 1, scripts.MaxCalls)
	f.IntVar(&s.Rounds, "rounds", 3, "number of repetitions; the results are medians")
	cli.InRange(f, "rounds", &s.Rounds, 1, 1000)
	f.DurationVar(&s.Within, "within", 20*time.Second, "maximum duration for which a measurement submits runs")
	cli.InRange(f, "within", &s.Within, time.Millisecond, cli.Longest)
	f.StringSliceVar(&s.Beside, "beside", nil, "program with more systems to measure, which `task peers` builds (repeatable)")
	f.BoolVar(&s.TLS, "tls", false, "also measure writ with TLS, as between hosts")
	f.DurationVar(&s.AsynqPoll, "asynq-poll", minAsynqPoll, "mean interval at which bare asynq polls its empty queue")
	cli.InRange(f, "asynq-poll", &s.AsynqPoll, minAsynqPoll, cli.Longest)
	f.StringVar(&s.Data, "data", "",
		"directory for all files, which is kept; by default a temporary one, which is deleted")
	f.StringVar(&s.Profiles, "profile", "", "directory for profiles of the CPU of supervisor and runner")
	l.Add(c, "error")
	c.AddCommand(benchGrowthCommand(env), benchWaitingCommand(env), benchSupervisorCommand(env), benchCoordinatorCommand(env),
		benchRunnerCommand(env), benchAsynqCommand(env))
	return c
}

// checkSpeed rejects a benchmark that cannot be measured.
func checkSpeed(s bench.Speed) error {
	for _, program := range s.Beside {
		if _, err := exec.LookPath(program); err != nil {
			return writ.Errorf(writ.CodeUsage, "%s cannot be started: %v", program, err).
				WithHint("River and Temporal: go build -C cmd/writ/internal/bench/peers -o %s .", "$PWD/bin/peers")
		}
	}
	if _, err := exec.LookPath("redis-server"); s.TLS && err != nil {
		return writ.Errorf(writ.CodeUsage,
			"--tls needs redis-server, which is not on PATH: the stand-in does not support TLS").WithHint(
			"apt-get install -y redis-server")
	}
	return nil
}

func benchSpeed(ctx context.Context, env *cli.Env, s bench.Speed) error {
	return inDirectory(ctx, &s.Data, func() error {
		report, err := s.Run(ctx)
		if err != nil {
			return err
		}
		return env.Print(terminal.View{Data: report, Text: func(wide bool) string { return speedText(report, wide) }})
	})
}

// inDirectory sets `dir` and then calls `do`. If dir is empty, it creates a temporary directory for the files of the
// benchmark.
func inDirectory(ctx context.Context, dir *string, do func() error) (err error) {
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "writ-bench-"); err != nil {
			return fmt.Errorf("make a temporary directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(*dir)) }()
	}
	err = do()
	if cli.IsInterrupt(ctx, err) {
		return terminal.Interrupted("")
	}
	return err
}

func benchWaitingCommand(env *cli.Env) *cobra.Command {
	var limit int64
	var l cli.LogFlags
	w := bench.Waiting{}
	c := &cobra.Command{
		Use:   "waiting",
		Short: "Measure the cost of waiting runs: memory, CPU, and the delay of another run",
		Long: `Starts a datacenter with a supervisor in a separate process, a real journal and real evaluators. It submits
runs that wait for capacity of a node, for a resource, or for their turn in a deployment. Then it measures the
supervisor: its memory, its CPU time while idle, the duration of one more run, and its restart after a kill.

The command fails if the memory of the supervisor ever exceeds the limit.`,
		Example: "  writ bench waiting\n  writ bench waiting --runs 5000 -o json",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, l)
			if err != nil {
				return err
			}
			w.Version, w.Log, w.Errors, w.Note = env.Version, log, env.Err, env.Note
			return benchWaiting(cmd.Context(), env, w, limit)
		},
	}
	f := c.Flags()
	f.IntVar(&w.Runs, "runs", 100_000, "number of waiting runs")
	cli.InRange(f, "runs", &w.Runs, 1, cli.Most)
	f.StringVar(&w.Data, "data", "",
		"directory for all files, which is kept; by default a temporary one, which is deleted")
	f.Int64Var(&limit, "limit-mib", waitingLimitMiB, "memory limit of the supervisor, in MiB")
	cli.InRange(f, "limit-mib", &limit, 1, cli.Most)
	f.DurationVar(&w.Idle, "idle", 20*time.Second, "duration of the CPU measurement without load")
	cli.InRange(f, "idle", &w.Idle, time.Millisecond, cli.Longest)
	f.StringVar(&w.Profile, "cpuprofile", "",
		"file for a CPU profile of the first supervisor, which is then stopped instead of killed")
	l.Add(c, "error")
	return c
}

func benchWaiting(ctx context.Context, env *cli.Env, w bench.Waiting, limit int64) error {
	return inDirectory(ctx, &w.Data, func() error {
		report, err := w.Run(ctx)
		if err != nil {
			return err
		}
		if err := env.Print(terminal.Record(report, "", waitingFields(report)...)); err != nil {
			return err
		}
		if peak := report.Peak(); peak >= limit<<20 {
			env.Warn("the supervisor used up to %d MiB of memory, and the limit is %d MiB", peak>>20, limit)
			return &terminal.ExitError{Exit: writ.ExitFailed}
		}
		return nil
	})
}

func waitingFields(r bench.WaitingReport) []terminal.Field {
	mib := func(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	cores := func(c float64) string { return fmt.Sprintf("%.1f %% of a core", c*100) }
	return []terminal.Field{
		{Title: "machine", Value: machineText(r.Machine)},
		{Title: "Redis", Value: r.Redis},
		{Title: "runs that wait",
			Value: waitingText(r.Runs, r.BehindSlots, r.BehindResources, r.BehindRevisions)},
		{
			Title: "accepted",
			Value: fmt.Sprintf("%.0f runs/s; all waited %s after the last one", r.AcceptedPerSec, seconds(r.WaitingSeconds)),
		},
		{Title: "CPU of the supervisor", Value: seconds(r.CPUPerRun) + " for a run until it waits"},
		{Title: "peak memory", Value: mib(r.RSSPeak)},
		{
			Title: "memory, when all wait",
			Value: fmt.Sprintf("%s; %s after a collection of garbage (%s reachable)", mib(r.RSS), mib(r.RSSCollected),
				mib(r.Heap)),
		},
		{Title: "goroutines", Value: fmt.Sprint(r.Goroutines)},
		{Title: "evaluators", Value: mib(r.EvaluatorsRSS) + " in separate processes"},
		{Title: "journal", Value: mib(r.JournalBytes) + " on disk"},
		{Title: "when idle", Value: cores(r.IdleCPU)},
		{
			Title: "one more run",
			Value: fmt.Sprintf("p50 %s, p90 %s, max %s from submission to result", seconds(r.OneMore.P50),
				seconds(r.OneMore.P90), seconds(r.OneMore.Max)),
		},
		{
			Title: "after SIGKILL",
			Value: fmt.Sprintf("serves after %s, first result after %s", seconds(r.RestartReady), seconds(r.RestartFirst)),
		},
		{
			Title: "memory then",
			Value: fmt.Sprintf("%s; %s at its most; %s", mib(r.RestartRSS), mib(r.RestartPeak), cores(r.RestartIdleCPU)),
		},
	}
}

// benchSupervisorCommand runs the supervisor of a benchmark, which also reports its memory statistics.
func benchSupervisorCommand(env *cli.Env) *cobra.Command {
	var s supervisord.Config
	var listen string
	c := benchDaemon(env, bench.SupervisorName, func(log *slog.Logger) (_ func(context.Context, func()) error, err error) {
		if s.Listener, err = daemon.Listen(listen); err != nil {
			return nil, err
		}
		s.Version, s.Log = env.Version, log
		return processes.Build(func(ready func()) (*supervisord.Supervisor, error) {
			s.Ready = ready
			return supervisord.New(s)
		}), nil
	})
	f := c.Flags()
	f.StringVar(&s.Data, "data", "", "")
	f.StringVar(&s.Journal, "journal", "", "")
	f.StringSliceVar(&s.Coordinators, "coordinator", nil, "")
	f.StringVar(&s.Redis.URL, "redis", "", "")
	cli.FromEnvironment(f, "redis")
	f.StringVar(&s.RedisListen, "redis-listen", "", "")
	f.StringVar(&listen, "listen", "", "")
	return c
}

// benchCoordinatorCommand runs the coordinator of a benchmark, which does not limit the rate of submissions.
func benchCoordinatorCommand(env *cli.Env) *cobra.Command {
	var s coordinatord.Config
	var listen string
	c := benchDaemon(env, bench.CoordinatorName,
		func(log *slog.Logger) (_ func(context.Context, func()) error, err error) {
			if s.Rosters, s.Cluster, err = coordinatord.RostersFor(s.Data, nil); err != nil {
				return nil, err
			}
			if s.Listener, err = daemon.Listen(listen); err != nil {
				return nil, err
			}
			s.Version, s.Log = env.Version, log
			return processes.Build(func(ready func()) (*coordinatord.Coordinator, error) {
				s.Ready = ready
				return coordinatord.New(s)
			}), nil
		})
	f := c.Flags()
	f.StringVar(&s.Data, "data", "", "")
	f.StringVar(&s.Ledger, "ledger", "", "")
	f.IntVar(&s.MaxStreams, "max-streams", 0, "")
	f.StringVar(&listen, "listen", "", "")
	return c
}

// benchRunnerCommand runs nodes of a benchmark. The directory --data contains a directory for each node.
func benchRunnerCommand(env *cli.Env) *cobra.Command {
	r := runnerd.Config{Drivers: runnerd.DriversSimulated, Capacity: bench.Plenty, Grace: time.Millisecond}
	var join string
	var names []string
	c := benchDaemon(env, bench.RunnerName, func(log *slog.Logger) (func(context.Context, func()) error, error) {
		token, err := serve.JoinToken(join, false)
		if err != nil {
			return nil, err
		}
		r.Token, r.Version, r.Log = token.String(), env.Version, log
		return func(ctx context.Context, ready func()) error { return benchNodes(ctx, r, names, ready) }, nil
	})
	f := c.Flags()
	f.StringVar(&r.Data, "data", "", "")
	f.StringSliceVar(&names, "name", nil, "")
	f.StringSliceVar(&r.Supervisor, "supervisor", nil, "")
	f.StringVar(&join, "join", "", "")
	f.StringVar(&r.Redis.URL, "redis", "", "")
	cli.FromEnvironment(f, "redis")
	f.IntVar(&r.Slots, "slots", 0, "")
	return c
}

// benchNodes serves nodes until ctx ends. It calls ready when all of them have joined.
func benchNodes(ctx context.Context, of runnerd.Config, names []string, ready func()) (err error) {
	all, serving := processes.New(ctx)
	defer func() { err = errors.Join(err, all.Stop()) }()
	for _, name := range names {
		node := of
		node.Name, node.Data = name, filepath.Join(of.Data, name)
		if err := all.StartPeer(serving, name, processes.Build(func(ready func()) (*runnerd.Runner, error) {
			node.Ready = func([]writ.NodeDriver) { ready() }
			return runnerd.New(node)
		})); err != nil {
			return err
		}
	}
	ready()
	<-serving.Done()
	return nil
}

// benchDaemon returns a hidden command for a part of a benchmark that runs in its own process. It calls prepare after
// the flags are parsed.
func benchDaemon(
	env *cli.Env, name string, prepare func(*slog.Logger) (run func(context.Context, func()) error, err error),
) *cobra.Command {
	var profile string
	c := &cobra.Command{
		Use: name, Hidden: true, Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.NewLog(env, cli.LogFlags{Level: "error", Format: "text"})
			if err != nil {
				return err
			}
			run, err := prepare(log)
			if err != nil {
				return err
			}
			daemon.Ease()
			return bench.Serve(cmd.Context(), run, profile, env.In, env.Out)
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "")
	return c
}

// benchAsynqCommand runs asynq without writ, for comparison.
func benchAsynqCommand(env *cli.Env) *cobra.Command {
	var p asynqpeer.Peer
	var redis string
	c := &cobra.Command{
		Use: bench.AsynqName, Hidden: true, Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			end, err := p.Connect(redis)
			if err != nil {
				return err
			}
			return errors.Join(peer.Serve(cmd.Context(), &p, env.In, env.Out), end())
		},
	}
	f := c.Flags()
	f.StringVar(&redis, "redis", "", "")
	cli.FromEnvironment(f, "redis")
	f.IntVar(&p.Slots, "slots", 0, "")
	f.DurationVar(&p.Poll, "poll", 0, "")
	f.BoolVar(&p.Journal, "journal", false, "")
	return c
}
