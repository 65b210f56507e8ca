package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/terminal"
)

// waitingLimitMiB is what a supervisor promises to need at most with 100,000 runs that wait.
const waitingLimitMiB = 300

func (a *app) benchCommand() *cobra.Command {
	return family("bench", "Measure on this machine what writ promises", a.benchWaitingCommand(), a.benchSupervisorCommand())
}

func (a *app) benchWaitingCommand() *cobra.Command {
	var limit int64
	var l logFlags
	w := bench.Waiting{}
	c := &cobra.Command{
		Use:   "waiting",
		Short: "Measure what runs cost that wait: memory, CPU, and the time of one more",
		Long: `Starts a datacenter with a supervisor in a process of its own, a real journal and real evaluators, hands in runs that wait for
room on a node, for what another run works on, or for their turn in a deployment, and measures the supervisor: its memory, its CPU while
nothing happens, how long one more run takes, and how it begins again after it was killed.

It fails if the supervisor ever had more memory than the limit.`,
		Example: "  writ bench waiting\n  writ bench waiting --runs 5000 -o json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := a.log(l)
			if err != nil {
				return err
			}
			if w.Runs < 1 || limit < 1 {
				return writ.Errorf(writ.CodeUsage, "--runs and --limit-mib must be at least 1")
			}
			w.Version, w.Log, w.Errors, w.Note = version(), log, a.Err, a.Note
			return a.benchWaiting(cmd.Context(), w, limit)
		},
	}
	f := c.Flags()
	f.IntVar(&w.Runs, "runs", 100_000, "how many runs wait")
	f.StringVar(&w.Data, "data", "", "directory for everything, which stays; a temporary one, removed at the end, if not given")
	f.Int64Var(&limit, "limit-mib", waitingLimitMiB, "the most memory that the supervisor may have, in MiB")
	f.DurationVar(&w.Idle, "idle", 20*time.Second, "how long the CPU is measured while nothing happens")
	f.StringVar(&w.Profile, "cpuprofile", "", "file for a profile of the first supervisor's CPU; it is not killed then, but stopped")
	l.add(c, "error")
	return c
}

func (a *app) benchWaiting(ctx context.Context, w bench.Waiting, limit int64) (err error) {
	if w.Data == "" {
		if w.Data, err = os.MkdirTemp("", "writ-bench-"); err != nil {
			return fmt.Errorf("make a temporary directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(w.Data)) }()
	}
	report, err := w.Run(ctx)
	if isInterrupt(ctx, err) {
		return terminal.Interrupted("")
	}
	if err != nil {
		return err
	}
	if err := a.Print(terminal.Record(report, "", waitingFields(report)...)); err != nil {
		return err
	}
	if peak := report.Peak(); peak >= limit<<20 {
		a.Warn("the supervisor had %d MiB at its most, the limit is %d MiB", peak>>20, limit)
		return &terminal.ExitError{Exit: writ.ExitFailed}
	}
	return nil
}

func waitingFields(r bench.WaitingReport) []terminal.Field {
	seconds := func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
	}
	mib := func(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	cores := func(c float64) string { return fmt.Sprintf("%.1f %% of a core", c*100) }
	return []terminal.Field{
		{Title: "machine", Value: fmt.Sprintf("%d cores, %s, %s, fsync p50 %s", r.Machine.CPUs, r.Machine.OS, r.Machine.Go, seconds(r.Machine.Fsync.P50))},
		{Title: "Redis", Value: r.Redis},
		{Title: "runs that wait", Value: fmt.Sprintf("%d (%d for room on a node, %d for a resource, %d for their deployment)",
			r.Runs, r.BehindSlots, r.BehindResources, r.BehindRevisions)},
		{Title: "accepted", Value: fmt.Sprintf("%.0f runs/s; all waited %s after the last one", r.AcceptedPerSec, seconds(r.SettleSeconds))},
		{Title: "CPU of the supervisor", Value: seconds(r.CPUPerRun) + " for a run until it waits"},
		{Title: "memory, at its most", Value: mib(r.RSSPeak)},
		{Title: "memory, when all wait", Value: fmt.Sprintf("%s; %s after a collection of garbage (%s reachable)", mib(r.RSS), mib(r.RSSCollected), mib(r.Heap))},
		{Title: "goroutines", Value: fmt.Sprint(r.Goroutines)},
		{Title: "evaluators", Value: mib(r.EvaluatorsRSS) + " in processes of their own"},
		{Title: "journal", Value: mib(r.JournalBytes) + " on disk"},
		{Title: "while nothing happens", Value: cores(r.IdleCPU)},
		{Title: "one more run", Value: fmt.Sprintf("p50 %s, p90 %s, max %s from submission to result", seconds(r.OneMore.P50), seconds(r.OneMore.P90), seconds(r.OneMore.Max))},
		{Title: "after SIGKILL", Value: fmt.Sprintf("serves after %s, first result after %s", seconds(r.RestartReady), seconds(r.RestartFirst))},
		{Title: "memory then", Value: fmt.Sprintf("%s; %s at its most; %s", mib(r.RestartRSS), mib(r.RestartPeak), cores(r.RestartIdleCPU))},
	}
}

// benchSupervisorCommand is the supervisor of a benchmark, which asks it for more than a supervisor tells.
func (a *app) benchSupervisorCommand() *cobra.Command {
	var s daemon.Supervisor
	var listen, profile string
	c := &cobra.Command{
		Use: bench.ChildName, Hidden: true, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := a.log(logFlags{level: "error", format: "text"})
			if err != nil {
				return err
			}
			if s.Listener, err = daemon.Listen(listen); err != nil {
				return err
			}
			s.Version, s.Log = version(), log
			return bench.Serve(cmd.Context(), &s, profile, a.In, a.Out)
		},
	}
	f := c.Flags()
	f.StringVar(&s.Data, "data", "", "")
	f.StringSliceVar(&s.Coordinators, "coordinator", nil, "")
	f.StringVar(&s.Redis.URL, "redis", "", "")
	f.StringVar(&listen, "listen", "", "")
	f.StringVar(&profile, "profile", "", "")
	return c
}
